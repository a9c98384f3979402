"""Labels that a spreadsheet takes for formulas when it opens a CSV file, and how a spec says to write them there.

Neutralised, a label that begins like a formula has a single quote in front, which makes it text. A label that begins
with a single quote of its own gets one more, so that no two labels are written alike and each can be read back.

Source: OWASP, CSV Injection. There every cell gets the quote that begins with =, +, - or @; here numbers keep their
sign. A tab or a carriage return begins no label: contracts refuse control characters.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal

from contracts.contract.column import Column
from contracts.contract.label_columns import LabelForm, label_columns
from contracts.domains.text import TextDomain
from contracts.message import message
from contracts.reading.scalars import Problem

Formulas = Literal["accepted", "neutralised"]
QUOTE: Final = "'"
_FIRST: Final = ("=", "+", "-", "@", "＝", "＋", "－", "＠", "﹦", "﹢", "﹣", "﹫")
"""Their full-width and small forms too: a spreadsheet in Japanese or Chinese takes them for the same signs."""
_SPLIT: Final = re.compile(rf";\s*[{re.escape(''.join(_FIRST))}]")
"""Where `;` separates cells, as in much of Europe, what stands after it is a cell of its own; no quote helps that."""
_PLAIN_NUMBER: Final = re.compile(r"[+-]?[0-9]+(?:[.,][0-9]+)?(?: ?%)?")
_STATED: Final = {
    None: message("no category or name of a column in CSV files is one that a spreadsheet takes for a formula"),
    "accepted": message("CSV files may have labels that a spreadsheet takes for formulas (formulas: accepted)"),
    "neutralised": (
        message(
            "in CSV files a label that a spreadsheet takes for a formula, or that begins with a single quote, has a "
            "single quote in front (formulas: neutralised); in all other files it has none"
        )
    ),
}


def is_formula(label: str) -> bool:
    """Say whether a spreadsheet would take a label in a CSV file for a formula and run it; a number is none."""
    return label[:1] in _FIRST and len(label) > 1 and not _PLAIN_NUMBER.fullmatch(label)


def neutralised(label: str) -> str:
    """Write a label so that a spreadsheet shows it as text; no two labels are written alike."""
    return QUOTE + label if is_formula(label) or label.startswith(QUOTE) else label


def restored(cell: str) -> str:
    """Read a label back from what `neutralised` wrote.

    Raises:
        ValueError: it wrote nothing of the kind: the quote is missing, or there is one that nothing asks for.
    """
    label = cell.removeprefix(QUOTE)
    if neutralised(label) != cell:
        wanted = f"{neutralised(cell)!r}" if is_formula(cell) else f"{label!r}"
        raise ValueError(f"the label {cell!r}, where {wanted} is written (formulas: neutralised)")
    return label


def formula_labels(column: Column) -> list[str]:
    """List the column's name and labels that a spreadsheet would take for formulas."""
    return [label for label in _labels(column) if is_formula(label)]


def _labels(column: Column, form: LabelForm | None = None) -> tuple[str, ...]:
    """Return the column's name and the labels that a contract writes out; with what stands in columns beside them."""
    beside = () if form is None else label_columns(column)
    texts = (text for each in beside if each.kind == "text" for text in each.values if text is not None)
    return (column.name, *(column.labels if column.named else ()), *(each.name for each in beside), *texts)


def place_of(column: Column, label: str) -> str:
    """Say where a label stands, without quoting it: it may be somebody's."""
    if label != column.name and label not in column.labels:
        return "a code, or the name of a column beside it,"
    return "its name" if label == column.name else f"number {column.labels.index(label) + 1}"


def formula_problem(
    columns: Sequence[Column], formulas: Formulas | None, form: LabelForm | None = None
) -> Problem | None:
    """Refuse labels that a spreadsheet would run, unless it is said how CSV files write them.

    Args:
        columns: those of the contract.
        formulas: what the spec says of such labels.
        form: whether codes stand beside their labels.
    """
    written = [(column, label) for column in columns for label in _labels(column, form)]
    split = [(column, label) for column, label in written if _SPLIT.search(label)]
    if split and formulas != "accepted":
        (column, label), allowed = split[0], "labels without a formula after a `;`"
        place = f"{place_of(column, label)} of column {column.name!r}"
        remedy = (
            "in the contract write kind: mapping and give the value another label, or write formulas: accepted; a "
            "spreadsheet that separates cells by `;` would run it, and a single quote in front does not help"
        )
        return Problem(
            f"csv, and {len(split)} labels with a formula after a `;` (the first: {place})", allowed, remedy
        )
    texts = [column.name for column in columns if isinstance(column.domain, TextDomain)]
    if texts and formulas is None:
        remedy = "write formulas: neutralised (CSV files have a single quote in front of them) or formulas: accepted"
        found_texts = f"csv, and {texts[0]!r}, a column of texts, each of which may be a formula"
        return Problem(found_texts, "a choice by `formulas:`, or formats without csv", remedy)
    found = [(column, label) for column, label in written if is_formula(label)]
    if not found or formulas is not None:
        return None
    (column, label), allowed = found[0], "labels that no spreadsheet takes for a formula, or a choice by `formulas:`"
    remedy = (
        "write formulas: neutralised (CSV files have a single quote in front of them) or formulas: accepted (as they "
        "are), or in the contract write kind: mapping and give the value another label"
    )
    place = f"{place_of(column, label)} of column {column.name!r}"
    return Problem(f"csv, and {len(found)} labels that begin with =, +, - or @ (the first: {place})", allowed, remedy)


def stated(formulas: Formulas | None) -> str:
    """Say in words how labels that a spreadsheet takes for formulas stand in the CSV files of a version."""
    return _STATED[formulas]
