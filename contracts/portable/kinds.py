"""Which types of a table's columns every engine reads alike, and what is refused of the others.

How an engine reads texts as numbers or dates is its own affair ("1d" is a number to one, "1_000" to another), so
numbers and days have to be stored as such, or the contract declares how texts write them (`contracts.notation`).
Texts, whole numbers, flags and days are the same everywhere.

| kind | types | read by |
|---|---|---|
| text | text | categories, mappings; numbers and dates with a declared notation; the unit's id |
| whole | integers of any width | categories, mappings, integers, decimals, dates as %Y%m%d; the unit's id |
| real | floating point | the same, but no id |
| fixed | decimals | the same, but no id |
| flag | booleans | the same, but no id |
| day | dates without a time | dates |

Which of the four kinds of numbers a column is stored as can depend on one row (a missing value makes doubles of whole
numbers), so what takes one of them takes all: a refusal would tell of that row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from contracts.contract import (
    CategoryDomain,
    Column,
    Contract,
    DateDomain,
    DecimalDomain,
    ImageDomain,
    IntegerDomain,
    MappingDomain,
)
from contracts.errors import Finding

Kind = Literal["text", "whole", "real", "fixed", "flag", "day"]
EXACT: Final = 2**53
"""Up to here a double is every whole number."""
RESERVED: Final = "sudare_"
"""How the columns begin that tell the order of a source."""
MOST_BRANCHES: Final = 512
"""Bins of a column of numbers, found by comparisons nested as deep as the logarithm of their number."""

_NUMBERS: Final[tuple[Kind, ...]] = ("whole", "real", "fixed", "flag")
"""What a writer stores as one of these it may store as another for the sake of one row, so they go together."""
_WORDS: Final[dict[Kind, str]] = {
    "text": "text",
    "whole": "integer",
    "real": "floating point",
    "fixed": "decimal",
    "flag": "boolean",
    "day": "date",
}
_NOTATIONS: Final = {"integer": "`decimal:`", "decimal": "`decimal:`", "date": "`format:`"}
"""What lets an engine read texts."""


def allowed_kinds(column: Column) -> tuple[Kind, ...]:
    """Return the kinds of values from which every engine makes the same codes of a column."""
    domain = column.domain
    if isinstance(domain, ImageDomain):
        return ()
    if isinstance(domain, CategoryDomain | MappingDomain):
        return ("text", *_NUMBERS)
    if isinstance(domain, DateDomain):
        if domain.notation is None:
            return ("day",)
        return ("text", *_NUMBERS, "day") if domain.notation.compact else ("text", "day")
    return _NUMBERS if domain.notation is None else ("text", *_NUMBERS)


def portable_findings(contract: Contract, kinds: Mapping[str, Kind | None], *, where: str) -> list[Finding]:
    """List what of a contract and the types of a table is not read alike by every engine.

    Args:
        contract: the contract.
        kinds: kind of each column of the table by name; None for a type that is none of them.
        where: the table, for messages.
    Returns:
        list: empty when every engine makes the same codes of the same rows.
    """
    findings = []
    wanted: dict[str, tuple[Kind, ...]] = {column.name: allowed_kinds(column) for column in contract.columns}
    if contract.unit.column is not None:
        wanted[contract.unit.column] = ("text", "whole")
    for name, kinds_allowed in wanted.items():
        kind = kinds[name]
        if kind not in kinds_allowed:
            found = "another type" if kind is None else _WORDS[kind]
            allowed = " or ".join(_WORDS[each] for each in kinds_allowed) or "no picture"
            remedy = "store the column as that type, or count in DuckDB: leave `engine:` out"
            if kind == "text":
                remedy = f"declare {_NOTATIONS[contract.column(name).domain.kind]} in the contract, or {remedy}"
            findings.append(Finding(where, f"column {name!r}", found, allowed, remedy))
    for name in contract.source_columns:
        if name.lower().startswith(RESERVED):
            remedy = "rename the column, or count in DuckDB: leave `engine:` out"
            findings.append(Finding(where, f"column {name!r}", f"a name in {RESERVED}", "another name", remedy))
    return findings + [finding for column in contract.columns for finding in _domain_findings(contract, column)]


def _domain_findings(contract: Contract, column: Column) -> list[Finding]:
    """Name what of a domain the expressions do not hold."""
    domain, where = column.domain, f"contract {contract.id}"
    remedy = "count in DuckDB: leave `engine:` out"
    if isinstance(domain, IntegerDomain | DecimalDomain) and len(domain.bins) > MOST_BRANCHES:
        found = f"{len(domain.bins)} bins"
        return [Finding(where, f"column {column.name}", found, f"at most {MOST_BRANCHES} in an engine", remedy)]
    return []
