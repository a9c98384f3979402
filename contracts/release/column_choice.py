"""Columns as a spec chooses them: `all`, or a list without a name twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import BeforeValidator, WithJsonSchema

from contracts.reading.scalars import Label, Problem, as_tuple, refuse

if TYPE_CHECKING:
    from contracts.contract.contract import Contract

ALL: Final = "all"


def _parse(written: object) -> object:
    """Read `all`, or a list of columns."""
    return written if written == ALL else as_tuple(written)


ColumnChoice = Annotated[
    Literal["all"] | tuple[Label, ...],
    BeforeValidator(_parse),
    WithJsonSchema({"anyOf": [{"const": ALL}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}),
]


def distinct_columns(columns: str | tuple[str, ...], *, least: str) -> str | tuple[str, ...]:
    """Return the columns of a choice; refuse an empty list, and a column that stands there twice."""
    if columns == ALL:
        return columns
    twice = [place for place, name in enumerate(columns) if name in columns[:place]]
    problems = [Problem(f"{columns[place]!r} twice", "each column once", "drop one", (place,)) for place in twice]
    if not columns:
        problems = [Problem("an empty list", f"{least}, or {ALL}", "name the columns, or drop the key")]
    if problems:
        refuse(problems)
    return columns


def chosen(columns: str | tuple[str, ...], contract: Contract) -> tuple[str, ...]:
    """Return the columns of a choice in the contract's order."""
    return tuple(column.name for column in contract.columns if columns == ALL or column.name in columns)
