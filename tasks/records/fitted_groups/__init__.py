"""The groups of fields of a record of synthetic rows or of a classifier."""
