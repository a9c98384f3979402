"""From values to codes: the SELECT that DuckDB runs on the way in.

A code is a cell of the column's declared domain (law 3). Nothing here fails because of one row: what lies outside
the bounds is clipped, and what is no value of the domain gets the declared code for it. `contracts.domains.value_sql`
says how a value is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from contracts.contract.column import Column
from contracts.contract.contract import Contract
from contracts.domains.lattice import ValueLattice
from contracts.domains.statements import Check
from contracts.domains.text import KeyColumn, UnitOrder
from contracts.domains.value_sql import id_sql, identifier, literal
from contracts.errors import ContractRefused, Finding
from contracts.reading.scalars import nearest

UNIT: Final = "\x05unit"
STRAY: Final = "\x05stray"
HASHED: Final = "\x05hashed"
"""Columns beside the codes while a source is read; no column of a contract has such a name."""


def encode_select(
    contract: Contract,
    *,
    columns_present: Sequence[str],
    relation: str,
    names: Sequence[str] | None = None,
    lattices: Sequence[ValueLattice | KeyColumn] = (),
) -> str:
    """Write the SELECT that encodes a relation, one column of codes for each column of the contract.

    Args:
        contract: the contract.
        columns_present: the names of the relation's columns, as they are written there.
        relation: SQL for the relation (a quoted name, or a subquery in parentheses).
        names: the columns of the contract that are wanted; None for all of them.
        lattices: of wanted columns whose offsets or texts are wanted too, each in a column of its own after all
            codes; of the unit's id column its ids, or the places of its rows, which are columns of the relation.
    Returns:
        SQL; its columns have the contract's names and order and the smallest unsigned type that fits. One row a row,
        in the same order. A text in a VARCHAR column and the same value in a typed column get the same code.
    Raises:
        ContractRefused: a column of the contract is not present.
    Privacy: the result is private, a function of each row alone.
    """
    wanted = [column for column in contract.columns if names is None or column.name in names]
    values, codes = _encoded(contract, wanted, columns_present, lattices)
    return (
        "SELECT\n  " + ",\n  ".join(codes) + "\nFROM (\n  SELECT " + ",\n  ".join(values) + f"\n  FROM {relation}\n)"
    )


def intake_select(
    contract: Contract,
    *,
    columns_present: Sequence[str],
    relation: str,
    lattices: Sequence[ValueLattice | KeyColumn] = (),
    hashed: Sequence[str] = (),
) -> str:
    """Write the SELECT that encodes a relation while it is read, and keeps of it what the codes do not tell.

    A value that breaks no check says no more than its code; a missing one neither, where missing values have a cell
    of their own. A row with any other value is kept whole, in the types of the relation.

    Args:
        contract: the contract.
        columns_present: the names of the relation's columns; all of the contract's source and no other.
        relation: SQL for the relation.
        lattices: as for `encode_select`.
        hashed: columns of the relation of which a hash of each value comes last; null where there is none.
    Returns:
        SQL; its columns are those of `encode_select`, then `UNIT`, the id of the row's unit as text, where units have
        one, then `STRAY`: a list of one record, the row as delivered, or null.
    Privacy: the result is private, a function of each row alone.
    """
    values, codes = _encoded(contract, contract.columns, columns_present, lattices)
    places = {column.name: place for place, column in enumerate(contract.columns)}
    unit = contract.unit.column
    beside = []
    if unit is not None:
        values += [
            f"{identifier(unit)} AS unit_as_delivered",
            f"{unit_sql(unit, contract.unit.numbers_up_to)} AS unit_as_text",
        ]
        beside.append(f"unit_as_text AS {identifier(UNIT)}")
    for place, name in enumerate(hashed):
        values.append(f"CASE WHEN {identifier(name)} IS NOT NULL THEN hash({identifier(name)}) END AS h{place}")
        beside.append(f"h{place} AS {identifier(f'{HASHED}{place}')}")
    row = ", ".join(f"{literal(name)}: {_delivered(places.get(name))}" for name in columns_present)
    beside.append(f"CASE WHEN {kept_sql(contract)} THEN [{{{row}}}] END AS {identifier(STRAY)}")
    return f"SELECT {', '.join([*codes, *beside])} FROM (SELECT {', '.join(values)} FROM {relation})"


def kept_sql(contract: Contract) -> str:
    """Write the condition under which a row is kept whole: a value of it is astray (`DeclaredDomain.stray_sql`)."""
    strays = [column.domain.stray_sql(f"v{place}", f"r{place}") for place, column in enumerate(contract.columns)]
    # TRY: what DuckDB cannot write as a text breaks a check there too, and stops nothing here.
    return f"COALESCE(TRY({' OR '.join(f'({each})' for each in strays)}), TRUE)"


def _delivered(place: int | None) -> str:
    return "unit_as_delivered" if place is None else f"r{place}"


def _encoded(
    contract: Contract,
    wanted: Sequence[Column],
    columns_present: Sequence[str],
    lattices: Sequence[ValueLattice | KeyColumn],
) -> tuple[list[str], list[str]]:
    """Write what is read of a row (`v`) beside what was delivered (`r`), and the codes and offsets of these."""
    present = set(columns_present)
    missing = [column.name for column in wanted if column.name not in present]
    if missing:
        raise ContractRefused([_absent(contract, name, columns_present) for name in missing])
    values, codes = [], []
    places = {column.name: place for place, column in enumerate(wanted)}
    for place, column in enumerate(wanted):
        raw = identifier(column.name)
        values += [f"{column.domain.value_sql(raw)} AS v{place}", f"{raw} AS r{place}"]
        codes.append(f"{column.domain.code_sql(f'v{place}', f'r{place}')} AS {raw}")
    for each in lattices:
        if isinstance(each, UnitOrder):
            values.append(f"{identifier(each.name)} AS place_in_unit")
            codes.append(f"place_in_unit AS {identifier(each.name)}")
            continue
        if each.column == contract.unit.column:
            values.append(f"{unit_sql(contract.unit.column, contract.unit.numbers_up_to)} AS unit")
            codes.append(f"unit AS {identifier(each.name)}")
            continue
        domain = contract.column(each.column).domain
        codes.append(f"{domain.offset_sql(each, f'v{places[each.column]}')} AS {identifier(each.name)}")
    return values, codes


def unit_sql(column: str, largest: int | None = None) -> str:
    """Return SQL for the id of a row's unit, as a text without the spaces around it: units are told apart by it."""
    return id_sql(identifier(column), largest)


def _absent(contract: Contract, name: str, present: Sequence[str]) -> Finding:
    """Say that a column of the contract is not in the relation."""
    remedy = nearest(name, present) or "select it, or take it out of the contract"
    return Finding(f"contract {contract.id}", f"column {name}", "no such column in the source", f"{name!r}", remedy)


# --- Checks as SQL.


def violation_sql(check: Check, contract: Contract) -> str:
    """Write the SQL condition that is true for a row that breaks a check, and never NULL.

    Args:
        check: a check of a column (not `columns` or `rows`, which concern the table as a whole).
        contract: the contract that it comes from.
    Returns:
        A condition over the source's columns.
    Raises:
        ValueError: the check is about the table as a whole.
    Privacy: what it selects is private, and so is whether it selects anything, but for a declared gate.
    """
    if check.column is None:
        raise ValueError(f"check {check.name} is about the table, not about rows")
    raw = identifier(check.column)
    if check.column == contract.unit.column:
        return f"{raw} IS NULL"
    return contract.column(check.column).domain.violation_sql(check.kind, raw)
