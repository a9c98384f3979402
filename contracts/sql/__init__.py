"""SQL that a contract becomes: cell codes, checks of values, and selects that read one row at a time."""
