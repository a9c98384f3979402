"""The types in which a `select:` sees the columns of a source, and SQL that reads any stored value as one of them.

| type | what a value becomes | null where it is |
|---|---|---|
| text | itself; a number its digits, a moment at midnight its day, a flag `true` or `false` | a list or record |
| id | itself; a number by its exact digits (`contracts.domains.value_sql.id_sql`) | a double without exact digits |
| number | the nearest double; flags are 1 and 0 | no number |
| flag | true or false; so are the numbers 1 and 0 | neither |
| day | the day, of a moment that in UTC | no day |
| moment | the moment in UTC; a day is its midnight | no moment |
| numbers | a list of doubles | no list |

What is read depends on the value alone, not on the type that a writer chose to store it: 1, 1.0, the decimal 1.00
and the text "1.0" are the text 1, and a NaN is null. Digits of numbers are those of the nearest double, since a
writer that stores whole numbers as doubles keeps no more; a text keeps its own. Only an id is read
by its exact digits, and its column may not be stored as doubles (`tasks.storage.sources.type_changes`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal

from contracts.domains.spellings import MOMENT
from contracts.domains.value_sql import NATIVE, id_sql, literal, moment_sql, number_sql, text_sql

ValueType = Literal["text", "id", "number", "flag", "day", "moment", "numbers"]
VALUE_TYPES: Final[tuple[ValueType, ...]] = ("text", "id", "number", "flag", "day", "moment", "numbers")
_DECIMALS: Final = "-?(0|[1-9][0-9]*)[.][0-9]*"
"""A number as a writer of doubles or decimals spells it; no leading nought, which belongs to a code."""


def typed_sql(kind: ValueType, raw: str) -> str:
    """Return SQL for a value as a type, null where it is none; never an error, and the same for all stored types.

    Args:
        kind: the type.
        raw: SQL for the value as it is stored (a quoted name).
    """
    return f"CAST({_READ[kind](raw)} AS {_SQL[kind]})"


def _number(raw: str) -> str:
    return f"nullif({number_sql(raw)}, 'nan'::DOUBLE)"


def _flag(raw: str) -> str:
    return f"CASE {_number(raw)} WHEN 1e0 THEN true WHEN 0e0 THEN false END"


def _id(raw: str) -> str:
    """Return the text of an id: that of a number by its exact digits."""
    return f"CASE WHEN {_is_number(raw)} THEN {id_sql(raw)} ELSE {_text(raw)} END"


def _is_number(raw: str) -> str:
    natives = ", ".join(literal(each) for each in (*NATIVE, "HUGEINT", "UHUGEINT") if each != "BOOLEAN")
    return f"(typeof({raw}) IN ({natives}) OR starts_with(typeof({raw}), 'DECIMAL'))"


def _text(raw: str) -> str:
    """Return the text of a value. `typeof` is constant over a column, so that one branch is left of these."""
    kind, number = f"typeof({raw})", _number(raw)
    nested = f"{kind} LIKE '%]' OR regexp_matches({kind}, '^(STRUCT|MAP|UNION)[(]') OR {kind} = 'VARIANT'"
    whole = f"CASE WHEN CAST(TRY_CAST({number} AS BIGINT) AS DOUBLE) = {number} THEN TRY_CAST({number} AS BIGINT) END"
    return (
        f"CASE WHEN {nested} THEN NULL "
        f"WHEN {_is_number(raw)} "
        f"THEN COALESCE(CAST({whole} AS VARCHAR), CAST({number} AS VARCHAR)) "
        f"WHEN {kind} = 'DATE' OR starts_with({kind}, 'TIMESTAMP') THEN {_written(f'TRY_CAST({raw} AS TIMESTAMP)')} "
        f"ELSE {_spelled(text_sql(raw))} END"
    )


def _moment(raw: str) -> str:
    instant = f"typeof({raw}) = 'TIMESTAMP WITH TIME ZONE'"
    return f"CASE WHEN {instant} THEN {moment_sql(raw)} ELSE TRY_CAST({raw} AS TIMESTAMP) END"


def _written(moment: str) -> str:
    """Return the text of a moment; at midnight that of its day."""
    midnight = f"date_trunc('day', {moment}) = {moment}"
    return f"TRY(CASE WHEN {midnight} THEN CAST({moment} AS DATE)::VARCHAR ELSE CAST({moment} AS VARCHAR) END)"


def _spelled(text: str) -> str:
    """Return a text as it stands, but for what a writer's type decides: decimals that are 0, midnights, capitals."""
    return (
        f"CASE WHEN regexp_full_match({text}, {literal(_DECIMALS)}) THEN rtrim(rtrim({text}, '0'), '.') "
        f"WHEN regexp_full_match({text}, {literal(MOMENT)}) "
        f"THEN COALESCE({_written(f'TRY_CAST({text} AS TIMESTAMP)')}, {text}) "
        f"WHEN lower({text}) IN ('true', 'false') THEN lower({text}) ELSE {text} END"
    )


_SQL: Final[Mapping[ValueType, str]] = {
    "text": "VARCHAR",
    "id": "VARCHAR",
    "number": "DOUBLE",
    "flag": "BOOLEAN",
    "day": "DATE",
    "moment": "TIMESTAMP",
    "numbers": "DOUBLE[]",
}
_READ: Final[Mapping[ValueType, Callable[[str], str]]] = {
    "text": _text,
    "id": _id,
    "number": _number,
    "flag": _flag,
    "day": lambda raw: f"TRY_CAST({raw} AS DATE)",
    "moment": _moment,
    "numbers": lambda raw: f"TRY_CAST({raw} AS DOUBLE[])",
}
