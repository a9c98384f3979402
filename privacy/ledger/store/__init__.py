"""The database of a ledger: its schema, rows and transactions."""
