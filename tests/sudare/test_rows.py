"""Rows in memory: a file with the same rows, in the private folder for one run, or refused without a value."""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sudare
from sudare.delivery import delivered, is_name, rows_file
from sudare.rows import schema_of, write_rows
from tasks.storage.workspace.settings import Workspace as Place

SECRET = "zebra-4711"
ROWS = pl.DataFrame(
    {
        "name": ["a", None, SECRET],
        "number": [1, 2, None],
        "share": [0.5, None, 1.5],
        "day": [date(2026, 1, 1), None, date(2026, 1, 2)],
        "yes": [True, False, None],
    }
)


@pytest.mark.parametrize(
    "rows",
    [
        ROWS,
        ROWS.to_arrow(),
        ROWS.to_arrow().to_batches()[0],
        ROWS.to_pandas(use_pyarrow_extension_array=True),
        ROWS.to_pandas(use_pyarrow_extension_array=True).set_axis([5, 7, 9]),
        duckdb.connect().from_arrow(ROWS.to_arrow()),
    ],
    ids=["polars", "arrow", "batch", "pandas", "filtered", "duckdb"],
)
def test_the_file_holds_the_rows_in_their_order_for_the_owner_alone(rows: Any, tmp_path: Path):
    file = tmp_path / "rows.parquet"
    file.touch(0o666)
    write_rows(rows, file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert pq.read_table(file).to_pylist() == ROWS.to_dicts()


@pytest.mark.parametrize(
    "values",
    [["x", None, float("nan")], [1, 2, None], [Decimal("0.5"), None], [date(2026, 1, 1), None], [[1, 2], [3, 4]]],
)
def test_a_column_of_objects_of_one_type_is_taken(values: list[Any], tmp_path: Path):
    """pandas keeps texts with gaps, decimals, days and pictures as objects."""
    write_rows(pd.DataFrame({"x": pd.Series(values, dtype=object)}), tmp_path / "rows.parquet")
    assert pq.read_metadata(tmp_path / "rows.parquet").num_rows == len(values)


def twice() -> pd.DataFrame:
    return pd.DataFrame([[1, SECRET]], columns=["x", "x"])


def objects(*values: object) -> pd.DataFrame:
    return pd.DataFrame({"x": pd.Series(values, dtype=object)})


def closed() -> duckdb.DuckDBPyRelation:
    connection = duckdb.connect()
    relation = connection.sql(f"SELECT '{SECRET}' AS x")
    connection.close()
    return relation


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "two columns of one name": (twice, "2 columns named 'x'"),
    "two names that differ in case": (lambda: pl.DataFrame({"x": [1], "X": [2]}), r"the columns \['x', 'X'\]"),
    "two columns of one name in Arrow": (lambda: pa.table([[1], [2]], names=["x", "x"]), "2 columns named 'x'"),
    "two columns of one name in DuckDB": (lambda: duckdb.sql("SELECT 1 AS x, 2 AS x"), "2 columns named 'x'"),
    "a column without a name": (lambda: pl.DataFrame({"": [1]}), "without a name"),
    "a name that is a number": (lambda: pd.DataFrame({0: [1]}), "whose name is no text"),
    "names on two levels": (
        lambda: pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("a", "b")])),
        "whose name is no text",
    ),
    "no columns": (pl.DataFrame, "no columns"),
    "an index of ids": (lambda: pd.DataFrame({"id": [SECRET], "x": [1]}).set_index("id"), "an index named id"),
    "an index of texts": (lambda: pd.DataFrame({"x": [1]}, index=pd.Index([SECRET])), "an index of type"),
    "an index of two levels": (
        lambda: pd.DataFrame({"x": [1]}, index=pd.MultiIndex.from_tuples([(1, 2)])),
        "an index of type",
    ),
    "texts and numbers": (lambda: objects(1, SECRET), "column x"),
    "texts and bytes": (lambda: objects(SECRET, SECRET.encode()), "column x"),
    "texts and lists": (lambda: objects([1], SECRET), "types|column x"),
    "objects of Polars": (lambda: pl.DataFrame({"x": pl.Series([object()], dtype=pl.Object)}), "column x"),
    "a lazy frame": (lambda: pl.LazyFrame({"x": [SECRET]}), r"collect\(\)"),
    "a reader of batches": (lambda: pa.table({"x": [SECRET]}).to_reader(), r"read_all\(\)"),
    "a closed connection": (closed, "a connection that is closed"),
    "a relation that fails": (lambda: duckdb.sql(f"SELECT CAST('{SECRET}' AS INTEGER) AS x"), "cannot hold"),
    "a series": (lambda: pl.Series("x", [SECRET]), "type Series"),
    "a list": (lambda: [SECRET], "type list"),
}


