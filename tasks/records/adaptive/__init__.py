"""What a record says of adaptive tables, and their files."""
