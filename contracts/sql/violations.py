"""Checks as SQL: the rows that break one, read as the encoding reads them (see `contracts.domains.value_sql`)."""

from __future__ import annotations

from contracts.contract.contract import Contract
from contracts.domains.statements import Check
from contracts.domains.value_sql import identifier


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
