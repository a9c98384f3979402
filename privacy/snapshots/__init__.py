"""Encoded snapshots as handles: the only code of privacy that reads or counts rows, when a grant opens one."""
