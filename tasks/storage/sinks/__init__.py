"""Copies of published versions in other stores."""
