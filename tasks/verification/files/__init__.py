"""Files of a version, read with bounds."""
