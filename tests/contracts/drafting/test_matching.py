"""A table and its codebook: what only one has, and where they contradict each other, are said with their places."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from contracts.drafting.sketch import DraftRefused
from tasks.draft import draft_contract
from tests.contracts.samples import write

BOOK = ("AGE,0..99", "sex,1=male; 2=female", "ward")


def _book(folder: Path, lines: Sequence[str] = BOOK) -> Path:
    return write(folder, "book.csv", "".join(f"{line}\n" for line in ("column,values,type,description", *lines)))


def test_columns_of_one_side_alone_are_said_and_the_draft_is_made(tmp_path: Path) -> None:
    """What the codebook lacks is a finding with its nearest name; what the table lacks is a line in the head."""
    path = write(tmp_path, "rows.csv", "age,sexx,sex\n")
    drafted = draft_contract(path, _book(tmp_path))
    (finding,) = drafted.findings
    assert (finding.where, finding.field) == (f"{path}:1", "column 'sexx'")
    assert "no entry in book.csv" in finding.found
    assert (
        finding.remedy == "declare it by hand; what nobody shall read stands under `left_out:`"
    )  # sex is a column already
    assert "# book.csv also describes columns that the table does not have: ward." in drafted.text
    assert "\n  # The codebook writes AGE.\n  age: 0..99 by <declare>\n" in drafted.text
    assert "\n  sex: {1: male, 2: female}\n" in drafted.text
    (misspelt,) = draft_contract(write(tmp_path, "rows.csv", "age,sexx\n"), _book(tmp_path)).findings
    assert misspelt.remedy == "if 'sex' is meant, write 'sexx' in book.csv"


def test_a_codebook_of_another_table_is_refused(tmp_path: Path) -> None:
    """No column in common: the wrong file was named."""
    with pytest.raises(DraftRefused, match=r"none of the columns of the first line of rows\.csv"):
        draft_contract(write(tmp_path, "rows.csv", "a,b\n"), _book(tmp_path))


@pytest.mark.parametrize(
    ("kind", "entry", "found"),
    [
        (pa.int64(), "N=none; 1=a", "the code 'N', while the table stores integer"),
        (pa.int64(), "1.5", "the code '1.5', while the table stores integer"),
        (pa.float64(), "x", "the code 'x', while the table stores number"),
        (pa.bool_(), "yes", "the code 'yes', while the table stores boolean"),
        (pa.bool_(), "0..9", "a range of numbers, while the table stores boolean"),
        (pa.date32(), "0..9", "a range of numbers, while the table stores date"),
        (pa.date32(), "Monday", "the code 'Monday', while the table stores date"),
        (pa.int64(), ",date", "days, while the table stores integer"),
        (pa.list_(pa.int8()), "1", "the code '1', while the table stores array"),
    ],
)
def test_a_type_that_cannot_be_leaves_the_column_open(
    tmp_path: Path, kind: pa.DataType, entry: str, found: str
) -> None:
    """Neither side is believed: the finding has the codebook's line, and lint asks for the column."""
    book = _book(tmp_path, ["b,x", f"a,{entry}"])
    drafted = draft_contract(pa.schema([("a", kind), ("b", pa.string())]), book, table="people")
    (finding,) = drafted.findings
    assert found in finding.found
    assert finding.field == "column 'a'"
    assert finding.where == f"{book}:3"
    assert "\n  a: <declare>" in drafted.text
    assert "\n  b: [x]\n" in drafted.text


@pytest.mark.parametrize(
    ("kind", "entry", "line"),
    [
        (pa.string(), "0..99", "0..99 by <declare>"),
        (pa.string(), "1; 2", "{values: [1, 2], type: string}"),
        (pa.int8(), "1; 2", "[1, 2]"),
        (pa.float32(), "0..99", "number 0..99 by <declare>"),
        (pa.bool_(), ",,Yes or no", '{values: [false, true], description: "Yes or no"}'),
        (pa.date32(), ",,Day", "<declare>   # days: 2024-01-01..2024-12-31 by month; Day"),
    ],
)
def test_a_type_that_can_be_is_joined_with_what_is_declared(
    tmp_path: Path, kind: pa.DataType, entry: str, line: str
) -> None:
    """The table says what is stored, the codebook what it means."""
    drafted = draft_contract(pa.schema([("a", kind)]), _book(tmp_path, [f"a,{entry}"]))
    assert drafted.findings == ()
    assert f"\n  a: {line}\n" in drafted.text
