"""The fence: what the house does today, in files that a change of its form may not change."""
