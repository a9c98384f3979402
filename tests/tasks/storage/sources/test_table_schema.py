"""Drafts from Parquet and DuckDB: the schema and nothing else, whatever the same file says about its rows."""

from datetime import date
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from contracts.drafting.sketch import DraftRefused
from tasks.draft import draft_contract

SCHEMA = pa.schema(
    [
        ("age", pa.int64()),
        ("town", pa.string()),
        ("job", pa.dictionary(pa.int32(), pa.string())),
        ("paid", pa.float64()),
        ("day", pa.date32()),
        ("own", pa.bool_()),
        ("scan", pa.list_(pa.uint8(), 4)),
    ]
)


def _rows(town: str, number: int) -> pa.Table:
    """Rows of one town; everything in them differs with the arguments."""
    jobs = pa.array([f"job {place % (number + 1)}" for place in range(number)]).dictionary_encode()
    return pa.table(
        [
            pa.array(range(number, 2 * number), pa.int64()),
            pa.array([town] * (number - 1) + [None]),
            jobs,
            pa.array([number / 7] * number),
            pa.array([date(2000 + number % 20, 1, 1)] * number),
            pa.array([number % 2 == 0] * number),
            pa.array([[number % 256] * 4] * number, pa.list_(pa.uint8(), 4)),
        ],
        schema=SCHEMA,
    )


def _parquet(folder: Path, name: str, table: pa.Table) -> Path:
    path = folder / name / "people.parquet"
    path.parent.mkdir()
    pq.write_table(table, path, row_group_size=5, write_statistics=True, use_dictionary=["town", "job"])
    return path


def test_a_draft_does_not_depend_on_the_rows_of_a_parquet_file(tmp_path: Path):
    """Other values, minima, maxima, nulls, dictionaries, row groups and numbers of rows: the same bytes."""
    one, other = _parquet(tmp_path, "one", _rows("Ulm", 11)), _parquet(tmp_path, "other", _rows("Bonn", 30))
    statistics = [pq.read_metadata(path).row_group(0).column(0).statistics.max for path in (one, other)]
    assert statistics == [15, 34]
    text = draft_contract(one, long=True).text
    assert (text, draft_contract(one).text) == (draft_contract(other, long=True).text, draft_contract(other).text)
    assert not {"Ulm", "Bonn", "job 1"} & set(text.replace(",", " ").split())
    for kind in ("integer", "categories", "decimal", "date", "image"):
        assert f"kind: {kind}" in text


def test_a_draft_reads_no_page_of_a_parquet_file(tmp_path: Path):
    """With every data and dictionary page overwritten, the same draft is made: only the footer is read."""
    path = _parquet(tmp_path, "one", _rows("Ulm", 11))
    expected, content = draft_contract(path).text, bytearray(path.read_bytes())
    footer = int.from_bytes(content[-8:-4], "little") + 8
    content[4:-footer] = b"\xff" * (len(content) - footer - 4)
    path.write_bytes(content)
    with pytest.raises((OSError, pa.ArrowException)):
        pq.read_table(path)
    assert draft_contract(path).text == expected


def test_a_draft_does_not_show_what_pandas_says_about_the_rows(tmp_path: Path):
    """The metadata of a data frame hold its number of rows, and those of a column its number of categories."""
    counted = b'{"index_columns": [{"kind": "range", "start": 0, "stop": 4711}]}'
    field = pa.field("town", pa.string(), metadata={"num_categories": "4711"})
    plain = pa.table({"town": ["Ulm"]})
    told = pa.table([["Ulm"]], schema=pa.schema([field], metadata={b"pandas": counted}))
    text = draft_contract(_parquet(tmp_path, "told", told)).text
    assert text == draft_contract(_parquet(tmp_path, "plain", plain)).text
    assert "4711" not in text


def test_a_draft_does_not_show_whether_a_column_may_be_null_or_how_wide_it_is(tmp_path: Path):
    """Writers choose both by the rows now and then."""
    narrow = pa.schema([pa.field("age", pa.uint8(), nullable=False)])
    one = _parquet(tmp_path, "narrow", pa.table([pa.array([1], pa.uint8())], schema=narrow))
    assert (
        draft_contract(one).text == draft_contract(_parquet(tmp_path, "wide", pa.table({"age": [2**40, None]}))).text
    )


def _duckdb(folder: Path, name: str, *statements: str) -> Path:
    path = folder / name / "people.duckdb"
    path.parent.mkdir()
    with duckdb.connect(str(path)) as session:
        for statement in statements:
            session.execute(statement)
    return path


def test_a_draft_does_not_depend_on_the_rows_of_a_duckdb_table(tmp_path: Path):
    """Nor on the labels of an ENUM, which DuckDB can make out of the rows, nor on constraints."""
    texts = []
    for town, more in (("Ulm", ""), ("Bonn", "NOT NULL CHECK (age > 17)")):
        made = (
            f"CREATE TABLE raw AS SELECT '{town}' AS town FROM range(7)",
            "CREATE TYPE towns AS ENUM (SELECT DISTINCT town FROM raw)",
            f"CREATE TABLE people (age TINYINT {more}, town towns, seen TIMESTAMP, size DECIMAL(9, 2), had "
            "STRUCT(a towns), all_towns towns[])",
            f"INSERT INTO people VALUES (18, '{town}', '2024-01-01', 1.5, {{a: NULL}}, [])",
        )
        texts.append(draft_contract(_duckdb(tmp_path, town, *made), table="people", long=True).text)
    assert texts[0] == texts[1]
    assert "Ulm" not in texts[0]
    assert "The labels of the ENUM were not taken over" in texts[0]
    assert "Its type is STRUCT," in texts[0]
    assert texts[0].count("kind: image") == 1


def test_a_view_is_no_table_and_several_tables_need_a_name(tmp_path: Path):
    """As for a release: the rows of a view may join many people's."""
    path = _duckdb(
        tmp_path,
        "d",
        "CREATE TABLE a (x INT)",
        "CREATE SCHEMA s",
        "CREATE TABLE s.b (x INT)",
        "CREATE VIEW v AS FROM a",
    )
    with pytest.raises(DraftRefused, match="2 tables"):
        draft_contract(path)
    with pytest.raises(DraftRefused, match=r"no table 'v'(?s:.)*one of a, s\.b"):
        draft_contract(path, table="v")
    assert "table: b\n" in draft_contract(path, table="s.b").text
