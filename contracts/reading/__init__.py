"""How text is read: YAML with its lines, scalars as they are written, what a schema refuses."""
