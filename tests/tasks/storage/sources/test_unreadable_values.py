"""Values that no contract reads: lists and records in one file behind a select, and instants beyond DuckDB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from contracts.contract.column import Column
from contracts.errors import GateBroken
from contracts.release.spec import Source
from tasks.storage.sources.files import read_duckdb, read_parquet
from tasks.storage.sources.folder import parts_of
from tasks.storage.sources.source import read_parts
from tests.contracts.samples import contract_of
from tests.tasks.storage.sources.test_storage_neighbours import COLUMNS, COMMA, LATE, TOKYO, codes_behind, rows_of

NESTED = {"a list": pa.array([["F"]]), "a record": pa.array([{"a": "F"}]), "a list of texts": pa.array([["1,5"]])}
FLAT: dict[str, tuple[Column, list[Any]]] = {
    "words": (COLUMNS["words"], ["F", "M", "F"]),
    "texts as numbers": (COMMA, ["1,5", "2,5"]),
    "numbers": (COMMA, [1.5, 2.5]),
    "days": (TOKYO, ["2021-12-31", "2020-01-01"]),
    "instants": (TOKYO, [LATE, LATE]),
}


@pytest.mark.parametrize("select", ["SELECT x FROM source", "SELECT x FROM source WHERE x IS NOT NULL OR true"])
@pytest.mark.parametrize(
    ("name", "nested"), [(n, k) for n in FLAT for k in NESTED if (n, k) != ("instants", "a record")]
)
def test_behind_a_select_one_file_of_lists_or_records_changes_no_other_code(
    tmp_path: Path, name: str, nested: str, select: str
) -> None:
    """No gate is at the types behind a select, so they are missing values; a record beside
    instants is the gate on files that are alike."""
    column, values = FLAT[name]
    source = Source(path=tmp_path, files="parquet", select=select)
    found = []
    for first in (pa.nulls(1), NESTED[nested]):
        for file, array in (("1", first), ("2", pa.array(values))):
            table = pa.table([array], names=["x"]).replace_schema_metadata({"file": file})
            pq.write_table(table, tmp_path / f"{file}.parquet")
        reading = read_parts(tmp_path, parts_of(tmp_path, "parquet"), source, contract_of(column))
        found.append(codes_behind(reading, column, select, source.select_types(contract_of(column))[0]))
    assert found[0] == found[1]
    assert len(set(found[0])) > 1


@pytest.mark.parametrize("select", [None, "SELECT x FROM source"])
@pytest.mark.parametrize("far", [2**62, -(2**62)])
@pytest.mark.parametrize("form", ["file", "folder"])
def test_an_instant_that_duckdb_cannot_read_is_the_gate_on_the_last_row(
    tmp_path: Path, form: str, far: int, select: str | None
) -> None:
    """Parquet's milliseconds reach 292 million years, and DuckDB decodes them before any expression sees them."""
    for file in ("1", "2"):
        array = pa.array([0, far if file == "2" else 0], pa.int64()).cast(pa.timestamp("ms", "UTC"))
        table = pa.table([array], names=["x"]).replace_schema_metadata({"file": file})
        pq.write_table(table, tmp_path / f"{file}.parquet")
    if form == "file":
        reading = read_parquet(tmp_path / "2.parquet")
    else:
        source = Source(path=tmp_path, files="parquet", select=select)
        reading = read_parts(tmp_path, parts_of(tmp_path, "parquet"), source, contract_of(TOKYO))
    with pytest.raises(GateBroken, match="a timestamp that does not fit into microseconds") as raised:
        rows_of(reading, TOKYO, select)
    assert str(far) not in str(raised.value)


@pytest.mark.parametrize("kind", ["TIMESTAMP_S", "TIMESTAMP_MS"])
def test_a_far_moment_of_a_duckdb_table_is_missing(tmp_path: Path, kind: str) -> None:
    path, unit = tmp_path / "x.duckdb", {"TIMESTAMP_S": "s", "TIMESTAMP_MS": "ms"}[kind]
    stored = pa.table({"x": pa.array([0, 2**62, -(2**62)]).cast(pa.timestamp(unit))})
    with duckdb.connect(str(path)) as connection:
        connection.register("given", stored)
        connection.execute("CREATE TABLE t AS FROM given")
        assert connection.execute("DESCRIBE t").fetchall()[0][1] == kind
    reading = read_duckdb(path, table="t")
    codes = rows_of(reading, TOKYO)
    assert codes[0] != codes[1] == codes[2]
    assert rows_of(reading, TOKYO, "SELECT x FROM source WHERE year(x) = 1970", x="moment") != []
