"""Values, bounds and bins proposed from rows that somebody declared public: the only draft for which rows are read.

A person says why the rows are public, and that sentence stands in the contract as its provenance. Confidential rows
must never come here: whatever is proposed is published with every table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from contracts.contract.short_form import type_of_texts
from contracts.domains.notation import value_key
from contracts.drafting.advice.suspicions import looks_identifying, names_an_id, names_free_text
from contracts.drafting.sketch import ColumnSketch, TableSketch, refuse_draft
from contracts.errors import Finding
from contracts.reading.scalars import LARGEST_NUMBER, is_not_plain, plain_decimal, read_day, read_number
from contracts.reading.yaml_lines import shown

MOST_VALUES: Final = 100
FEW_NUMBERS: Final = 12
"""So many whole numbers or fewer are taken for codes."""
MOST_BINS: Final = 20
MOST_MISSING: Final = 3
_NULLS: Final = frozenset({"", "?", ".", "na", "n/a", "nan", "null"})
_NULLS_AMONG_NUMBERS: Final = frozenset({"n", "-", "none", "x"})
"""Beside numbers these mean nothing; among texts they may be answers."""


def sketch_of_sample(table: TableSketch, rows: pa.Table, *, reason: str, file: str) -> TableSketch:
    """Propose a domain for each column of a table that no document declares, from public rows.

    Args:
        table: names and types.
        rows: the rows, with the same columns.
        reason: why they are public, in a person's words.
        file: their name.
    Returns:
        TableSketch: with values, bounds and bins, and `reason` as their origin. A column of which the rows have a
        value that its codebook lacks is left open, with a finding.
    Privacy: none is promised: the rows are public, as a person says. The reason is published.
    """
    origin = f"{reason} (values, bounds and bins proposed from {file})"
    columns, findings = [], [*table.findings]
    for place, column in enumerate(table.columns):
        values = rows.column(place)
        unlisted = _unlisted(column, values)
        if unlisted:
            found = f"{len(unlisted)} values of {file} that it does not list (the first is {unlisted[0]!r})"
            remedy = "add them to the codebook, or declare the column by hand; it is left open"
            findings.append(Finding(column.where, f"column {column.name!r}", found, "every value", remedy))
            hints = (*column.hints, f"Contradiction: {found}.")
            columns.append(ColumnSketch(column.name, column.logical_type, column.description, hints=hints))
        elif column.values:
            columns.append(column)
        elif column.bounds is not None:
            columns.append(_with_width(column))
        else:
            columns.append(_proposed(column, values, origin))
    return replace(
        table,
        columns=tuple(columns),
        public=origin,
        origin=f"{table.origin} and public rows",
        findings=tuple(findings),
    )


def _unlisted(column: ColumnSketch, values: Any) -> list[str]:
    """List the values that a codebook does not, however they are spelled."""
    known = {value_key(text) or text for text in (*column.values, *column.missing)} if column.values else set()
    seen = (text for text in _texts(values) if text.casefold() not in _NULLS)
    return [text for text in seen if known and (value_key(text) or text) not in known]


def _with_width(column: ColumnSketch) -> ColumnSketch:
    """Propose bins for bounds that a codebook declares."""
    if column.width is not None or column.bounds is None or column.logical_type == "date":
        return replace(column, width=column.width or "month")
    low, high = map(Decimal, column.bounds)
    width = _round_width((high - low) / MOST_BINS, whole=column.logical_type == "integer")
    return replace(column, width=str(plain_decimal(width)))


def public_rows(path: Path, table: TableSketch) -> pa.Table:
    """Read the rows of a CSV or Parquet file; a CSV file as texts, with the columns of its header.

    Raises:
        DraftRefused: the file is of another format, or its rows cannot be read.
    """
    reason = ""
    try:
        if path.suffix.lower() == ".parquet":
            return pq.read_table(path)
        names = [column.name for column in table.columns]
        texts = {name: pa.string() for name in names}
        delimiter = table.delimiter or ","
        return pa.csv.read_csv(
            path,
            read_options=pa.csv.ReadOptions(column_names=names, skip_rows=1),
            parse_options=pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=pa.csv.ConvertOptions(column_types=texts, strings_can_be_null=False),
        )
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = type(error).__name__
    refuse_draft(
        shown(path),
        "--public-because",
        f"rows that cannot be read ({reason})",
        "a CSV or Parquet file in UTF-8",
        "check the file",
    )


def _proposed(column: ColumnSketch, values: Any, origin: str) -> ColumnSketch:
    """Propose categories for few values, a range with bins for numbers and days, and nothing for texts."""
    listed = list(_texts(values))
    others = [text for text in listed if text.casefold() not in _NULLS | _NULLS_AMONG_NUMBERS]
    nulls = (
        _NULLS | _NULLS_AMONG_NUMBERS if others and all(read_number(text) is not None for text in others) else _NULLS
    )
    texts = [text for text in listed if text.casefold() not in nulls]
    missing = tuple(sorted({text for text in listed if text and text.casefold() in nulls}))[:MOST_MISSING]
    if not texts:
        return replace(column, hints=(*column.hints, "The sample has no value of it."))
    numbers = [number for number in map(read_number, texts) if number is not None]
    if len(numbers) == len(texts) and max(map(abs, numbers)) < LARGEST_NUMBER:
        whole = all(number == number.to_integral_value() for number in numbers)
        if not (whole and len(set(numbers)) <= FEW_NUMBERS and column.logical_type != "number"):
            return replace(_in_range(column, numbers, whole=whole), missing=missing, origin=origin)
    days = [day for day in map(read_day, texts) if day is not None]
    if len(days) == len(texts) and not numbers:
        bounds = (min(days).replace(month=1, day=1).isoformat(), max(days).replace(month=12, day=31).isoformat())
        return replace(column, logical_type="date", bounds=bounds, width="month", missing=missing, origin=origin)
    return _in_categories(column, texts, missing, origin)


def _texts(values: Any) -> Iterator[str]:
    """Every distinct value as a text; whole numbers without a point."""
    for value in pc.unique(values).to_pylist():
        if isinstance(value, float) and value.is_integer():
            yield str(int(value))
        elif isinstance(value, bool):
            yield str(value).lower()
        elif value is not None and not isinstance(value, list | dict | bytes):
            yield str(value).strip()


def _in_range(column: ColumnSketch, numbers: list[Decimal], *, whole: bool) -> ColumnSketch:
    """Round the ends outwards to bins of 1, 2 or 5 times a power of ten, at most 20 or so of them."""
    width = _round_width((max(numbers) - min(numbers)) / MOST_BINS, whole=whole)
    low = (min(numbers) / width).to_integral_value(ROUND_FLOOR) * width
    high = (max(numbers) / width).to_integral_value(ROUND_CEILING) * width
    if whole:
        high = max(max(numbers), (max(numbers) // width + 1) * width - 1)
    bounds = (str(plain_decimal(low)), str(plain_decimal(high if high > low else low + width)))
    return replace(
        column, logical_type="integer" if whole else "number", bounds=bounds, width=str(plain_decimal(width))
    )


def _round_width(least: Decimal, *, whole: bool) -> Decimal:
    least = max(least, Decimal(1)) if whole else max(least, Decimal("1e-9"))
    power = Decimal(10) ** least.adjusted()
    return next(step * power for step in (1, 2, 5, 10) if step * power >= least)


def _in_categories(column: ColumnSketch, texts: list[str], missing: tuple[str, ...], origin: str) -> ColumnSketch:
    """List the values, in the order of numbers or of texts; too many, or ones like names, are left to a person."""
    listed = sorted(dict.fromkeys(texts), key=lambda text: (read_number(text) or Decimal(0), text))
    unfit = looks_identifying(listed) or names_free_text(column.name) or names_an_id(column.name)
    if len(listed) > MOST_VALUES or unfit or any(is_not_plain(text) for text in listed):
        said = f"The sample has {len(listed)} values of it, which were not taken over."
        return replace(column, hints=(*column.hints, said))
    logical = column.logical_type or type_of_texts(listed)
    return replace(column, logical_type=logical, values=tuple(listed), missing=missing, origin=origin)
