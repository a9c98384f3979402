"""A table and its codebook: what only one has, and where they contradict each other, are said with their places."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from contracts.drafting.sketch import DraftRefused
from tasks.draft import draft_contract
from tests.contracts.samples import write

BOOK = {"AGE": {"values": {"min": 0, "max": 99}}, "sex": {"values": {"1": "male", "2": "female"}}, "ward": {}}


def _book(folder: Path, content: Any = BOOK) -> Path:
    return write(folder, "book.json", json.dumps(content, indent=1))


def test_columns_of_one_side_alone_are_said_and_the_draft_is_made(tmp_path: Path) -> None:
    """What the codebook lacks is a finding with its nearest name; what the table lacks is a line in the head."""
    path = write(tmp_path, "rows.csv", "age,sexx,sex\n")
    drafted = draft_contract(path, _book(tmp_path))
    (finding,) = drafted.findings
    assert (finding.where, finding.field) == (f"{path}:1", "column 'sexx'")
    assert "no entry in book.json" in finding.found
    assert (
        finding.remedy == "declare it by hand; what nobody shall read stands under `left_out:`"
    )  # sex is a column already
    assert "# book.json also describes columns that the table does not have: ward." in drafted.text
    assert "\n  # The codebook writes AGE.\n  age: 0..99 by <declare>\n" in drafted.text
    assert "\n  sex: {1: male, 2: female}\n" in drafted.text
    (misspelt,) = draft_contract(write(tmp_path, "rows.csv", "age,sexx\n"), _book(tmp_path)).findings
    assert misspelt.remedy == "if 'sex' is meant, write 'sexx' in book.json"


def test_a_codebook_of_another_table_is_refused(tmp_path: Path) -> None:
    """No column in common: the wrong file was named."""
    with pytest.raises(DraftRefused, match=r"none of the columns of the first line of rows\.csv"):
        draft_contract(write(tmp_path, "rows.csv", "a,b\n"), _book(tmp_path))


@pytest.mark.parametrize(
    ("kind", "entry", "found"),
    [
        (pa.int64(), {"values": {"N": "none", "1": "a"}}, "the code 'N', while the table stores integer"),
        (pa.int64(), {"values": ["1.5"]}, "the code '1.5', while the table stores integer"),
        (pa.float64(), {"values": ["x"]}, "the code 'x', while the table stores number"),
        (pa.bool_(), {"values": ["yes"]}, "the code 'yes', while the table stores boolean"),
        (pa.bool_(), {"values": {"min": 0, "max": 9}}, "a range of numbers, while the table stores boolean"),
        (pa.date32(), {"values": {"min": 0, "max": 9}}, "a range of numbers, while the table stores date"),
        (pa.date32(), {"values": ["Monday"]}, "the code 'Monday', while the table stores date"),
        (pa.int64(), {"type": "date"}, "days, while the table stores integer"),
        (pa.list_(pa.int8()), {"values": ["1"]}, "the code '1', while the table stores array"),
    ],
)
def test_a_type_that_cannot_be_leaves_the_column_open(
    tmp_path: Path, kind: pa.DataType, entry: dict[str, Any], found: str
) -> None:
    """Neither side is believed: the finding has the codebook's line, and lint asks for the column."""
    book = _book(tmp_path, {"b": {"values": ["x"]}, "a": entry})
    drafted = draft_contract(pa.schema([("a", kind), ("b", pa.string())]), book, table="people")
    (finding,) = drafted.findings
    assert found in finding.found
    assert finding.field == "column 'a'"
    line = next(number for number, text in enumerate(book.read_text().splitlines(), 1) if '"a": {' in text)
    assert finding.where == f"{book}:{line}"
    assert "\n  a: <declare>" in drafted.text
    assert "\n  b: [x]\n" in drafted.text


@pytest.mark.parametrize(
    ("kind", "entry", "line"),
    [
        (pa.string(), {"values": {"min": 0, "max": 99}}, "0..99 by <declare>"),
        (pa.string(), {"values": ["1", "2"]}, "{values: [1, 2], type: string}"),
        (pa.int8(), {"values": ["1", "2"]}, "[1, 2]"),
        (pa.float32(), {"values": {"min": 0, "max": 99}}, "number 0..99 by <declare>"),
        (pa.bool_(), {"description": "Yes or no"}, '{values: [false, true], description: "Yes or no"}'),
        (pa.date32(), {"description": "Day"}, "<declare>   # days: 2024-01-01..2024-12-31 by month; Day"),
    ],
)
def test_a_type_that_can_be_is_joined_with_what_is_declared(
    tmp_path: Path, kind: pa.DataType, entry: dict[str, Any], line: str
) -> None:
    """The table says what is stored, the codebook what it means."""
    drafted = draft_contract(pa.schema([("a", kind)]), _book(tmp_path, {"a": entry}))
    assert drafted.findings == ()
    assert f"\n  a: {line}\n" in drafted.text
