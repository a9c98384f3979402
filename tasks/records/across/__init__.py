"""What a record says of a release across sites: its execution, and fields that are filled in another way."""
