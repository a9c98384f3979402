"""An empty DuckDB for statements of a contract: one database for a process, since each takes long to open."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import duckdb


@cache
def _database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


def connected() -> duckdb.DuckDBPyConnection:
    """Return a connection that sees nothing of what others registered; close it by `with`."""
    return _database().cursor()


def rows_as_written(connection: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[Any, ...]]:
    """Run a statement without DuckDB's optimizer, which takes ten times as long over half a megabyte as the rest."""
    connection.execute("PRAGMA disable_optimizer")
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.execute("PRAGMA enable_optimizer")


def in_numbers(marks: Sequence[int]) -> tuple[int, ...]:
    """Write the marks of a row as a stage has them: a bit for each, 30 in a number."""
    return tuple(
        sum(mark << bit for bit, mark in enumerate(marks[begin : begin + 30])) for begin in range(0, len(marks), 30)
    )
