"""Placeholders of a draft: places where a person has to declare something before the contract is one.

`sudare contract draft` writes PLACEHOLDER wherever nothing may be guessed and nothing may be learned from rows
(law 3). A contract that still holds one is refused, with what to write at each.
"""

from __future__ import annotations

from collections.abc import Iterator

from contracts.reading.scalars import FieldPath, Problem
from contracts.reading.yaml_lines import Document

PLACEHOLDER = "<declare>"
CHECK_IT = "check it"
"""In the reference of a drafted provenance, until somebody has found out where the values come from."""

_FROM_NO_ROWS = "from a code list, a law, a form, or by decision; not by looking at the rows"
_ASKED: dict[tuple[str, ...], tuple[str, str]] = {
    ("unit", "kind"): (
        "row or id",
        "write row if each row is somebody of their own; write id if one person may have several rows, add "
        "`column:` and "
        "`max_rows_per_unit:`, and remove that column's `domain`",
    ),
    ("unit", "scope"): (
        "block or lifetime",
        "write block if each time block's people are bounded by themselves, lifetime if people appear in "
        "several blocks "
        "and are protected over all of them",
    ),
    ("privacy", "adjacency"): (
        "add_remove or replace_one",
        "write add_remove to protect the number of rows too, replace_one if that number is public anyway",
    ),
    ("columns",): (
        "a range (0..99 by 5), a list of values ([north, south]), or codes with labels ({1: male, 2: female})",
        f"write what the column may hold, {_FROM_NO_ROWS}; `number 0..1 by 0.1` for decimals, "
        f"`2024-01-01..2024-12-31 by month` for days. A column that is not to be released goes to `left_out:`",
    ),
    ("logicalType",): (
        "one of integer, number, string, date, boolean, array",
        "write what the column holds; a column that is none of these is left out, or converted, by `select:` in "
        "the spec",
    ),
    ("domain", "kind"): (
        "categories, mapping, integer, decimal, date or image",
        "write the kind and its keys; docs/contracts.md lists them",
    ),
    ("domain", "values"): (
        "a list of categories, such as [north, south]",
        f"list every category that is to have a cell, {_FROM_NO_ROWS}; `other:` names a category for everything "
        f"else. "
        "A column of free texts or of identifiers is left out by `select:` in the spec",
    ),
    ("domain", "bounds"): (
        "a pair [lowest, highest]",
        f"write the bounds that values are clipped to, {_FROM_NO_ROWS}: the rows' own minimum and maximum are "
        f"private",
    ),
    ("domain", "bins"): (
        "{width: ...}, {edges: [...]} or a list of pairs",
        "write the bins that are to be counted: wide enough that a cell holds more people than the noise",
    ),
    ("range",): (
        "a width (0..99 by 5), or where bins begin (0..99 at 18, 40, 65)",
        "write bins so wide that a cell holds more people than the noise; do not look at the rows for it",
    ),
    ("defaults", "nulls"): (
        "category or {to: VALUE}",
        "say what a missing value becomes: a cell of its own, or a value. What cannot be read is missing too",
    ),
    ("domain", "granularity"): (
        "day, week, month, quarter or year",
        "write the calendar period that is to be counted",
    ),
    ("domain", "nulls"): (
        "{policy: category} or {policy: map, to: VALUE}",
        "say what a missing value becomes: a cell of its own, or a value. Also where a test says that there is "
        "none: a "
        "value that cannot be read is a missing one",
    ),
    ("provenance", "kind"): (
        "declared or public",
        "write declared if somebody decided this domain without looking at the rows, public (with `reference:`) "
        "if it is "
        "published. Values that another document lists may have been collected from the rows: check that first",
    ),
    ("domain", "height"): ("a number of places", "write the height that every picture has"),
    ("domain", "width"): ("a number of places", "write the width that every picture has"),
    ("domain", "levels"): ("2 to 256", "write how many levels a place can have; levels go from 0"),
}


def placeholders(document: Document) -> Iterator[FieldPath]:
    """Yield the path of every value of a file that is still a placeholder, in the order of the file."""
    waiting: list[tuple[FieldPath, object]] = [((), document.text())]
    while waiting:
        at, value = waiting.pop()
        if value == PLACEHOLDER:
            yield at
        elif isinstance(value, dict):
            waiting += reversed([((*at, key), inner) for key, inner in value.items()])
        elif isinstance(value, list):
            waiting += reversed([((*at, place), inner) for place, inner in enumerate(value)])


def undeclared(at: FieldPath, named: str) -> Problem:
    """Say what has to be declared in place of a placeholder.

    Args:
        at: where it stands.
        named: the same as a person reads it, `schema[0].properties[1].domain.bins`.
    """
    words = named.replace("[", ".").replace("]", "").split(".")
    for wanted, (allowed, remedy) in _ASKED.items():
        if tuple(words[-len(wanted) :]) == wanted:
            return Problem(f"{PLACEHOLDER}, which nobody has declared yet", allowed, remedy)
    return Problem(
        f"{PLACEHOLDER}, which nobody has declared yet", "a declared value", "declare it, or remove the key"
    )
