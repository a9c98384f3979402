"""Contribution bounding: at most k rows a privacy unit, chosen uniformly at random and for each unit by itself.

A unit with more than k rows keeps the k rows with the smallest draws, where

    draw = HMAC-SHA256(key, ordinal ":" unit)        ordinal: place of the row among the unit's own rows, from 1.

Under a pseudorandom function that is a uniform choice of k ordinals, independent across units. It depends on nothing
but the unit's own id and its own number of rows, so adding or removing another unit changes no choice, and the same
key on the same source chooses the same rows again.
"""

from __future__ import annotations

import duckdb

from contracts.code_sql import identifier
from tasks.duckdb_session import Explanation, attempt, run
from tasks.snapshot.snapshot import subkey
from tasks.source.reading import break_gate

BLOCK_BYTES = 64


def bound_contributions(
    connection: duckdb.DuckDBPyConnection,
    *,
    unit: str,
    max_rows_per_unit: int,
    key: bytes,
    where: str,
    explain: Explanation,
) -> None:
    """Delete from `raw` what a unit has beyond `max_rows_per_unit` rows.

    Args:
        connection: the open snapshot with its table `raw`.
        unit: the column with the unit's id; ids are compared as texts, without the spaces around them.
        max_rows_per_unit: k, at least 1.
        key: the workspace's snapshot key.
        where: the source, for messages.
        explain: as for `duckdb_session.attempt`.
    Raises:
        GateBroken: a row has no unit id; without one its unit cannot be bounded.
    Privacy: afterwards adding or removing one unit changes at most k rows, and none of another unit.
    """
    text = f"trim(CAST({identifier(unit)} AS VARCHAR))"
    nobody = f"SELECT 1 FROM raw WHERE coalesce({text}, '') = '' LIMIT 1"
    if run(connection, lambda: connection.execute(nobody).fetchone(), explain=explain):
        remedy = "give every row the id of its unit, or leave such rows out with `select:`"
        break_gate(
            where, f"column {unit!r}", "rows without an id of their privacy unit", "an id in every row", remedy
        )
    crowded = f"CREATE TEMP TABLE crowded AS SELECT {text} AS unit FROM raw GROUP BY ALL HAVING count(*) > ?"
    run(connection, lambda: connection.execute(crowded, [max_rows_per_unit]), explain=explain)
    if attempt(lambda: connection.execute("SELECT 1 FROM crowded LIMIT 1").fetchone(), explain):
        deletion, parameters = _deletion(text), [*_pads(key), max_rows_per_unit]
        run(connection, lambda: connection.execute(deletion, parameters), explain=explain)
    attempt(lambda: connection.execute("DROP TABLE crowded"), explain)


def _pads(key: bytes) -> list[object]:
    """Return the outer and the inner pad of HMAC-SHA256 for the subkey of bounding."""
    block = subkey(key, "contribution bounding").ljust(BLOCK_BYTES, b"\0")
    return [bytes(byte ^ 0x5C for byte in block), bytes(byte ^ 0x36 for byte in block)]


def _deletion(text: str) -> str:
    """Write the statement that ranks the rows of each crowded unit by their draws and deletes those beyond k.

    Parameters: the outer pad, the inner pad, k.
    """
    return f"""
        DELETE FROM raw WHERE rowid IN (
            SELECT row FROM (
                SELECT row, row_number() OVER (PARTITION BY unit ORDER BY draw, ordinal) AS place FROM (
                    SELECT row, unit, ordinal,
                        sha256(?::BLOB || unhex(sha256(?::BLOB || encode(ordinal || ':' || unit)))) AS draw
                    FROM (
                        SELECT rowid AS row, {text} AS unit,
                            row_number() OVER (PARTITION BY {text} ORDER BY rowid) AS ordinal
                        FROM raw WHERE {text} IN (FROM crowded)
                    )
                )
            ) WHERE place > ?
        )
    """
