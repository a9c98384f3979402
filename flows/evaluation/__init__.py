"""Evaluations and attacks of published versions."""
