"""Synthetic rows: planned, fitted, sampled, checked."""
