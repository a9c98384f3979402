"""Headers of CSV files, and a table beside its codebook: contradictions are said with their places."""

import gzip
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from contracts.contract.odcs import load_contract
from contracts.drafting.documents import sketch_of_csv
from contracts.drafting.sketch import DraftRefused
from tasks.draft import draft_contract
from tests.contracts.samples import contract_findings, write


def _names(folder: Path, content: bytes, name: str = "rows.csv") -> list[str]:
    return [column.name for column in sketch_of_csv(write(folder, name, content)).columns]


def test_not_one_byte_behind_the_header_is_asked_for(tmp_path: Path):
    """The file is a pipe: what was not read of it is still in it, and the writer never closes it before the end.

    A reader that read ahead would take the poison out of the pipe, or wait for ever for more of it.
    """
    pipe, poison = tmp_path / "rows.csv", b"4711,Anna Rossi\n" * 100
    os.mkfifo(pipe)
    left: list[bytes] = []

    def feed() -> None:
        with pipe.open("r+b", buffering=0) as file:
            file.write(b"age,town\n" + poison)
            done.wait(60)
            left.append(os.read(file.fileno(), 65536))

    done = threading.Event()
    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        drafted = draft_contract(pipe)
    finally:
        done.set()
        feeder.join()
    assert left == [poison]
    assert "\n  age: <declare>" in drafted.text
    assert "Rossi" not in drafted.text


@pytest.mark.parametrize(
    ("content", "names"),
    [
        (b"\xef\xbb\xbfage,town\n1,Ulm\n", ["age", "town"]),
        (b"age,town\r\n1,Ulm\r\n", ["age", "town"]),
        (b"age,town\r1,Ulm\r", ["age", "town"]),
        (b"age;town\n1;Ulm\n", ["age", "town"]),
        (b"age\ttown\n1\tUlm\n", ["age", "town"]),
        (b'"age","town, country"\n1,Ulm\n', ["age", "town, country"]),
        (b'"a ""quoted"" name",b\n1,2\n', ['a "quoted" name', "b"]),
        ("größe,町\n1,2\n".encode(), ["größe", "町"]),
        (b"age,town", ["age", "town"]),
        (b"=cmd(),<b>x</b>\n1,2\n", ["=cmd()", "<b>x</b>"]),
    ],
)
def test_headers_as_programs_write_them(tmp_path: Path, content: bytes, names: list[str]):
    """Marks, line ends, delimiters and quotes of all kinds; a name is a text, whatever it looks like."""
    assert _names(tmp_path, content) == names
    text = draft_contract(tmp_path / "rows.csv").text
    assert len(contract_findings(tmp_path, text)) == 5 + len(names)


def test_a_packed_file_is_unpacked_as_far_as_its_header(tmp_path: Path):
    """A file that is cut off after the first block has a header all the same."""
    content = gzip.compress(b"age,town\n" + os.urandom(200_000).hex().encode())
    assert _names(tmp_path, content[: len(content) // 2], "rows.csv.gz") == ["age", "town"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("content", "field", "found", "remedy"),
    [
        (b"", "header", "an empty first line", "names of the columns first"),
        (b"\nage\n", "header", "an empty first line", "names of the columns first"),
        (b"gr\xf6\xdfe,alter\n1,2\n", "encoding", "the byte 0xf6 at offset 2", "iconv -f LATIN1"),
        ("age,town\n".encode("utf-16"), "encoding", "UTF-16", "UTF-8"),
        (b"age,Age\n1,2\n", "column 2", "'Age' again, as in column 1", "rename or drop"),
        (b"age,,town\n1,2,3\n", "column 2", "an empty name", "name it"),
        (b'age,"first\nsecond"\n1,2\n', "column 2", "'first\\nsecond'", "rename it"),
        (b"39,Ulm\n40,Bonn\n", "header", "field 1 looks like a value (not shown", "--codebook"),
        (b"Rossi,1980-01-02\n", "header", "field 2 looks like a value (not shown", "--codebook"),
        (b"Anna,anna@example.org\n", "header", "field 2 looks like a value (not shown", "--codebook"),
        (b'"age,town\n' + b"x" * 2**20, "header", "more than 1,048,576 bytes", "names of the columns first"),
    ],
)
def test_what_is_no_header_is_refused_by_line(tmp_path: Path, content: bytes, field: str, found: str, remedy: str):
    """One finding with file, line, what was found, what is allowed and what to do; no value of a row in it."""
    path = write(tmp_path, "rows.csv", content)
    with pytest.raises(DraftRefused) as refused:
        draft_contract(path)
    (finding,) = refused.value.findings
    assert (finding.where, finding.field) == (f"{path}:1", field)
    assert found in finding.found
    assert remedy in finding.remedy
    assert finding.allowed
    assert not {"Rossi", "anna", "39"} & set(str(finding).replace("'", " ").split())


def test_numbers_are_names_where_a_codebook_has_them(tmp_path: Path):
    """Years as names of columns: a codebook that knows them says that the line is a header."""
    path = write(tmp_path, "rows.csv", "2023,2024\n1,2\n")
    book = write(tmp_path, "book.csv", "column,values\n2023,0..9\n2024,0..9\n")
    assert '\n  "2023": 0..9 by 1\n  "2024": 0..9 by 1\n' in draft_contract(path, book).text


@pytest.mark.long
def test_five_thousand_columns(tmp_path: Path):
    """A wide header is drafted and loaded within seconds, and a missing file is a finding."""
    path = write(tmp_path, "wide.csv", ",".join([f"column_{number}" for number in range(5000)]) + "\n")
    began = time.process_time()
    drafted = draft_contract(path)
    assert drafted.open_places == 5005
    done = drafted.text.replace("kind: <declare>, scope: <declare>", "kind: row, scope: block")
    done = done.replace("adjacency: <declare>", "adjacency: add_remove").replace(
        "nulls: <declare>", "nulls: category"
    )
    done = done.replace("provenance: <declare>", "provenance: declared").replace("<declare>   #", "[a, b]   #")
    assert len(load_contract(write(tmp_path, "wide.yaml", done)).columns) == 5000
    assert time.process_time() - began < 60
    with pytest.raises(DraftRefused, match="no such file"):
        draft_contract(tmp_path / "gone.csv")


def test_free_texts_and_ids_are_drafted_as_left_out(tmp_path: Path):
    """In one place; whoever wants one of them takes it out of there."""
    text = draft_contract(write(tmp_path, "rows.csv", "customer_id,name,email,age\n")).text
    assert "left_out: [customer_id, name, email]" in text
    assert "column: customer_id, max_rows_per_unit: K}" in text
    assert "\n  age: <declare>" in text


BOOK = ("AGE,0..99", "sex,1=male; 2=female", "ward")


def _book(folder: Path, lines: Sequence[str] = BOOK) -> Path:
    return write(folder, "book.csv", "".join(f"{line}\n" for line in ("column,values,type,description", *lines)))


def test_columns_of_one_side_alone_are_said_and_the_draft_is_made(tmp_path: Path):
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


def test_a_codebook_of_another_table_is_refused(tmp_path: Path):
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
def test_a_type_that_cannot_be_leaves_the_column_open(tmp_path: Path, kind: pa.DataType, entry: str, found: str):
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
def test_a_type_that_can_be_is_joined_with_what_is_declared(tmp_path: Path, kind: pa.DataType, entry: str, line: str):
    """The table says what is stored, the codebook what it means."""
    drafted = draft_contract(pa.schema([("a", kind)]), _book(tmp_path, [f"a,{entry}"]))
    assert drafted.findings == ()
    assert f"\n  a: {line}\n" in drafted.text
