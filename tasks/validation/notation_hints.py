"""Which notation the values of a column look written in that do not fit it: a hint for the operator, in private.

How a file writes its numbers and days is a matter of the program that wrote it. Who declares it after this look has
to know it from that program: the hint is made of the rows, and texts such as 1,234 or 03/04/2024 are two things.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import duckdb

from contracts.contract.contract import Column, Contract
from contracts.domains.statements import Check
from contracts.domains.value_sql import identifier
from contracts.sql.violations import violation_sql

Keys = Mapping[str, str | None]

NEARLY_ALL: Final = 0.9
"""Of the values that do not fit so many have to be of a notation."""


def hint_of(
    connection: duckdb.DuckDBPyConnection, relation: str, check: Check, contract: Contract, unfit: int
) -> tuple[str, ...]:
    """Return the notations in which nearly all values of a column could be read that do not fit it.

    Args:
        connection: where the rows are.
        relation: SQL for them.
        check: `type:COLUMN` of a column of numbers or days.
        contract: the contract.
        unfit: how many rows break the check.
    Returns:
        What to write into the column's domain, one for each notation that is as good; none where no notation helps.
    Privacy: private, made of the rows.
    """
    column = contract.column(str(check.column))
    raw = identifier(column.name)
    candidates = [keys for keys in column.domain.usual_notations if _differs(column, keys)]
    if not unfit or not candidates:
        return ()
    broken = f"COALESCE(TRY({violation_sql(check, contract)}), TRUE)"
    fits = [
        f"COALESCE(TRY(NOT ({violation_sql(check, _declaring(contract, column, keys))})), FALSE)"
        for keys in candidates
    ]
    counts = ", ".join(f"COALESCE(sum(n) FILTER (WHERE {fit}), 0)" for fit in fits)
    values = f"SELECT {raw}, count(*) AS n FROM {relation} GROUP BY {raw}"
    found = connection.execute(f"SELECT {counts} FROM ({values}) WHERE {broken}").fetchone() or ()
    best = max(map(int, found), default=0)
    if best < NEARLY_ALL * unfit:
        return ()
    return _simplest([keys for keys, count in zip(candidates, found, strict=True) if int(count) == best])


def _differs(column: Column, keys: Keys) -> bool:
    return any(getattr(column.domain, key) != value for key, value in keys.items())


def _declaring(contract: Contract, column: Column, keys: Keys) -> Contract:
    """Return the contract with another notation of one column."""
    told = column.model_copy(update={"domain": column.domain.model_copy(update={**keys, "missing": ()})})
    columns = tuple(told if each.name == column.name else each for each in contract.columns)
    return contract.model_copy(update={"columns": columns})


def _simplest(candidates: Sequence[Keys]) -> tuple[str, ...]:
    """Leave out what declares a mark more than another candidate that reads as many."""
    simple = [keys for keys in candidates if not any(_within(other, keys) for other in candidates if other != keys)]
    return tuple(map(_written, simple))


def _within(few: Keys, more: Keys) -> bool:
    return all(value is None or more[key] == value for key, value in few.items())


def _written(keys: Keys) -> str:
    """Write a notation as it stands in a domain."""
    said = [f'{key}: "{value}"' for key, value in keys.items() if value is not None]
    return ", ".join(said) or f"no {' and no '.join(f'`{key}:`' for key in keys)}"
