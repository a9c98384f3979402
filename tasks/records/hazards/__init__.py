"""Known hazards, and what a release does about each."""
