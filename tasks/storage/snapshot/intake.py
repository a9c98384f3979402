"""From what the reading fills to the tables of a snapshot.

One statement reads, encodes and keeps what the codes do not tell (`contracts.sql.encoding.intake_select`) in the
table `intake`. That becomes, in the order of the source and without a second copy of the codes:

    codes      the codes
    raw        the rows as delivered of which the codes do not say all: `ROW`, the place in `codes`, then the columns
    units      the id of each row's unit, where units have one; the rows of `codes`, in their order
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import duckdb

from contracts.contract.contract import Contract
from contracts.domains.text import KeyColumn, UnitOrder
from contracts.domains.value_lattices import ValueLattice
from contracts.domains.value_sql import identifier
from contracts.sql.encoding import STRAY, UNIT, intake_select
from tasks.storage.duckdb_session import Explanation, run
from tasks.storage.snapshot.bounding import bound_contributions, order_units

INTAKE: Final = "intake"
ROW: Final = "\x05row"
"""The column of `raw` that says which row of `codes` it is."""
PACKED: Final = "SET force_compression = 'bitpacking'"
"""Codes are small whole numbers: to try DuckDB's other ways for each column is work and saves no room."""
UNITS: Final = "units"
OF_UNIT: Final = "unit"

Lattices = Sequence[ValueLattice | KeyColumn]


def encoded(contract: Contract, lattices: Lattices, *, columns: Sequence[str], query: str) -> str:
    """Write the SELECT that fills `intake` from a query.

    Args:
        contract: the contract.
        lattices: what is encoded beside the codes; places of a unit's rows come when these are bounded.
        columns: the query's columns.
        query: SQL of the source's rows, as delivered.
    """
    at_once = tuple(each for each in lattices if not isinstance(each, UnitOrder))
    return intake_select(contract, columns_present=columns, relation=f"({query})", lattices=at_once)


def lay_apart(
    connection: duckdb.DuckDBPyConnection,
    contract: Contract,
    lattices: Lattices,
    *,
    key: bytes,
    where: str,
    explain: Explanation,
) -> None:
    """Bound the rows of each unit and make `codes`, `raw` and `units` of `intake`, which is gone afterwards.

    Args:
        connection: the open snapshot with its table `intake`.
        contract: the contract.
        lattices: what is encoded beside the codes.
        key: the workspace's snapshot key.
        where: the source, for messages.
        explain: as for `duckdb_session.attempt`.
    Raises:
        GateBroken: a row has no id of its unit.
    """
    unit = contract.unit.column
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
    for statement in _apart(connection, unit is not None):
        run(connection, lambda: connection.execute(statement), explain=explain)  # noqa: B023


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