@pytest.mark.parametrize(("rows", "said"), list(REFUSED.values()), ids=list(REFUSED))
def test_what_no_file_could_hold_is_refused_without_a_value(rows: Callable[[], Any], said: str, tmp_path: Path):
    """One value tells of one person: neither the message nor the error that it came from has it."""
    with pytest.raises(sudare.SourceUnreadable, match=said) as refused:
        write_rows(rows(), tmp_path / "rows.parquet")
    assert SECRET not in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__context__ is None
    assert refused.value.findings[0].remedy


def test_the_schema_of_a_table_has_names_and_types_and_no_row():
    """Objects of pandas count as texts, whatever they are: to find out, rows would be read."""
    for rows in (ROWS, ROWS.to_pandas(), ROWS.to_arrow(), duckdb.connect().from_arrow(ROWS.to_arrow())):
        schema = schema_of(rows)
        assert schema.names == ROWS.columns
        assert SECRET not in str(schema)
    assert str(schema_of(objects(1)).field("x").type) == "string"


THREE = pl.DataFrame({"x": [1, 2, 3]})
HOLD = """
import sys, time, polars as pl
from pathlib import Path
from sudare.delivery import delivered
from tasks.storage.workspace.settings import Workspace
with delivered(Workspace.open(Path(sys.argv[1])), sys.argv[2], pl.DataFrame({"x": [1]})):
    print("there", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place.create(tmp_path / "w")


def holding(place: Place, name: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HOLD, str(place.root), name]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "there\n"
    return process


def test_rows_are_there_inside_the_block_alone(place: Place):
    with delivered(place, "visits", THREE) as file:
        assert file == rows_file(place, "visits")
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        assert pl.read_parquet(file).equals(THREE)
    assert not file.exists()


def test_rows_go_whatever_ends_the_block(place: Place):
    for error in (KeyboardInterrupt, sudare.SudareError):
        with pytest.raises(error), delivered(place, "visits", THREE):
            raise error
        assert not rows_file(place, "visits").exists()


def test_rows_that_cannot_be_written_leave_no_part_of_them(place: Place):
    with pytest.raises(sudare.SourceUnreadable), delivered(place, "visits", THREE.lazy()):
        pass
    assert not rows_file(place, "visits").exists()


@pytest.mark.services
def test_two_runs_do_not_read_rows_of_one_name(place: Place):
    """The second would find other rows than it brought, or none."""
    process = holding(place, "visits")
    try:
        with (
            pytest.raises(sudare.SourceUnreadable, match="another run is reading"),
            delivered(place, "visits", THREE),
        ):
            pass
        with delivered(place, "panel", THREE):
            assert rows_file(place, "visits").exists()
    finally:
        process.kill()
        process.communicate()


@pytest.mark.services
def test_what_a_killed_process_left_goes_with_the_next_delivery(place: Place):
    process = holding(place, "visits")
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert rows_file(place, "visits").exists()
    with delivered(place, "panel", THREE):
        assert not rows_file(place, "visits").exists()


def test_a_name_is_no_path_and_no_address():
    assert is_name("visits")
    assert is_name("visits-2026_q1")
    for written in ("", "Visits", "visits.csv", "./visits", "s3://bucket/visits", "-x", "x" * 64, "visits\n"):
        assert not is_name(written)
