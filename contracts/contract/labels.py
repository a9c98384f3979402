"""What labels stand for, in columns beside them: `publish: {labels: columns}` in a release spec.

| column | beside | holds |
|---|---|---|
| `age_order` | every label | its place in the declared order, from 1: texts sort otherwise (100 before 15) |
| `age_lower`, `age_upper` | numbers and days in bins | the ends of the bin, as numbers or days |
| `sex_code` | codes with labels | the code in the data; several that share a label stand with `|` between them |

All of it is the contract's, so that it tells nothing of the rows and costs nothing. A label without ends or codes, as
"(null)", has none there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Final, Literal, Protocol

from contracts.contract.column import Cells, Column
from contracts.domains.bins import ExactNumber
from contracts.domains.text import TextDomain
from contracts.message import message
from contracts.reading.scalars import Problem, show

LabelForm = Literal["columns"]
LabelKind = Literal["integer", "number", "date", "text"]
BETWEEN: Final = "|"
_EPOCH: Final = date(1970, 1, 1)


@dataclass(frozen=True)
class LabelColumn:
    """One column beside a column of labels.

    Args:
        name: of the column.
        kind: of its values.
        values: one a label, in the order of the labels; None where there is none.
        means: what it holds, a sentence.
    """

    name: str
    kind: LabelKind
    values: tuple[Any, ...]
    means: str

    @property
    def complete(self) -> bool:
        """Whether every label has a value."""
        return None not in self.values


def label_columns(column: Column, groups: Sequence[Sequence[int]] | None = None) -> tuple[LabelColumn, ...]:
    """Return the columns beside a column of labels.

    Args:
        column: the column.
        groups: of each label the codes that it stands for, ascending; without it each label is one code.
    Returns:
        tuple: the order first, then ends or codes.
    """
    grouped = [(code,) for code in range(column.size)] if groups is None else groups
    name, domain = column.name, column.domain
    means = f"Place of the label of {name} in the declared order, from 1."
    found = [LabelColumn(f"{name}_order", "integer", tuple(range(1, len(grouped) + 1)), means)]
    if domain.ordered:
        ends = [_ends(domain.axis, codes) for codes in grouped]
        kind: LabelKind = "date" if domain.tells_days else _number_kind(domain.axis)
        for place, (key, meaning) in enumerate(zip(("lower", "upper"), _meanings(column), strict=True)):
            values = tuple(None if pair is None else _value(pair[place], kind) for pair in ends)
            found.append(LabelColumn(f"{name}_{key}", kind, values, meaning))
    texts = domain.coded_texts
    if texts:
        codes_of = (tuple(text for code in codes for text in texts[code]) for codes in grouped)
        written = tuple(BETWEEN.join(each) or None for each in codes_of)
        means = f"Code in the data that the label of {name} stands for; several with {BETWEEN} between them."
        found.append(LabelColumn(f"{name}_code", "text", written, means))
    return tuple(found)


def _ends(axis: Sequence[tuple[ExactNumber, ExactNumber]], codes: Sequence[int]) -> tuple[Any, Any] | None:
    """Return the ends of neighbouring bins; None where they leave gaps, or a cell is none of a bin."""
    first, last = codes[0], codes[-1]
    if last >= len(axis) or list(codes) != list(range(first, last + 1)):
        return None
    return axis[first][0], axis[last][1]


def _number_kind(axis: Sequence[tuple[ExactNumber, ExactNumber]]) -> LabelKind:
    return "integer" if all(isinstance(end, int) for pair in axis for end in pair) else "number"


def _value(end: ExactNumber, kind: LabelKind) -> int | float | date:
    if kind == "date":
        return _EPOCH + timedelta(days=int(end))
    return int(end) if kind == "integer" else float(end)


def _meanings(column: Column) -> tuple[str, str]:
    """Say what the ends of a bin are; what lies outside the bounds is counted in the first and the last bin."""
    of = f"of the bin of {column.name}"
    open_end = "which the bin does not hold, but for the last one" if column.domain.half_open else "itself in the bin"
    return (
        f"Lower end {of}, itself in the bin; smaller values are counted in the first one.",
        f"Upper end {of}, {open_end}; larger values are counted in the last one.",
    )


def code_problems(column: Column) -> Iterator[Problem]:
    """Refuse codes that could not be told apart: one with a `|` that shares its label with another."""
    for texts in column.domain.coded_texts:
        for text in texts if len(texts) > 1 else ():
            if BETWEEN in text:
                found = f"labels: columns, and the code {show(text)} of {column.name!r}, which shares its label"
                remedy = "give it a label of its own in the contract, or drop `labels:`"
                yield Problem(found, f"codes without {BETWEEN} where several share a label", remedy)


def name_problems(labels: Sequence[Column], others: Sequence[str]) -> Iterator[Problem]:
    """Refuse a column beside labels that is named like another one of the same file, whatever its case.

    Args:
        labels: the columns of labels.
        others: names of the file's other columns.
    """
    taken = {name.casefold(): name for name in (*others, *(column.name for column in labels))}
    for column in labels:
        for beside in label_columns(column):
            if beside.name.casefold() in taken:
                found = f"labels: columns, and {taken[beside.name.casefold()]!r} beside the labels of {column.name!r}"
                remedy = "rename the column in the contract, and in the source by a select, or drop `labels:`"
                yield Problem(found, f"no other column named {beside.name!r}", remedy)
            taken[beside.name.casefold()] = beside.name


class DescribedCells(Cells, Protocol):
    """Cells whose labels are the contract's: the contract itself, or a coarser resolution of one of its tables."""

    def beside(self, clique: Sequence[str]) -> tuple[tuple[LabelColumn, ...], ...]:
        """Return the columns beside the labels of each column."""

    def ordered_axes(self, clique: Sequence[str]) -> tuple[int, ...]:
        """Return the places of the last two ordered columns."""


# --- Labels that a spreadsheet takes for formulas when it opens a CSV file, and how a spec says to write them there.


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
