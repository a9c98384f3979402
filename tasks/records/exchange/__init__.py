"""Forms in which offices exchange tables and their descriptions, made from a record and its data files."""
