"""Noisy tables: measured, refined, compared with the version before."""
