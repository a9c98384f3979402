"""What bad input gets: the file, the line where it is known, what was found, what is allowed, and never a value."""

import datetime as dt
import gzip
import re
import sqlite3
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from contracts.errors import GateBroken, Refused, SourceUnreadable, SpecRefused
from contracts.release.spec import Source
from tasks.storage.sources.files import read_csv
from tests.tasks.intake import HEADER, ROWS, SECRET, make_contract, refusal, take_in, write_csv

GOOD = "34,F,10.5,2021-03-01"


def of_bytes(folder: Path, content: bytes, name: str = "people.csv") -> Source:
    path = folder / name
    path.write_bytes(content)
    return Source(path=path)


BROKEN_ROWS = {
    "too few fields": (f"{SECRET},F", "people.csv:3: row", "2 fields", "4 fields, as in the header"),
    "too many fields": (f"{SECRET},F,1,2,3", "people.csv:3: row", "5 fields", "4 fields, as in the header"),
    "an open quote": (f'{SECRET},"F,1,2', "people.csv:3: row", "a quote that is not closed", "quotes only around"),
    "a stray quote": (f'{SECRET},"F"x,1,2', "people.csv:3: row", "a quote that is not closed", "quotes only around"),
    "another line end": (
        f"{SECRET},F,1,2\r",
        "people.csv: rows",
        "line ends of several kinds",
        "one kind of line end",
    ),
}


@pytest.mark.parametrize("case", BROKEN_ROWS)
def test_a_broken_row_is_named_by_its_line(tmp_path: Path, case: str):
    row, *expected = BROKEN_ROWS[case]
    message = refusal(tmp_path, write_csv(tmp_path, GOOD, row, GOOD), kind=GateBroken)
    assert all(part in message for part in expected), message


@pytest.mark.long
def test_a_broken_row_deep_in_a_large_file_is_named_by_its_line(tmp_path: Path):
    """Several threads read such a file; the line still counts from its start."""
    lines = [HEADER, *[GOOD] * 1_200_000]
    lines[1_100_000] = f"{SECRET},F"
    message = refusal(tmp_path, of_bytes(tmp_path, "\n".join(lines).encode()), kind=GateBroken)
    assert "people.csv:1100001: row" in message


def test_bytes_that_are_not_utf8_are_named_by_their_line(tmp_path: Path):
    content = f"{HEADER}\n{GOOD}\n{SECRET} caf".encode() + b"\xe9,F,1,2020-01-01\n"
    message = refusal(tmp_path, of_bytes(tmp_path, content), kind=GateBroken)
    assert "people.csv:3: encoding" in message
    assert "found: bytes that are not UTF-8 text" in message


@pytest.mark.parametrize("content", [f"{HEADER}\n{GOOD}\n".encode("utf-16"), b"\x1f\x8b\x08\x00 no text \xff"])
def test_a_header_that_is_no_utf8_is_refused(tmp_path: Path, content: bytes):
    assert "people.csv:1: encoding" in refusal(tmp_path, of_bytes(tmp_path, content), kind=GateBroken)


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_a_wrong_delimiter_is_told_with_the_right_one(tmp_path: Path, delimiter: str):
    rows = [row.replace(",", delimiter) for row in ROWS]
    source = write_csv(tmp_path, *rows, header=HEADER.replace(",", delimiter))
    message = refusal(tmp_path, source, kind=SourceUnreadable)
    shown = delimiter.replace("\t", r"\t")
    assert f"found: the fields are separated by '{shown}'" in message
    assert f'write `delimiter: "{shown}"`' in message


def test_a_delimiter_given_and_wrong_is_told_too(tmp_path: Path):
    source = write_csv(tmp_path, *ROWS).model_copy(update={"delimiter": ";"})
    assert "allowed: the delimiter of the spec, ';'" in refusal(tmp_path, source, kind=SourceUnreadable)


def test_missing_and_extra_columns_are_named(tmp_path: Path):
    message = refusal(tmp_path, write_csv(tmp_path, GOOD, header="Age,sex,wage,town"), kind=GateBroken)
    assert "column 'age'\n    found: no such column, but 'Age'" in message
    assert "column 'since'\n    found: no such column\n" in message
    assert "column 4\n    found: 'town', which the contract does not have" in message


@pytest.mark.parametrize("name", ["age", "AGE"])
def test_duplicate_column_names_are_named(tmp_path: Path, name: str):
    message = refusal(tmp_path, write_csv(tmp_path, f"{GOOD},1", header=f"{HEADER},{name}"), kind=GateBroken)
    assert f"column 5\n    found: '{name}' again, as in column 1" in message


