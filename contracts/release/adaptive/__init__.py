"""Adaptive tables: what a spec says of them, and the levels of detail that a group may get."""
