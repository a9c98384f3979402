"""Which types of a table's columns every engine reads alike, and what is refused of the others.

How an engine reads texts as numbers or dates is its own affair ("1d" is a number to one, "1_000" to another), so
numbers and days have to be stored as such, or the contract declares how texts write them
(`contracts.domains.notation`). Texts, whole numbers, flags and days are the same everywhere.

| kind | types | read by |
|---|---|---|
| text | text | categories, mappings; numbers and dates with a declared notation; the unit's id |
| whole | integers of any width | categories, mappings, integers, decimals, dates as %Y%m%d; the unit's id |
| real | floating point | the same, but no id |
| fixed | decimals | the same, but no id |
| flag | booleans | the same, but no id |
| day | dates without a time | dates, and categories that are days |
| moment | timestamps, with a time zone or without | the same; the day is that in UTC |
| nothing | a column without a type: nobody has a value | everything |

Which of the four kinds of numbers a column is stored as can depend on one row (a missing value makes doubles of whole
numbers), so what takes one of them takes all: a refusal would tell of that row. For the same reason what takes days
takes moments, and dates take numbers, which a column is stored as where nobody has a value: none of them is a day.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from contracts.contract.column import Column
from contracts.contract.contract import Contract
from contracts.domains.statements import ValueKind
from contracts.errors import Finding

RESERVED: Final = "sudare_"
"""How the columns begin that tell the order of a source."""
MOST_BRANCHES: Final = 512
"""Bins of a column of numbers, found by comparisons nested as deep as the logarithm of their number."""

_WORDS: Final[dict[ValueKind, str]] = {
    "text": "text",
    "whole": "integer",
    "real": "floating point",
    "fixed": "decimal",
    "flag": "boolean",
    "day": "date",
    "moment": "timestamp",
    "nothing": "no type",
}


def portable_findings(contract: Contract, kinds: Mapping[str, ValueKind | None], *, where: str) -> list[Finding]:
    """List what of a contract and the types of a table is not read alike by every engine.

    Args:
        contract: the contract.
        kinds: kind of each column of the table by name; None for a type that is none of them.
        where: the table, for messages.
    Returns:
        list: empty when every engine makes the same codes of the same rows.
    """
    findings = []
    wanted: dict[str, tuple[ValueKind, ...]] = {column.name: column.domain.value_kinds for column in contract.columns}
    if contract.unit.column is not None:
        wanted[contract.unit.column] = ("text", "whole", "nothing")
    for name, kinds_allowed in wanted.items():
        kind = kinds[name]
        if kind not in kinds_allowed:
            found = "another type" if kind is None else _WORDS[kind]
            allowed = " or ".join(_WORDS[each] for each in kinds_allowed if each != "nothing")
            remedy = "store the column as that type, or count in DuckDB: leave `engine:` out"
            if not kinds_allowed:
                allowed = f"no column of kind {contract.column(name).domain.kind}"
                remedy = "count in DuckDB: leave `engine:` out"
            elif kind == "text":
                key = contract.column(name).domain.notation_key
                remedy = f"declare `{key}:` in the contract, or {remedy}"
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
    if domain.nested_bins > MOST_BRANCHES:
        found = f"{domain.nested_bins} bins"
        return [Finding(where, f"column {column.name}", found, f"at most {MOST_BRANCHES} in an engine", remedy)]
    return []
