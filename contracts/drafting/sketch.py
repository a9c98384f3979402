"""What a document says about a table, before anybody declared anything about privacy."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from contracts.contract.column import LogicalType
from contracts.errors import Finding, Refused
from contracts.reading.scalars import nearest, word_list

ROW_ID = "It is unique. The id of a row says nothing that can be counted: leave it out by `select:` in the spec."


class DraftRefused(Refused):
    """No draft can be made of a document."""


@dataclass(frozen=True)
class ColumnSketch:
    """A column as a document describes it.

    Args:
        name: its name.
        logical_type: what it holds, in the words of a contract; None where the document does not say, or says
            something that a contract has no word for.
        description: what the document says about it.
        values: categories that the document declares (never ones that were seen in rows); empty for none.
        bounds: lower and upper bound that the document declares, or None.
        form: how texts write days, as the document declares it, in the words of a domain's `format:`; None without.
        labels: of the values, by value, where the document has some.
        missing: texts that mean a missing value, as the document declares them.
        width: of bins that the document (or a public sample) suggests, or None.
        where: the place in the document, "file:line".
        origin: where in the document values or bounds are declared, for the provenance.
        hints: further lines for the person who completes the draft.
        kept: keys of the Open Data Contract Standard that stay as they are.
    """

    name: str
    logical_type: LogicalType | None = None
    description: str | None = None
    values: tuple[str, ...] = ()
    bounds: tuple[str, str] | None = None
    form: str | None = None
    origin: str = ""
    hints: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    width: str | None = None
    where: str = ""
    kept: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TableSketch:
    """A table as a document describes it.

    Args:
        name: its name.
        columns: its columns, in order.
        origin: the document, as the head of the draft names it.
        identifier: `id` of the contract; made from the table's name where the document has none.
        title: `name` of the contract.
        description: `description` of the contract.
        hints: lines about the table as a whole, for the person who completes the draft.
        public: why the rows that values were proposed from are public; None where no row was read.
        delimiter: between the fields of a CSV file; None for other files.
        findings: what contradicts what, each with its place.
        kept: top-level keys of the Open Data Contract Standard that stay as they are.
        kept_of_table: the same of the table.
    """

    name: str
    columns: tuple[ColumnSketch, ...]
    origin: str
    identifier: str | None = None
    title: str | None = None
    description: Mapping[str, Any] = field(default_factory=dict)
    hints: tuple[str, ...] = ()
    public: str | None = None
    delimiter: str | None = None
    findings: tuple[Finding, ...] = ()
    kept: Mapping[str, Any] = field(default_factory=dict)
    kept_of_table: Mapping[str, Any] = field(default_factory=dict)


def chosen(tables: Sequence[str], name: str | None, *, where: str) -> int:
    """Return the place of the table that is meant: the only one, or the one that was named.

    Raises:
        DraftRefused: none is there, several are, or none has that name.
    """
    if not tables:
        refuse_draft(
            where, "tables", "no table with columns", "at least one table", "name the file that describes it"
        )
    if name is None and len(tables) == 1:
        return 0
    if name is None:
        refuse_draft(where, "--table", f"{len(tables)} tables", word_list(tables), "say which one: --table NAME")
    if name not in tables:
        refuse_draft(where, "--table", f"no table {name!r}", word_list(tables), nearest(name, tables))
    return tables.index(name)


def refuse_draft(where: str, field_name: str, found: str, allowed: str, remedy: str = "") -> NoReturn:
    """Refuse to make a draft, with one finding."""
    raise DraftRefused([Finding(where, field_name, found, allowed, remedy)])


# --- From the type names of databases and of the data contract standard to the logical types of a contract.


_FAMILIES: tuple[tuple[LogicalType, str], ...] = (
    ("array", r".*\[\d*\]|(?:array|list|vector)\b.*|repeated\b.*"),
    ("boolean", r"bool(?:ean)?|bit"),
    ("date", r"date(?:32|64)?(?:\[.*\])?|timestamp.*|datetime.*|smalldatetime"),
    (
        "integer",
        r"u?(?:tiny|small|medium|big|huge)?int(?:eger)?(?:\s*\(\d+\))?|u?int(?:2|4|8|16|32|64|128|256)|long|short|byte"
        r"|(?:big|small)?serial|(?:numeric|decimal|number)\s*\(\s*\d+\s*(?:,\s*0\s*)?\)",
    ),
    (
        "number",
        r"(?:decimal|numeric|number|bignumeric)(?:\d+)?(?:\s*\(.*\))?|(?:half)?float\d*|double(?: precision)?|real",
    ),
    (
        "string",
        r"(?:n?(?:var)?char|character(?: varying)?|bpchar)(?:\d|\s*\(.*\))?"
        r"|(?:large_?)?(?:string|utf8|text)(?:_view)?|uuid|enum\b.*|category|string\s*\(.*\)",
    ),
)


def logical_type_of(stated: str | None) -> LogicalType | None:
    """Return the logical type that a type's name stands for; None for names that a contract has no type for.

    Args:
        stated: a type as SQL, Arrow or the data contract standard write it, `VARCHAR(20)`, `int64`, `timestamp`.
    """
    text = (stated or "").strip().casefold()
    return next((logical for logical, pattern in _FAMILIES if re.fullmatch(pattern, text)), None)
