"""Kinds of domain: what values a column may have, and into which cells they fall."""
