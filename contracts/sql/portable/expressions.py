"""The codes of a contract, and what breaks its checks, as Ibis expressions over a table of typed columns.

The same codes as `contracts.sql.encoding` writes for DuckDB, row for row; the tests hold the two against each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import duckdb
import ibis

from contracts.contract.column import Column
from contracts.contract.contract import Contract
from contracts.domains.portable_cell import PortableCell
from contracts.domains.statements import Check, ValueKind

TYPES: Final[dict[ValueKind, str]] = {
    "text": "string",
    "whole": "int64",
    "real": "float64",
    "fixed": "decimal(38, 18)",
    "flag": "boolean",
    "day": "date",
    "moment": "timestamp",
    "nothing": "string",
}


def table_of(kinds: Mapping[str, ValueKind], name: str) -> Any:
    """Return the unbound table of a name with columns of these kinds; a column without a type is one of texts."""
    return ibis.table({column: TYPES[kind] for column, kind in kinds.items()}, name=name)


def code_expression(column: Column, cell: Any, kind: ValueKind) -> Any:
    """Return the code of a column's value: int32, never null.

    Args:
        column: the column.
        cell: the value as it is stored.
        kind: its kind, one of the domain's `value_kinds`.
    """
    return column.domain.portable_code(PortableCell(cell, kind, _cast)).cast("int32")


def beside_expression(column: Column, beside: Any, cell: Any, kind: ValueKind) -> Any:
    """Return what is encoded of a column's value beside its code: int32 of a lattice, a text of keys; never null.

    Args:
        column: the column.
        beside: the lattice, or the `KeyColumn`.
        cell: the value as it is stored.
        kind: its kind.
    """
    return column.domain.portable_beside(beside, PortableCell(cell, kind, _cast))


def violation_expression(check: Check, contract: Contract, cell: Any, kind: ValueKind) -> Any:
    """Return a condition that is true where a value breaks a check of its column, and never null.

    Args:
        check: a check of a column.
        contract: the contract that it comes from.
        cell: the value as it is stored.
        kind: its kind.
    """
    if check.column is None:
        raise ValueError(f"check {check.name} is about the table, not about rows")
    if check.column == contract.unit.column:
        return cell.isnull()
    return contract.column(check.column).domain.portable_violation(check.kind, PortableCell(cell, kind, _cast))


@cache
def _cast(text: str, kind: str) -> Any:
    """Return what DuckDB reads a text as; None for no such value. A database takes 20 ms to open."""
    with duckdb.connect() as connection:
        row = connection.execute(f"SELECT TRY_CAST(? AS {kind})", [text]).fetchone()
    return None if row is None else row[0]
