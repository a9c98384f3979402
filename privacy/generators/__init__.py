"""Generators of synthetic microdata: each plans without data, is fitted through a grant, and gives a model."""
