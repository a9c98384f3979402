"""Codebooks: what a document says about columns, in the forms that archives and statistical offices use."""
