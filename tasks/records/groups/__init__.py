"""The groups of fields of a record that every product has."""
