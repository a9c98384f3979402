"""The rules that a published version is checked by."""
