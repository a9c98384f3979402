"""The values of a snapshot as the checks see them: for each column a small table of its different values.

A check of a column holds or not by which values occur, not by how often, so it is run on the different ones: they
are found once, quickly where they are few, and every further look at them is cheap. A value that fits breaks no
check, and the snapshot has none of those: what is left are the values that were kept, and nulls. They are read as the
encoding reads them:

    COLUMN         the text as delivered, or the category's own spelling; null where missing
    COLUMN as TO   the same as an integer, number or date; null where it cannot be read

A picture is seen as `a picture`, and as its least and its largest level in two rows; null where it does not have the
declared places, each a whole number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb

from contracts.contract.contract import Column, Contract
from contracts.domains.statements import Check
from contracts.domains.value_sql import identifier, literal
from contracts.sql.encoding import violation_sql
from tasks.storage.snapshot.snapshot import OF_UNIT, ROW, UNITS

STRAYS = "snapshot.raw"
"""The rows as delivered of which the codes do not say all (`tasks.storage.snapshot.snapshot`)."""
CODES = "snapshot.codes"
UNWRITABLE = "(a value without a text)"
"""Stands for a value that DuckDB cannot write as a text, such as the earliest timestamp there is."""


@dataclass(frozen=True)
class DistinctValues:
    """One relation and the checks that it decides.

    Args:
        relation: its name in DuckDB.
        about: what it holds, for people.
        checks: the checks to run on it.
    """

    relation: str
    about: str
    checks: tuple[Check, ...]


def lay_out(
    connection: duckdb.DuckDBPyConnection, contract: Contract, checks: Sequence[Check]
) -> tuple[DistinctValues, ...]:
    """Make the relations that the checks are run on.

    Args:
        connection: in memory, with the snapshot attached read-only under the name `snapshot`.
        contract: the contract of the snapshot.
        checks: the contract's checks.
    Returns:
        What concerns the whole table first (its columns, its rows, the units' ids), then one relation a column.
    """
    laid = _of_the_table(connection, contract, checks)
    for place, column in enumerate(contract.columns):
        own = tuple(check for check in checks if check.column == column.name)
        if column.length > 1:
            reading = _reading_pictures(column, own, contract)
            connection.execute(f"CREATE TABLE values_{place} AS {reading} FROM {STRAYS}")
            laid.append(DistinctValues(f"values_{place}", f"the different extremes of {column.name}", own))
            continue
        different = f"SELECT DISTINCT {identifier(column.name)} FROM {values_of(column)}"
        connection.execute(f"CREATE TABLE values_{place} AS {_reading(column, own, contract)} FROM ({different})")
        laid.append(DistinctValues(f"values_{place}", f"the different values of {column.name}", own))
    return tuple(laid)


def values_of(column: Column) -> str:
    """Write a relation of the values of a column that break a check, or may: as delivered, or NULL where missing.

    Where missing values have a cell of their own, a row that was not kept and has its code has none.
    """
    name = identifier(column.name)
    if column.length > 1 or column.domain.nulls.to is not None:
        return STRAYS
    nulls = f"SELECT rowid AS {identifier(ROW)} FROM {CODES} WHERE {name} = {column.domain.null_code}"
    absent = f"SELECT NULL FROM ({nulls}) ANTI JOIN {STRAYS} USING ({identifier(ROW)})"
    return f"(SELECT {name} FROM {STRAYS} UNION ALL {absent})"


def _of_the_table(
    connection: duckdb.DuckDBPyConnection, contract: Contract, checks: Sequence[Check]
) -> list[DistinctValues]:
    """Lay out what the checks of no column of the contract look at."""
    connection.execute(f"CREATE VIEW delivered AS SELECT * EXCLUDE ({identifier(ROW)}) FROM {STRAYS}")
    connection.execute(f"CREATE VIEW all_rows AS FROM {CODES}")
    laid = [("delivered", "the columns as delivered", "columns"), ("all_rows", "the rows", "rows")]
    if contract.unit.column is not None:
        ids = f"SELECT {OF_UNIT} AS {identifier(contract.unit.column)} FROM snapshot.{UNITS}"
        connection.execute(f"CREATE VIEW unit_ids AS {ids}")
        laid.append(("unit_ids", "the units", "not_null"))
    columns = {column.name for column in contract.columns}
    own = [check for check in checks if check.column not in columns]
    return [
        DistinctValues(relation, about, tuple(check for check in own if check.kind == kind))
        for relation, about, kind in laid
    ]


def as_read(column: str, to: object) -> str:
    """Name the column that holds the values of `column` as they are read."""
    return f"{column} as {to}"


def _reading_pictures(column: Column, checks: Sequence[Check], contract: Contract) -> str:
    """Write the SELECT that reads a column of pictures: whether there is one, and its extremes."""
    raw, value = identifier(column.name), column.domain.value_sql(identifier(column.name))
    [misfit] = [violation_sql(check, contract) for check in checks if check.kind == "castable"]
    to = next(check.parameters["to"] for check in checks if "to" in check.parameters)
    ends = f"[list_min({value}), list_max({value})]"
    level = f"unnest(CASE WHEN {raw} IS NOT NULL AND NOT ({misfit}) THEN {ends} ELSE [NULL]::DOUBLE[] END)"
    return (
        f"SELECT DISTINCT CASE WHEN {raw} IS NOT NULL THEN 'a picture' END AS {raw}, "
        f"{level} AS {identifier(as_read(column.name, to))}"
    )


def _reading(column: Column, checks: Sequence[Check], contract: Contract) -> str:
    """Write the SELECT that reads one column; TRY, so that one value that DuckDB cannot write stops nothing."""
    raw = identifier(column.name)
    value = f"TRY({column.domain.value_sql(raw)})"
    text = f"TRY(CAST({raw} AS VARCHAR))"
    [not_null] = [violation_sql(check, contract) for check in checks if check.kind == "not_null"]
    present = f"NOT COALESCE(TRY({not_null}), FALSE)"
    to = next((check.parameters["to"] for check in checks if "to" in check.parameters), None)
    if to is None:
        shown = f"COALESCE(CAST({value} AS VARCHAR), trim({text}), {literal(UNWRITABLE)})"
        return f"SELECT CASE WHEN {present} THEN {shown} END AS {raw}"
    return (
        f"SELECT CASE WHEN {present} THEN COALESCE({text}, {literal(UNWRITABLE)}) END AS {raw}, "
        f"CASE WHEN NOT {column.domain.null_sql(value)} THEN {value} END AS {identifier(as_read(column.name, to))}"
    )
