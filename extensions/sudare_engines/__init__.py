"""Counting where the rows are: an engine of its own keeps the stage, and only counts come back."""
