"""Counts down a tree of places: what a spec declares, and the public file that says which places there are."""
