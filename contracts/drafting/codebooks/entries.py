"""What a codebook says of one column, cleaned: codes with labels, a range, missing texts; and its contradictions.

Every form of codebook makes `CodebookEntry` of its columns; here they become sketches. A text of a codebook is never
trusted: spaces are joined, and labels that a contract could not hold give way to their codes.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Final

from contracts.contract.column import LogicalType
from contracts.domains.notation import value_key
from contracts.drafting.sketch import ColumnSketch, logical_type_of, refuse_draft
from contracts.errors import Finding
from contracts.reading.scalars import is_not_plain, plain_decimal, read_number, show
from contracts.reading.yaml_lines import shown

SINGLE_VALUES = 25
"""A range of so many whole numbers is drafted with a bin for each."""
_WHOLE = re.compile(r"[+-]?[0-9]+(?:\.0*)?")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


@dataclass(frozen=True)
class CodebookEntry:
    """One column as a codebook has it.

    Args:
        name: of the column.
        where: the place, "file:line".
        logical_type: what it holds; None where the codebook does not say.
        description: in words.
        codes: each code with its label; a label may be "".
        low: the lower end of a range, as text, or None.
        high: the upper end.
        missing: texts that mean a missing value.
        form: how texts write days, or None.
        hints: further lines for the person who completes the draft.
    """

    name: str
    where: str
    logical_type: LogicalType | None = None
    description: str | None = None
    codes: tuple[tuple[str, str], ...] = ()
    low: str | None = None
    high: str | None = None
    missing: tuple[str, ...] = ()
    form: str | None = None
    hints: tuple[str, ...] = ()


@dataclass(frozen=True)
class Codebook:
    """A whole codebook.

    Args:
        file: its name.
        form: the form it is in, as `--form` names it.
        entries: its columns, in order.
        hints: lines about the table.
        title: of the table, or None.
    """

    file: str
    form: str
    entries: tuple[CodebookEntry, ...]
    hints: tuple[str, ...] = ()
    title: str | None = None


@dataclass
class _Reading:
    """One entry on its way to a sketch."""

    entry: CodebookEntry
    findings: list[Finding] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)

    def refuse(self, found: str, allowed: str, remedy: str) -> None:
        self.findings.append(Finding(self.entry.where, f"column {self.entry.name!r}", found, allowed, remedy))


def sketch_of_entry(entry: CodebookEntry, origin: str) -> tuple[ColumnSketch, tuple[Finding, ...]]:
    """Make a sketch of an entry.

    Args:
        entry: the column.
        origin: how a provenance names the codebook.
    Returns:
        The sketch, and what of the entry contradicts itself: nothing of its domain is taken over then.
    """
    reading = _Reading(entry, hints=list(entry.hints))
    codes = _distinct_codes(reading)
    missing = tuple(dict.fromkeys(text for text in entry.missing if text.strip()))
    codes = {code: label for code, label in codes.items() if code not in missing}
    bounds = _bounds(reading)
    if bounds is not None and codes:
        bounds, codes, missing = _with_codes(reading, bounds, codes, missing)
    _check_type(reading, codes, bounds)
    column = ColumnSketch(
        entry.name,
        entry.logical_type,
        one_line(entry.description),
        where=entry.where,
        origin=origin,
        hints=tuple(reading.hints),
    )
    if reading.findings:
        said = (f"Contradiction: {each.found}; {each.allowed}." for each in reading.findings)
        open_column = replace(column, logical_type=None, hints=(*column.hints, *said))
        return open_column, tuple(reading.findings)
    return _with_domain(column, entry, codes, bounds, missing, reading), ()


def one_line(text: str | None) -> str | None:
    """Join the spaces of a text; None for one that is empty or cannot be shown."""
    joined = " ".join((text or "").split())
    return joined if joined and not is_not_plain(joined) else None


def _with_domain(
    column: ColumnSketch,
    entry: CodebookEntry,
    codes: Mapping[str, str],
    bounds: tuple[Decimal, Decimal] | None,
    missing: tuple[str, ...],
    reading: _Reading,
) -> ColumnSketch:
    if entry.logical_type == "date":
        days = None if entry.low is None or entry.high is None else (entry.low, entry.high)
        return replace(column, bounds=days, form=entry.form, missing=missing)
    if bounds is None:
        labels = _labels(reading, codes)
        return replace(column, values=tuple(codes), labels=labels, missing=missing, hints=tuple(reading.hints))
    whole = all(number == number.to_integral_value() for number in bounds) and entry.logical_type != "number"
    few = whole and bounds[1] - bounds[0] < SINGLE_VALUES
    return replace(
        column,
        logical_type="integer" if whole else "number",
        bounds=(str(plain_decimal(bounds[0])), str(plain_decimal(bounds[1]))),
        width="1" if few else None,
        missing=missing,
        hints=tuple(reading.hints),
    )


def _distinct_codes(reading: _Reading) -> dict[str, str]:
    """Each code once, without what cannot be seen; one that has two labels is a contradiction."""
    codes: dict[str, str] = {}
    for raw, text in reading.entry.codes:
        code, label = one_line(raw), one_line(text) or ""
        if code is None:
            if raw.strip():
                reading.hints.append("A code with characters that cannot be seen was not taken over.")
            continue
        if codes.setdefault(code, label) != label:
            found = f"the code {show(code)} is {show(codes[code])} and {show(label)}"
            reading.refuse(found, "one label a code", "correct the codebook")
    return codes


def _bounds(reading: _Reading) -> tuple[Decimal, Decimal] | None:
    """The range of numbers, if there is one; what is none, or the wrong way round, is a contradiction."""
    entry = reading.entry
    if entry.logical_type == "date":
        _check_days(reading)
        return None
    if entry.low is None or entry.high is None:
        if entry.low is not None or entry.high is not None:
            one = f"from {entry.low}" if entry.high is None else f"to {entry.high}"
            reading.hints.append(f"The codebook has one bound alone: {one}.")
        return None
    low, high = read_number(entry.low), read_number(entry.high)
    if low is None or high is None:
        found = f"a range from {show(entry.low)} to {show(entry.high)}"
        reading.refuse(found, "two numbers", "correct the codebook, or declare the range in the contract")
        return None
    if high < low:
        reading.refuse(f"a range from {low} to {high}", "a lower bound below the upper one", "correct the codebook")
        return None
    return low, high


def _check_days(reading: _Reading) -> None:
    """A range of days as YYYY-MM-DD that are none, or the wrong way round, is a contradiction."""
    low, high = reading.entry.low or "", reading.entry.high or ""
    if not (_DAY.fullmatch(low) and _DAY.fullmatch(high)):
        return
    try:
        in_order = date.fromisoformat(low) <= date.fromisoformat(high)
    except ValueError:
        in_order = False
    if not in_order:
        reading.refuse(f"a range from {low} to {high}", "two days, the earlier one first", "correct the codebook")


def _with_codes(
    reading: _Reading, bounds: tuple[Decimal, Decimal], codes: dict[str, str], missing: tuple[str, ...]
) -> tuple[tuple[Decimal, Decimal], dict[str, str], tuple[str, ...]]:
    """Let codes beside a range widen it where they are its neighbours; all others mean a missing value."""
    low, high = bounds
    others = []
    for code, label in codes.items():
        number = read_number(code)
        if number is not None and low - 1 <= number <= high + 1:
            low, high = min(low, number), max(high, number)
            continue
        others.append(code)
        said = f" ({label})" if label else ""
        reading.hints.append(f"{code}{said} stands beside the range and is counted as missing; check it.")
    return (low, high), {}, (*missing, *others)


def _check_type(reading: _Reading, codes: Mapping[str, str], bounds: tuple[Decimal, Decimal] | None) -> None:
    """Codes and ranges that cannot be of the stated type are contradictions."""
    stated = reading.entry.logical_type
    tests = {
        "integer": lambda code: _WHOLE.fullmatch(code) is not None,
        "number": lambda code: read_number(code) is not None,
        "boolean": lambda code: code.lower() in ("true", "false", "0", "1"),
    }
    unfit = [code for code in codes if stated in tests and not tests[stated](code)]
    if unfit:
        found = f"the code {show(unfit[0])} in a column of type {stated}"
        remedy = "correct the type or the codes; a code that means a missing value belongs under the missing ones"
        reading.refuse(found, f"codes of type {stated}", remedy)
    if bounds is not None and stated in ("boolean", "array"):
        reading.refuse(f"a range in a column of type {stated}", "a range of numbers", "correct the codebook")


def _labels(reading: _Reading, codes: Mapping[str, str]) -> dict[str, str]:
    """Labels that a contract can hold: none that is another code, and none that two codes share."""
    labels = {code: label or code for code, label in codes.items()}
    if all(label == code for code, label in labels.items()):
        return {}
    shared = {label for label in labels.values() if list(labels.values()).count(label) > 1}
    if shared:
        reading.hints.append(
            "Several codes have one label; the code was added. To count them as one, write it alike."
        )
        labels = {code: f"{label} ({code})" if label in shared else label for code, label in labels.items()}
    keys = {value_key(code) or code: code for code in codes}
    if any(keys.get(value_key(label) or label, code) != code for code, label in labels.items()):
        reading.hints.append("Labels that are codes of other values were not taken over.")
        return {}
    return labels


# --- A list of columns in CSV.


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
    coded = [cell for cell in cells if _match_range(cell) or all("=" in part for part in _parts(cell))]
    return "values" if cells and 2 * len(coded) >= len(cells) else "description"


def _entry(path: Path, line: int, cells: Sequence[str], places: dict[str, int]) -> CodebookEntry:
    given = {what: cells[place].strip() if place < len(cells) else "" for what, place in places.items()}
    written = given.get("values", "")
    bounds, kind = _match_range(written), logical_type_of(given.get("type"))
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


def _match_range(written: str) -> re.Match[str] | None:
    """Match a range of numbers or of days: its lower and its upper end."""
    return _RANGE.fullmatch(written) or _DAYS.fullmatch(written)


def _parts(written: str) -> list[str]:
    return [part.strip() for part in re.split(r"[;|\n]", written) if part.strip()]


def _code(part: str) -> tuple[str, str]:
    code, _, label = part.partition("=")
    return code.strip(), label.strip()
