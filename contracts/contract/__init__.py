"""The data contract: its columns, privacy terms, constraints and checks, read from ODCS."""
