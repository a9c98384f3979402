"""Checks as SQL: the rows that break one, read exactly as the encoding reads them (see `contracts.sql.code_sql`)."""

from __future__ import annotations

from contracts.contract.check_terms import Check
from contracts.contract.contract import (
    CategoryDomain,
    Column,
    Contract,
    DateDomain,
    DecimalDomain,
    ImageDomain,
    IntegerDomain,
    MappingDomain,
)
from contracts.sql.code_sql import (
    STRICTLY,
    absent_sql,
    identifier,
    literal,
    misfit_level,
    null_sql,
    number_sql,
    token_sql,
    value_sql,
)


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
    column = contract.column(check.column)
    if check.kind == "not_null":
        return _absent(column, raw)
    value = value_sql(column, raw)
    if isinstance(column.domain, ImageDomain):
        return _picture_violation(check, column.domain, raw, value)
    if isinstance(column.domain, CategoryDomain | MappingDomain):
        return f"NOT {_absent(column, raw)} AND {value} IS NULL"
    if check.kind == "castable":
        misfit = f" OR {value} <> floor({value})" if isinstance(column.domain, IntegerDomain) else ""
        return f"NOT {_absent(column, raw)} AND ({value} IS NULL{misfit})"
    kind = "DATE" if isinstance(column.domain, DateDomain) else "DOUBLE"
    low, high = (f"CAST({literal(str(bound))} AS {kind})" for bound in column.domain.bounds)
    return f"NOT {null_sql(column, value)} AND NOT {value} BETWEEN {low} AND {high}"


def _picture_violation(check: Check, domain: ImageDomain, raw: str, value: str) -> str:
    """True where a picture has another number of places, or a place that is no whole number; or no level."""
    fits = f"COALESCE(len({value}) = {domain.places}, FALSE)"
    if check.kind == "castable":
        return f"{raw} IS NOT NULL AND NOT ({fits} AND len(list_filter({value}, lambda x: {misfit_level('x')})) = 0)"
    outside = f"NOT {misfit_level('x')} AND NOT x BETWEEN 0 AND {domain.levels - 1}"
    return f"{fits} AND len(list_filter({value}, lambda x: {outside})) > 0"


def _absent(column: Column, raw: str) -> str:
    """True for NULL, NaN and the texts that are declared missing; never NULL itself."""
    reasons = [absent_sql(raw)]
    tokens = ", ".join(literal(token) for token in column.domain.missing)
    if tokens and isinstance(column.domain, CategoryDomain | MappingDomain):
        reasons.append(f"COALESCE(CAST({value_sql(column, raw)} AS VARCHAR) IN ({tokens}), FALSE)")
    elif tokens:
        reasons.append(f"COALESCE(trim(TRY(CAST({raw} AS VARCHAR))) IN ({tokens}), FALSE)")
    if isinstance(column.domain, IntegerDomain | DecimalDomain):
        reasons.append(f"COALESCE(isnan({value_sql(column, raw)}), FALSE)")
    if isinstance(column.domain, IntegerDomain | DecimalDomain | DateDomain) and tokens:
        values = ", ".join(token_sql(column.domain, token) for token in column.domain.missing)
        reasons.append(f"COALESCE({value_sql(column, raw)} IN ({values}), FALSE)")
    notation = column.domain.notation if isinstance(column.domain, DateDomain) else None
    if notation is not None and notation.compact and tokens:  # stored as a number, 0 may be spelled 0.0
        numbers = ", ".join(f"TRY_CAST({literal(token)} AS DOUBLE)" for token in column.domain.missing)
        reasons.append(f"COALESCE({number_sql(raw, STRICTLY)} IN ({numbers}), FALSE)")
    return "(" + " OR ".join(reasons) + ")"
