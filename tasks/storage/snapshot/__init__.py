"""The private snapshot of a table: made, bounded, fingerprinted."""
