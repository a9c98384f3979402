"""From what the reading fills to the tables of a snapshot.

One statement reads, encodes and keeps what the codes do not tell (`contracts.sql.encoding.intake_select`) in the
table `intake`. That becomes, in the order of the source and without a second copy of the codes:

    codes      the codes
    raw        the rows as delivered of which the codes do not say all: `ROW`, the place in `codes`, then the columns
    units      the id of each row's unit, where units have one; the rows of `codes`, in their order
    seen       what the operator's look tells of ids: `SEEN`
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import duckdb

from contracts.contract.contract import Contract
from contracts.domains.text import KeyColumn, UnitOrder
from contracts.domains.value_lattices import ValueLattice
from contracts.domains.value_sql import identifier, literal
from contracts.sql.encoding import HASHED, STRAY, UNIT, intake_select
from tasks.storage.duckdb_session import Explanation, run
from tasks.storage.snapshot.bounding import bound_contributions, order_units

INTAKE: Final = "intake"
ROW: Final = "\x05row"
"""The column of `raw` that says which row of `codes` it is."""
PACKED: Final = "SET force_compression = 'bitpacking'"
"""Codes are small whole numbers: to try DuckDB's other ways for each column is work and saves no room."""
UNITS: Final = "units"
OF_UNIT: Final = "unit"
SEEN: Final = "seen"
"""By column of ids: the rows with one, its different values, those that come once, and the most rows of one. Of the
unit's id: the rows as delivered, the rows that were kept, and nothing."""

Lattices = Sequence[ValueLattice | KeyColumn]


def encoded(
    contract: Contract, lattices: Lattices, *, columns: Sequence[str], query: str, counted: Sequence[str] = ()
) -> str:
    """Write the SELECT that fills `intake` from a query.

    Args:
        contract: the contract.
        lattices: what is encoded beside the codes; places of a unit's rows come when these are bounded.
        columns: the query's columns.
        query: SQL of the source's rows, as delivered.
        counted: columns of the query whose different values are counted, each as a hash until `lay_apart`.
    """
    at_once = tuple(each for each in lattices if not isinstance(each, UnitOrder))
    return intake_select(contract, columns_present=columns, relation=f"({query})", lattices=at_once, hashed=counted)


def lay_apart(
    connection: duckdb.DuckDBPyConnection,
    contract: Contract,
    lattices: Lattices,
    *,
    key: bytes,
    where: str,
    explain: Explanation,
    counted: Sequence[str] = (),
) -> None:
    """Bound the rows of each unit and make `codes`, `raw` and `units` of `intake`, which is gone afterwards.

    Args:
        connection: the open snapshot with its table `intake`.
        contract: the contract.
        lattices: what is encoded beside the codes.
        key: the workspace's snapshot key.
        where: the source, for messages.
        explain: as for `duckdb_session.attempt`.
        counted: as for `encoded`.
    Raises:
        GateBroken: a row has no id of its unit.
    """
    unit = contract.unit.column
    for statement in _count(unit, counted):
        run(connection, lambda: connection.execute(statement), explain=explain)  # noqa: B023
    ordered = any(isinstance(each, UnitOrder) for each in lattices)
    if unit is not None:
        most = contract.unit.max_rows_per_unit
        bound = {"unit": UNIT, "key": key, "explain": explain, "table": INTAKE}
        dropped = bound_contributions(
            connection,
            named=unit,
            max_rows_per_unit=most,
            where=where,
            **bound,  # type: ignore[arg-type]
        )
        if dropped or ordered:
            relation = order_units(connection, named=unit, **bound) if ordered else INTAKE  # type: ignore[arg-type]
            _close_up(connection, contract, lattices, relation, explain)
        kept = f"UPDATE {SEEN} SET different = (SELECT count(*) FROM {INTAKE})"
        run(connection, lambda: connection.execute(kept), explain=explain)
    for statement in _apart(connection, unit is not None):
        run(connection, lambda: connection.execute(statement), explain=explain)  # noqa: B023


def _count(unit: str | None, counted: Sequence[str]) -> list[str]:
    """Write the statements that count what `SEEN` tells, and drop the hashes that were counted."""
    made = f"CREATE TABLE {SEEN} (name VARCHAR, number BIGINT, different BIGINT, once BIGINT, most BIGINT)"
    if unit is not None:
        return [made, f"INSERT INTO {SEEN} SELECT {literal(unit)}, count(*), NULL, NULL, NULL FROM {INTAKE}"]
    statements = [made]
    for place, name in enumerate(counted):
        hashed = identifier(f"{HASHED}{place}")
        values = f"SELECT count(*) AS n FROM {INTAKE} WHERE {hashed} IS NOT NULL GROUP BY {hashed}"
        told = f"{literal(name)}, coalesce(sum(n), 0), count(*), count(*) FILTER (n = 1), coalesce(max(n), 0)"
        statements += [
            f"INSERT INTO {SEEN} SELECT {told} FROM ({values})",
            f"ALTER TABLE {INTAKE} DROP COLUMN {hashed}",
        ]
    return statements


def _close_up(
    connection: duckdb.DuckDBPyConnection, contract: Contract, lattices: Lattices, relation: str, explain: Explanation
) -> None:
    """Write `intake` again without the rows that were dropped, so that places in it are those of its rows."""
    names = [column.name for column in contract.columns] + [each.name for each in lattices] + [UNIT, STRAY]
    kept = f"CREATE TABLE kept AS SELECT {', '.join(map(identifier, names))} FROM {relation}"
    for statement in (kept, f"DROP TABLE {INTAKE}", f"ALTER TABLE kept RENAME TO {INTAKE}"):
        run(connection, lambda: connection.execute(statement), explain=explain)  # noqa: B023


def _apart(connection: duckdb.DuckDBPyConnection, units: bool) -> list[str]:
    """Write the statements that take the columns apart; dropping a column copies none of the others."""
    stray, unit = identifier(STRAY), identifier(UNIT)
    rows = f"SELECT rowid AS {identifier(ROW)}, unnest({stray}) AS row FROM codes WHERE {stray} IS NOT NULL"
    statements = [
        f"ALTER TABLE {INTAKE} RENAME TO codes",
        # Few rows, read once: to find how each column of texts is best compressed would take as long as writing them.
        "SET force_compression = 'uncompressed'",
        f"CREATE TABLE raw AS SELECT {identifier(ROW)}, unnest(row) FROM ({rows})",
        "RESET force_compression",
        f"ALTER TABLE codes DROP COLUMN {stray}",
    ]
    if units:
        statements += [
            f"CREATE TABLE {UNITS} AS SELECT {unit} AS {OF_UNIT} FROM codes",
            f"ALTER TABLE codes DROP COLUMN {unit}",
        ]
    return statements
