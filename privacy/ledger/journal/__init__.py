"""The journal: entries that are chained, signed and found again."""
