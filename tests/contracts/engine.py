"""An empty DuckDB for statements of a contract: one database for a process, since each takes long to open."""

from __future__ import annotations

from functools import cache

import duckdb


@cache
def _database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


def connected() -> duckdb.DuckDBPyConnection:
    """Return a connection that sees nothing of what others registered; close it by `with`."""
    return _database().cursor()
