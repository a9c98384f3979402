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
from typing import Final, Literal

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
from contracts.domains.spellings import moment_of
from contracts.errors import Finding
from contracts.sql.code_sql import known_texts

ValueKind = Literal["text", "whole", "real", "fixed", "flag", "day", "moment", "nothing"]
EXACT: Final = 2**53
"""Up to here a double is every whole number."""
RESERVED: Final = "sudare_"
"""How the columns begin that tell the order of a source."""
MOST_BRANCHES: Final = 512
"""Bins of a column of numbers, found by comparisons nested as deep as the logarithm of their number."""

_NUMBERS: Final[tuple[ValueKind, ...]] = ("whole", "real", "fixed", "flag")
"""What a writer stores as one of these it may store as another for the sake of one row, so they go together."""
_TIMES: Final[tuple[ValueKind, ...]] = ("day", "moment")
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
_NOTATIONS: Final = {"integer": "`decimal:`", "decimal": "`decimal:`", "date": "`format:`"}
"""What lets an engine read texts."""


def allowed_kinds(column: Column) -> tuple[ValueKind, ...]:
    """Return the kinds of values from which every engine makes the same codes of a column."""
    domain = column.domain
    if isinstance(domain, ImageDomain):
        return ()
    if isinstance(domain, CategoryDomain | MappingDomain):
        days = _TIMES if any(moment_of(text) for text in known_texts(domain)) else ()
        return ("text", *_NUMBERS, *days, "nothing")
    if isinstance(domain, DateDomain):
        texts: tuple[ValueKind, ...] = () if domain.notation is None else ("text",)
        # The day of an instant in a declared zone is not the engine's affair.
        times = _TIMES if domain.time_zone is None else ("day",)
        return (*texts, *times, *_NUMBERS, "nothing")
    return (*_NUMBERS, "nothing") if domain.notation is None else ("text", *_NUMBERS, "nothing")


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
    wanted: dict[str, tuple[ValueKind, ...]] = {column.name: allowed_kinds(column) for column in contract.columns}
    if contract.unit.column is not None:
        wanted[contract.unit.column] = ("text", "whole", "nothing")
    for name, kinds_allowed in wanted.items():
        kind = kinds[name]
        if kind not in kinds_allowed:
            found = "another type" if kind is None else _WORDS[kind]
            allowed = " or ".join(_WORDS[each] for each in kinds_allowed if each != "nothing") or "no picture"
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
