"""The coordinator's side of a run across sites, and how a site answers: round after round, through their grants."""
