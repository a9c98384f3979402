"""Periods of a release, blocks of time of an account, and what a run that is due draws again."""
