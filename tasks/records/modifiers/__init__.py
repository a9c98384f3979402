"""What versions and records have of the modifiers of synthetic rows."""
