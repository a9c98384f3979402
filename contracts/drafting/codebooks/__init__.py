"""Codebooks: what a document says about columns; the list in CSV is read here, other forms by extensions."""
