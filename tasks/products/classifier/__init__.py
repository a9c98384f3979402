"""Classifiers: planned, trained, checked."""
