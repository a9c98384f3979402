"""Contribution bounding: at most k rows a privacy unit, chosen uniformly at random and for each unit by itself.

A unit with more than k rows keeps the k rows with the smallest draws, where

    draw = hex SHA-256(outer || hex SHA-256(inner || ordinal ":" unit))

    ordinal        place of the row among the unit's own rows in the order of the source, from 1
    outer, inner   two keys of 64 hexadecimal digits, so of one block of SHA-256 each: NMAC, over texts alone

Under a pseudorandom function that is a uniform choice of k ordinals, independent across units. It depends on nothing
but the unit's own id and its own number of rows, so adding or removing another unit changes no choice, no value of a
row does, and the same key on the same source chooses the same rows again. Any engine that has SHA-256 of a text and
knows the order of the rows makes the same choice.

Source: Bellare, Canetti, Krawczyk 1996 (NMAC); here each key is a block of its own, and the inner digest is written
in hexadecimal digits.
"""

from __future__ import annotations

from typing import NoReturn

import duckdb

from contracts.domains.text import UnitOrder
from contracts.domains.value_sql import identifier
from contracts.sql.encoding import unit_sql
from tasks.storage.duckdb_session import Explanation, attempt, run
from tasks.storage.snapshot.snapshot import subkey
from tasks.storage.sources.typed_rows import break_gate


def choice_keys(key: bytes) -> tuple[str, str]:
    """Return the outer and the inner key of the choice, each of 64 hexadecimal digits.

    Args:
        key: the workspace's snapshot key.
    """
    return subkey(key, "contribution bounding: outer").hex(), subkey(key, "contribution bounding: inner").hex()


def order_keys(key: bytes) -> tuple[str, str]:
    """Return the outer and the inner key of the order of a unit's rows, which tells nothing of the choice."""
    return subkey(key, "order of a unit: outer").hex(), subkey(key, "order of a unit: inner").hex()


def bound_contributions(
    connection: duckdb.DuckDBPyConnection,
    *,
    table: str,
    unit: str,
    named: str,
    max_rows_per_unit: int,
    key: bytes,
    where: str,
    explain: Explanation,
) -> bool:
    """Delete from a table what a unit has beyond `max_rows_per_unit` rows.

    Args:
        connection: the open snapshot.
        table: the table, in the order of the source.
        unit: its column with the unit's id; ids are compared as texts, without the spaces around them.
        named: how the source names that column, for messages.
        max_rows_per_unit: k, at least 1.
        key: the workspace's snapshot key.
        where: the source, for messages.
        explain: as for `duckdb_session.attempt`.
    Returns:
        Whether a row was deleted; the places of the others then have gaps.
    Raises:
        GateBroken: a row has no unit id; without one its unit cannot be bounded.
    Privacy: afterwards adding or removing one unit changes at most k rows, and none of another unit.
    """
    text = unit_sql(unit)
    nobody = f"SELECT 1 FROM {table} WHERE coalesce({text}, '') = '' LIMIT 1"
    if run(connection, lambda: connection.execute(nobody).fetchone(), explain=explain):
        refuse_nobody(where, named)
    crowded = f"CREATE TEMP TABLE crowded AS SELECT {text} AS unit FROM {table} GROUP BY ALL HAVING count(*) > ?"
    run(connection, lambda: connection.execute(crowded, [max_rows_per_unit]), explain=explain)
    some = attempt(lambda: connection.execute("SELECT 1 FROM crowded LIMIT 1").fetchone(), explain)
    if some:
        deletion, parameters = _deletion(table, text), [*choice_keys(key), max_rows_per_unit]
        run(connection, lambda: connection.execute(deletion, parameters), explain=explain)
    attempt(lambda: connection.execute("DROP TABLE crowded"), explain)
    return some is not None


def order_units(
    connection: duckdb.DuckDBPyConnection, *, table: str, unit: str, named: str, key: bytes, explain: Explanation
) -> str:
    """Put the rows of each unit in an order of its own, uniform at random, and return a relation that has the places.

    The order is that of draws as above, under keys of its own, of the rows that the unit keeps. Like the choice it
    depends on the unit's id and its number of rows alone, and on no value.

    Args:
        connection: the open snapshot.
        table: the table, with at most k rows a unit.
        unit: its column with the unit's id.
        named: how the source names that column.
        key: the workspace's snapshot key.
        explain: as for `duckdb_session.attempt`.
    Returns:
        SQL for the table, in its order, with a column more (`contracts.domains.text.UnitOrder`): places from 1.
    Privacy: adding or removing one unit moves no row of another one.
    """
    places = _places(table, unit_sql(unit))
    run(connection, lambda: connection.execute(places, [*order_keys(key)]), explain=explain)
    name = identifier(UnitOrder(named).name)
    return f"(SELECT {table}.*, places.place AS {name} FROM {table} POSITIONAL JOIN places)"


def refuse_nobody(where: str, unit: str) -> NoReturn:
    """Raise that a row has no id of its privacy unit."""
    found = "rows without an id of their privacy unit, or with one above a declared `numbers_up_to:`"
    remedy = "give every row the id of its unit, or leave such rows out with `select:`"
    break_gate(where, f"column {unit!r}", found, "an id in every row", remedy)


def _places(table: str, text: str) -> str:
    """Write the statement that makes `places`, a row for each of the table. Parameters: the outer and inner key."""
    return f"""
        CREATE TEMP TABLE places AS SELECT place FROM (
            SELECT row, row_number() OVER (PARTITION BY unit ORDER BY draw, ordinal)::UINTEGER AS place FROM (
                SELECT row, unit, ordinal,
                    sha256(?::VARCHAR || sha256(?::VARCHAR || ordinal || ':' || unit)) AS draw
                FROM (
                    SELECT rowid AS row, {text} AS unit,
                        row_number() OVER (PARTITION BY {text} ORDER BY rowid) AS ordinal
                    FROM {table}
                )
            )
        ) ORDER BY row
    """


def _deletion(table: str, text: str) -> str:
    """Write the statement that ranks the rows of each crowded unit by their draws and deletes those beyond k.

    Parameters: the outer key, the inner key, k.
    """
    return f"""
        DELETE FROM {table} WHERE rowid IN (
            SELECT row FROM (
                SELECT row, row_number() OVER (PARTITION BY unit ORDER BY draw, ordinal) AS place FROM (
                    SELECT row, unit, ordinal,
                        sha256(?::VARCHAR || sha256(?::VARCHAR || ordinal || ':' || unit)) AS draw
                    FROM (
                        SELECT rowid AS row, {text} AS unit,
                            row_number() OVER (PARTITION BY {text} ORDER BY rowid) AS ordinal
                        FROM {table} WHERE {text} IN (FROM crowded)
                    )
                )
            ) WHERE place > ?
        )
    """