def test_without_a_header_the_first_row_is_not_shown(tmp_path: Path):
    message = refusal(tmp_path, write_csv(tmp_path, GOOD, header=f"34,{SECRET},10.5,2021-03-01"), kind=GateBroken)
    assert "people.csv:1: header" in message
    assert "put a line with the names of the columns first" in message


def test_without_a_header_a_repeated_value_is_not_shown(tmp_path: Path):
    message = refusal(tmp_path, write_csv(tmp_path, GOOD, header=f"{SECRET},{SECRET},1,2"), kind=GateBroken)
    assert "column 2\n    found: a name again, as in column 1" in message


EMPTY = {
    "an empty file": (b"", "an empty file"),
    "an empty first line": (f"\n{HEADER}\n{GOOD}\n".encode(), "an empty first line"),
    "a header alone": (f"{HEADER}\n".encode(), "no rows"),
    "a header without line end": (HEADER.encode(), "no rows"),
}


@pytest.mark.parametrize("case", EMPTY)
def test_a_file_without_rows_is_refused(tmp_path: Path, case: str):
    content, found = EMPTY[case]
    assert f"found: {found}" in refusal(tmp_path, of_bytes(tmp_path, content), kind=GateBroken)


def test_an_empty_gzip_file_is_refused(tmp_path: Path):
    source = of_bytes(tmp_path, gzip.compress(b""), "people.csv.gz")
    assert "found: an empty file" in refusal(tmp_path, source, kind=GateBroken)


def packed_rows() -> bytes:
    return gzip.compress(f"{HEADER}\n".encode() + b"".join(b"%d,F,1,2020-01-01\n" % (i % 90) for i in range(300_000)))


