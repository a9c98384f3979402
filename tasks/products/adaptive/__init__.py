"""Adaptive tables: planned, made and verified."""
