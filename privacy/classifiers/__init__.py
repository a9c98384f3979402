"""Classifiers that may be published: what they consist of, and how they are trained privately."""
