"""A list of columns in CSV: `column` and `description`, or `column` and `values`, or all of them and `type`.

    column,values                          column,description
    sex,"1=male; 2=female"                 sex,Sex of the person
    age,0..99                              age,"Age in years"
    ward,"surgery; emergency"              ward,Where somebody lay

Values are separated by `;` or `|` or line ends, and codes from labels by `=`. A range is `0..99`, `0 to 99`, or of
days `1930-01-01..2010-12-31`; one that is written otherwise is left to a person.
Without a header of known words the first column holds the names, and the second descriptions, unless it is full of
codes with `=` or ranges.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from contracts.drafting.codebooks.entries import Codebook, CodebookEntry
from contracts.drafting.logical_types import logical_type_of
from contracts.drafting.sketch import refuse_draft
from contracts.reading.scalars import show
from contracts.reading.yaml_lines import shown

_HEADS: Final = {
    "column": ("column", "columns", "name", "variable", "variable name", "field", "field name", "column name"),
    "description": ("description", "label", "meaning", "question", "variable label", "title"),
    "values": ("values", "codes", "categories", "allowed", "allowed values", "value labels", "levels", "domain"),
    "type": ("type", "data type", "datatype", "format"),
    "missing": ("missing", "missing values"),
}
_RANGE = re.compile(r"\s*([-+]?[0-9][0-9.]*?)\s*(?:\.\.|–|\bto\b)\s*([-+]?[0-9][0-9.]*)\s*")
_DAYS = re.compile(r"\s*([0-9]{4}-[0-9]{2}-[0-9]{2})\s*(?:\.\.|–|\bto\b)\s*([0-9]{4}-[0-9]{2}-[0-9]{2})\s*")
_DELIMITERS: Final = (",", ";", "\t")
Row = tuple[int, list[str]]


def column_list(path: Path, text: str) -> Codebook:
    """Read a list of columns.

    Raises:
        DraftRefused: it has no two columns, or no rows.
    """
    rows = list(_rows(text))
    if not rows or max(len(cells) for _, cells in rows) < 2:
        found = "nothing" if not rows else "one column"
        refuse_draft(
            f"{shown(path)}:1", "codebook", found, "at least two columns: column, and description or values",
            "write a line a column, such as: sex,\"1=male; 2=female\"",
        )  # fmt: skip
    places = _places(rows[0][1])
    listed = rows[1:] if places else rows
    places = places or {"column": 0, _second(listed): 1}
    entries = tuple(_entry(path, line, cells, places) for line, cells in listed if cells[places["column"]].strip())
    return Codebook(path.name, "list", entries)


def _rows(text: str) -> Iterator[Row]:
    """Every row that is not empty, with the line on which it begins."""
    lines = text.splitlines(keepends=True)
    head = lines[0] if lines else ""
    reader = csv.reader(lines, delimiter=max(_DELIMITERS, key=head.count))
    before = 0
    for cells in reader:
        if any(cell.strip() for cell in cells):
            yield before + 1, cells
        before = reader.line_num


def _places(cells: Sequence[str]) -> dict[str, int]:
    """Which column of the list is what; {} where the first row is no header."""
    words = [cell.strip().casefold().replace("_", " ") for cell in cells]
    places = {what: words.index(word) for what, known in _HEADS.items() for word in known if word in words}
    return places if "column" in places and len(places) > 1 else {}


def _second(rows: Sequence[Row]) -> str:
    """Say what the second column holds where no header does."""
    cells = [cells[1] for _, cells in rows if len(cells) > 1 and cells[1].strip()]
    coded = [cell for cell in cells if _bounds(cell) or all("=" in part for part in _parts(cell))]
    return "values" if cells and 2 * len(coded) >= len(cells) else "description"


def _entry(path: Path, line: int, cells: Sequence[str], places: dict[str, int]) -> CodebookEntry:
    given = {what: cells[place].strip() if place < len(cells) else "" for what, place in places.items()}
    written = given.get("values", "")
    bounds, kind = _bounds(written), logical_type_of(given.get("type"))
    codes = () if bounds else tuple(_code(part) for part in _parts(written))
    if _DAYS.fullmatch(written) and kind in (None, "string"):
        kind = "date"
    hints: tuple[str, ...] = ()
    if len(codes) == 1 and ".." in codes[0][0] and not codes[0][1]:
        hints = (
            f"The range {show(codes[0][0])} is neither one of numbers nor one of days (YYYY-MM-DD): declare it.",
        )
        codes = ()
    return CodebookEntry(
        given["column"],
        f"{shown(path)}:{line}",
        kind,
        given.get("description"),
        codes,
        bounds[1] if bounds else None,
        bounds[2] if bounds else None,
        tuple(_parts(given.get("missing", ""))),
        hints=hints,
    )


def _bounds(written: str) -> re.Match[str] | None:
    """Match a range of numbers or of days: its lower and its upper end."""
    return _RANGE.fullmatch(written) or _DAYS.fullmatch(written)


def _parts(written: str) -> list[str]:
    return [part.strip() for part in re.split(r"[;|\n]", written) if part.strip()]


def _code(part: str) -> tuple[str, str]:
    code, _, label = part.partition("=")
    return code.strip(), label.strip()