DAMAGE: dict[str, tuple[Callable[[bytes], bytes], type[Refused], str]] = {
    "cut at its end": (lambda content: content[:-8], GateBroken, "a file that ends too early"),
    "cut in the middle": (lambda content: content[: len(content) // 2], GateBroken, "a file that ends too early"),
    "a wrong checksum": (lambda content: content[:-8] + bytes(8), GateBroken, "a checksum that does not fit"),
    "no gzip at all": (lambda content: gzip.decompress(content), SourceUnreadable, "not a gzip file"),
}


@pytest.mark.long
@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_gzip_file_is_refused_whole(tmp_path: Path, case: str):
    """DuckDB alone takes the end of a cut file for the end of the table."""
    damage, kind, found = DAMAGE[case]
    message = refusal(tmp_path, of_bytes(tmp_path, damage(packed_rows()), "people.csv.gz"), kind=kind)
    assert found in message


@pytest.mark.long
@pytest.mark.parametrize("after", [[], [GOOD]], ids=["at the end", "in the middle"])
@pytest.mark.parametrize("packing", ["", ".gz"])
def test_a_line_above_the_reader_s_buffer_is_refused_and_not_dropped(tmp_path: Path, packing: str, after: list[str]):
    """DuckDB alone ends the table before such a line and says nothing: of a file of one it told "no rows"."""
    long = f"34,{'x' * 130_000_000},1,2"
    content = "\n".join([HEADER, GOOD, long, *after]).encode()
    packed = gzip.compress(content, 1) if packing else content
    message = refusal(tmp_path, of_bytes(tmp_path, packed, f"people.csv{packing}"), kind=GateBroken)
    assert "row\n    found: a line of more than 64,000,000 bytes" in message


def test_a_missing_file_and_a_folder_are_told_apart(tmp_path: Path):
    missing = refusal(tmp_path, Source(path=tmp_path / "nobody.csv"), kind=SourceUnreadable)
    assert "nobody.csv: source.path\n    found: no such file" in missing
    (tmp_path / "folder.csv").mkdir()
    assert "found: a folder" in refusal(tmp_path, Source(path=tmp_path / "folder.csv"), kind=SourceUnreadable)


def test_a_file_that_may_not_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The operating system's refusal is simulated: tests may run as root, whom permissions do not stop."""
    source = write_csv(tmp_path, GOOD)
    opened = Path.open

    def refuse(path: Path, *arguments: object, **options: object) -> object:
        if path == source.path:
            raise PermissionError(13, "Permission denied")
        return opened(path, *arguments, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", refuse)
    assert "it cannot be opened (Permission denied)" in refusal(tmp_path, source, kind=SourceUnreadable)


@pytest.mark.parametrize("name", ["people.parquet", "people.duckdb", "people.sqlite"])
def test_a_file_of_another_format_than_its_name_is_refused(tmp_path: Path, name: str):
    path = tmp_path / name
    path.write_bytes(b"PAR1" + SECRET.encode() * 1000)
    table = None if name.endswith("parquet") else "people"
    message = refusal(tmp_path, Source(path=path, table=table), kind=SourceUnreadable)
    assert "or a damaged one" in message


def test_damaged_pages_inside_a_parquet_file_are_refused(tmp_path: Path):
    path = tmp_path / "people.parquet"
    duckdb.sql(
        "SELECT hash(i)::VARCHAR AS age, 'F' AS sex, '1' AS wage, '2020-01-01' AS since FROM range(20000) t(i)"
    ).write_parquet(str(path))
    content = bytearray(path.read_bytes())
    content[50:20_000] = b"\xff" * 19_950
    path.write_bytes(content)
    assert "rows\n    found: damaged Parquet data" in refusal(tmp_path, Source(path=path), kind=GateBroken)


def test_a_parquet_file_without_rows_is_refused(tmp_path: Path):
    path = tmp_path / "people.parquet"
    duckdb.sql("SELECT 1 AS age, 'F' AS sex, 1.0 AS wage, NULL AS since LIMIT 0").write_parquet(str(path))
    assert "found: no rows" in refusal(tmp_path, Source(path=path), kind=GateBroken)


def duckdb_file(folder: Path) -> Path:
    path = folder / "people.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"CREATE TABLE people AS SELECT '{SECRET}' AS age, 'F' AS sex, 1 AS wage, '' AS since")
        connection.execute("CREATE VIEW seen AS FROM people")
    return path


def sqlite_file(folder: Path) -> Path:
    path = folder / "people.sqlite"
    file = sqlite3.connect(path)
    file.execute("CREATE TABLE people (age INTEGER, sex TEXT, wage REAL, since TEXT)")
    file.execute("CREATE VIEW seen AS SELECT * FROM people")
    file.commit()
    file.close()
    return path


@pytest.mark.parametrize("make", [duckdb_file, sqlite_file])
@pytest.mark.parametrize("table", ["peple", "seen"])
def test_a_table_that_does_not_exist_is_answered_with_those_that_do(
    tmp_path: Path, make: Callable[[Path], Path], table: str
):
    message = refusal(tmp_path, Source(path=make(tmp_path), table=table), kind=SourceUnreadable)
    assert f"source.table\n    found: no table '{table}'\n    allowed: people" in message


SQLITE_ROWS = {
    "no rows": ("SELECT 1 WHERE 0", "rows\n    found: no rows"),
    "binary data": (f"INSERT INTO people VALUES (1, x'00ff', 1, '{SECRET}')", "rows\n    found: binary data"),
    "no UTF-8": (
        f"INSERT INTO people VALUES ('{SECRET}', CAST(x'53ff' AS TEXT), 1, '')",
        "encoding\n    found: bytes that are not UTF-8",
    ),
}


@pytest.mark.parametrize("case", SQLITE_ROWS)
def test_sqlite_values_that_cannot_be_read_are_refused(tmp_path: Path, case: str):
    statement, expected = SQLITE_ROWS[case]
    path = sqlite_file(tmp_path)
    file = sqlite3.connect(path)
    file.execute(statement)
    file.commit()
    file.close()
    assert expected in refusal(tmp_path, Source(path=path, table="people"), kind=GateBroken)


def test_a_row_without_its_units_id_breaks_the_gate(tmp_path: Path):
    source = write_csv(tmp_path, f"p1,{GOOD}", f",{SECRET},F,1,2020-01-01", header=f"person,{HEADER}")
    message = refusal(tmp_path, source, kind=GateBroken, rows_per_unit=2)
    assert "people.csv: column 'person'" in message
    assert "allowed: an id in every row" in message


def test_a_disk_that_fails_under_the_source_is_not_blamed_on_the_run_folder(tmp_path: Path):
    source = write_csv(tmp_path, GOOD)
    reading = read_csv(source.path, delimiter=None, expected=HEADER.split(","))
    refused = reading.explain(duckdb.IOException(f'IO Error: Could not read from file "{source.path}": {SECRET}'))
    assert isinstance(refused, GateBroken)
    assert "people.csv: source.path\n    found: a file that the disk does not read" in str(refused)
    assert SECRET not in str(refused)


SELECTS = {
    "an aggregate": ("SELECT max(age) AS age FROM source", "the function max()"),
    "a join": ("SELECT * FROM source JOIN source AS b ON true", "a join"),
    "an unknown column": ("SELECT age, sex, wage, hired AS since FROM source", "allowed: age, sex, wage, since"),
    "a column left out": ("SELECT age, sex, wage FROM source", "column 'since'\n    found: no such column"),
    "a column too many": ("SELECT *, age AS years FROM source", "'years', which the contract does not have"),
}


@pytest.mark.parametrize("case", SELECTS)
def test_a_select_that_does_not_fit_is_refused_as_the_specs_mistake(tmp_path: Path, case: str):
    select, expected = SELECTS[case]
    source = write_csv(tmp_path, *ROWS).model_copy(update={"select": select})
    with pytest.raises(SpecRefused, match=re.escape(expected)) as raised:
        take_in(source, make_contract(tmp_path), tmp_path)
    assert raised.value.exit_code == 2


def test_exit_codes_tell_the_specs_mistakes_from_the_datas():
    assert (SourceUnreadable.exit_code, SpecRefused.exit_code, GateBroken.exit_code) == (2, 2, 3)


DAYS_OF_TWO = pa.array([dt.date(2021, 3, 1), dt.date(2024, 12, 31)])
RETYPED = {
    "records instead of names": ("sex", pa.array([{"a": "F"}, {"a": "M"}]), "lists or records"),
    "lists instead of names": ("sex", pa.array([["F"], ["M"]]), "lists or records"),
    "lists instead of numbers": ("wage", pa.array([[1.0], None]), "lists or records"),
    "days instead of names": ("sex", DAYS_OF_TWO, "dates"),
    "records instead of days": ("since", pa.array([{"day": 1}, None]), "lists or records"),
    "days instead of numbers": ("age", DAYS_OF_TWO, "dates"),
    "instants instead of numbers": ("wage", DAYS_OF_TWO.cast(pa.timestamp("us")), "timestamps"),
}
GOOD_COLUMNS = {
    "age": pa.array([34, 17]),
    "sex": pa.array(["F", "M"]),
    "wage": pa.array([10.5, 700]),
    "since": DAYS_OF_TWO,
}


@pytest.mark.parametrize("form", ["parquet", "folder", "duckdb"])
@pytest.mark.parametrize("case", RETYPED)
def test_a_column_that_was_retyped_is_told_before_a_row_is_read(tmp_path: Path, case: str, form: str):
    """Each row of it would be missing, and the charge would be spent on nothing."""
    name, values, found = RETYPED[case]
    table = pa.table(GOOD_COLUMNS | {name: values})
    message = refusal(tmp_path, _stored(tmp_path, table, form), kind=GateBroken)
    assert f"column '{name}'\n    found: {found}, none of which is a value of its domain" in message


WHATEVER_ONE_ROW_DECIDES = [
    pa.nulls(2),
    pa.array([float("nan"), None]),
    pa.array(["a", "b"]),
    pa.array([1, 2]),
    pa.array([1.0, None]),
    pa.array([Decimal("1.50"), None]),
    pa.array([True, False]),
]


@pytest.mark.parametrize("values", WHATEVER_ONE_ROW_DECIDES, ids=lambda each: str(each.type))
@pytest.mark.parametrize("name", GOOD_COLUMNS)
def test_what_one_missing_value_can_decide_is_no_retyped_column(tmp_path: Path, name: str, values: pa.Array):
    """A column without any value has whichever type its writer took, and one missing value makes doubles of whole
    numbers, which a refusal of either would tell; texts are read row by row."""
    table = pa.table(GOOD_COLUMNS | {name: values})
    assert take_in(_stored(tmp_path, table, "parquet"), make_contract(tmp_path), tmp_path).path.exists()


def test_types_in_which_a_declared_value_can_be_written_are_taken(tmp_path: Path):
    """Whole numbers for decimals, flags for 0 and 1, and what a `select:` maps."""
    for columns, select in (
        ({"age": pa.array([True, False]), "wage": pa.array([10, 700])}, None),
        ({"since": DAYS_OF_TWO.cast(pa.timestamp("us")), "age": pa.array([34, 17], pa.int8())}, None),
        (
            {"sex": pa.array([1, 2])},
            "SELECT age, CASE sex WHEN 1 THEN 'F' ELSE 'M' END AS sex, wage, since FROM source",
        ),
    ):
        source = _stored(tmp_path, pa.table(GOOD_COLUMNS | columns), "parquet").model_copy(
            update={"select": select, "types": select and {"sex": "number"}}
        )
        assert take_in(source, make_contract(tmp_path), tmp_path).path.exists()


def _stored(folder: Path, table: pa.Table, form: str) -> Source:
    if form == "duckdb":
        with duckdb.connect(str(folder / "people.duckdb")) as connection:
            connection.register("given", table)
            connection.execute("CREATE TABLE people AS FROM given")
        return Source(path=folder / "people.duckdb", table="people")
    inside = folder / "people"
    inside.mkdir(exist_ok=True)
    pq.write_table(table, inside / "people.parquet")
    return Source(path=inside, files="parquet") if form == "folder" else Source(path=inside / "people.parquet")
