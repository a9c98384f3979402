"""The types of PostgreSQL: how a value is written as text there, and what it becomes in DuckDB."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from contracts.domains.value_sql import identifier

_WHOLE: Final = frozenset({"smallint", "integer", "bigint", "oid"})
_BINARY: Final = frozenset({"real", "double precision"})
_OF_LISTS: Final = _WHOLE | _BINARY | {"numeric", "text", "character varying"}
_REFUSED: Final = frozenset({"bytea", "xml"})
_NUMERIC: Final = re.compile(r"numeric\((\d+),(\d+)\)")
_LARGEST_DECIMAL: Final = 38


@dataclass(frozen=True)
class PostgresColumn:
    """A column as the catalog describes it.

    Args:
        name: its name.
        written: its type, as SQL writes it.
        kind: b for a base type, e for an enumeration, d for a domain, others for what is made of several values.
        category: A for an array.
        element: the type of an array's elements, or under a domain.
        schema: the schema of the type.
    """

    name: str
    written: str
    kind: str
    category: str
    element: str
    schema: str

    @property
    def base(self) -> str:
        """The type without its length; under a domain, what the domain is made of."""
        return self.element if self.kind == "d" else re.sub(r"\([^)]*\)", "", self.written)

    @property
    def text(self) -> str:
        """SQL of PostgreSQL that writes the value as text."""
        value = f"t.{identifier(self.name)}"
        if self.base == "timestamp with time zone":
            return _dated(f"(({value})::pg_catalog.timestamptz AT TIME ZONE 'UTC')")
        if self.base in ("date", "timestamp without time zone"):
            return _dated(f"({value})", day=self.base == "date")
        if self.base == "money":
            return f"({value})::pg_catalog.numeric::pg_catalog.text"
        if self.kind == "e":
            # The cast of an enumeration may be somebody's function; how it is written out never is.
            return f"pg_catalog.enum_out({value})::pg_catalog.text"
        if self.category == "A":
            return f"pg_catalog.translate(({value})::pg_catalog.text, '{{}}', '[]')"
        return f"({value})::pg_catalog.text"

    @property
    def cast(self) -> str:
        """SQL of DuckDB that makes the value of the text."""
        value = f"TRY_CAST({identifier(self.name)} AS {self.in_duckdb})"
        return f"timezone('UTC', {value})" if self.base == "timestamp with time zone" else value

    @property
    def in_duckdb(self) -> str:
        """The type that the value has in DuckDB."""
        decimal = _NUMERIC.fullmatch(self.written)
        if decimal and int(decimal[2]) <= int(decimal[1]) <= _LARGEST_DECIMAL:
            return f"DECIMAL({decimal[1]}, {decimal[2]})"
        if self.base in _WHOLE:
            return "BIGINT"
        if self.base in _BINARY or self.base in ("numeric", "money"):
            return "DOUBLE"
        if self.base in ("date", "boolean"):
            return self.base.upper()
        return "TIMESTAMP" if self.base.startswith("timestamp") else "VARCHAR"


def _dated(value: str, *, day: bool = False) -> str:
    """Write a day or a moment as DuckDB reads it.

    That is `0044-03-15 (BC)`: without brackets it is a day AD. Later moments than DuckDB has are infinite.
    """
    written = f"{value}::pg_catalog.text"
    before = f"pg_catalog.regexp_replace({written}, '^(\\S+)(.*) BC$', '\\1 (BC)\\2')"
    late = "" if day else f"WHEN {value} > '294247-01-01' THEN 'infinity' "
    return f"CASE WHEN {written} LIKE '%BC' THEN {before} {late}ELSE {written} END"


def unreadable(column: PostgresColumn) -> bool:
    """Say whether a column's values have no plain text: binary data, records, types that somebody made.

    A cast of a type that somebody made is a function that somebody wrote; it could look at other rows.
    """
    if column.kind == "e":
        return False
    if column.category == "A":
        return column.element not in _OF_LISTS
    if column.kind == "d":
        return column.element in _REFUSED or "." in column.element
    return column.kind not in ("b", "r", "m") or column.schema != "pg_catalog" or column.base in _REFUSED
