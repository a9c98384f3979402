"""What versions and records have of the options of synthetic rows."""
