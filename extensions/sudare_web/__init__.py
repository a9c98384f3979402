"""Sudare in a browser: the review site (`sudare serve`) and the studio (`sudare studio`)."""
