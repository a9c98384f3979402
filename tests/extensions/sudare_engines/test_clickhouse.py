"""ClickHouse, really: a process of its own, the same codes, counts and sums as DuckDB, and versions that verify."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import duckdb
import ibis
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from contracts.contract.contract import Contract
from contracts.domains.ordered import DateDomain
from contracts.domains.value_sql import id_sql
from contracts.errors import SpecRefused
from contracts.release.source import Source
from privacy.private_table import PrivateTable
from sudare_engines.portable_sql import sql_of
from sudare_engines.stage import LOG, ClickHouseWorker, ingest_in_engine
from sudare_engines.staging import SOURCE, staged, unit_text
from tasks.ingest import ingest
from tasks.storage.source_engine import EngineFailed
from tests.contracts.engine import rows_as_written
from tests.contracts.samples import contract_of
from tests.extensions.sudare_engines.duckdb_comparison import compare_counts, compare_sums
from tests.extensions.sudare_engines.engine_rows import people_contract, write_people
from tests.extensions.sudare_engines.portable_rows import CASES, COLUMNS, lattices_of, numbers_table, tables
from tests.extensions.sudare_engines.spark_releases import make_place
from tests.extensions.sudare_engines.statistics_rows import beside_of
from tests.tasks.intake import KEY

pytestmark = pytest.mark.timeout(600)
FAR = ("first weeks",)
"""Columns of days whose contract begins before 1900."""
READ = [
    (name, kind)
    for name, kind in CASES
    if kind != "moment" and name not in FAR
    if not isinstance(COLUMNS[name].domain, DateDomain) or kind in ("day", "nothing", "flag")
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("clickhouse")


@pytest.fixture(scope="module")
def source(folder: Path) -> Source:
    return write_people(folder / "people").model_copy(update={"engine": "clickhouse"})


@pytest.fixture(scope="module")
def contract(folder: Path) -> Contract:
    return people_contract(folder)


@pytest.fixture(scope="module")
def here(folder: Path, source: Source, contract: Contract) -> PrivateTable:
    lattices = beside_of(contract)
    plain = source.model_copy(update={"engine": None})
    return ingest(plain, contract, folder=folder / "here", key=KEY, memory_limit="256MB", lattices=lattices)


@pytest.fixture(scope="module")
def there(folder: Path, source: Source, contract: Contract) -> Iterator[PrivateTable]:
    beside = beside_of(contract)
    table = ingest_in_engine(source, contract, folder=folder / "there", key=KEY, settings=None, beside=beside)
    assert table.engine is not None
    yield table
    table.engine.close()


def staged_there(folder: Path, expression: object, rows: pa.Table) -> tuple[list[object], list[object]]:
    """Return the stage that ClickHouse makes of rows, and that of DuckDB, both in order."""
    pq.write_table(rows, folder / "rows.parquet")
    worker = ClickHouseWorker(folder)
    try:
        worker.ask("open", files=[str(folder / "rows.parquet")])
        assert worker.ask("stage", sql=sql_of(expression, "clickhouse"), to=str(folder / "stage")) == rows.num_rows
    finally:
        worker.close()
    with duckdb.connect() as connection:
        connection.register(SOURCE, rows)
        expected = rows_as_written(connection, sql_of(expression, "duckdb"))
        got = connection.execute(f"FROM '{folder}/stage/*.parquet'").fetchall()
    return sorted(got), sorted(expected)


@pytest.mark.services
def test_awkward_values_of_every_kind_that_is_read_get_the_codes_of_duckdb(tmp_path: Path) -> None:
    """Hostile texts, halves, -0, NaN, infinities, decimals, notations, days of years 1 and 9999: every case but days
    that are no dates, moments, and contracts from before 1900."""
    contract, kinds, rows = tables(READ)
    got, expected = staged_there(tmp_path, staged(contract, kinds), rows)
    assert got == expected
    assert len(READ) > 100


@pytest.mark.services
@pytest.mark.parametrize("largest", [None, 1000])
def test_ids_are_read_by_their_digits_as_duckdb_reads_them(tmp_path: Path, largest: int | None) -> None:
    texts = [
        "100000000000000001",
        "100000000000000002.0",
        " 7 ",
        "007",
        "7.0",
        "7.50",
        "1e+17",
        "1E50",
        "-8.",
        "",
        "x1",
    ]
    ids = pa.array([10**17 + 1, 10**17 + 2, 7, None, -8, *range(len(texts) - 5)], pa.int64())
    rows, table = pa.table({"t": texts, "n": ids}), ibis.table({"t": "string", "n": "int64"}, name=SOURCE)
    read = table.select(t=unit_text(table.t, "text", largest), n=unit_text(table.n, "whole", largest))
    read = read.mutate(t=read.t.fill_null("(missing)"), n=read.n.fill_null("(missing)"))
    got, expected = staged_there(tmp_path, read, rows)
    names = ", ".join(f"coalesce({id_sql(name, largest)}, '(missing)')" for name in ("t", "n"))
    assert got == expected == sorted(duckdb.execute(f"SELECT {names} FROM rows").fetchall())


@pytest.mark.services
def test_awkward_numbers_get_the_offsets_of_duckdb(tmp_path: Path) -> None:
    contract, kinds, rows = numbers_table()
    beside = [each for column in contract.columns for each in lattices_of(column)]
    got, expected = staged_there(tmp_path, staged(contract, kinds, beside), rows)
    assert got == expected


@pytest.mark.services
def test_marginals_and_checks_of_a_bounded_table_are_those_of_duckdb(
    here: PrivateTable, there: PrivateTable, folder: Path, contract: Contract
) -> None:
    compare_counts(here, there, contract, folder)


@pytest.mark.services
def test_every_form_of_adding_up_has_the_numbers_of_duckdb(
    here: PrivateTable, there: PrivateTable, contract: Contract
) -> None:
    compare_sums(here, there, contract)


@pytest.mark.services
def test_a_stage_is_taken_up_again_and_an_engine_that_is_gone_is_named(
    source: Source, contract: Contract, tmp_path: Path
) -> None:
    """The same source: the same hash, and no second stage."""
    first = ingest_in_engine(source, contract, folder=tmp_path, key=KEY, settings=None)
    assert first.engine is not None
    made = first.path.stat().st_mtime_ns
    first.engine.close()
    with pytest.raises(EngineFailed, match="ClickHouse, query: the process ended; no noise was drawn"):
        first.engine.broken_checks()
    again = ingest_in_engine(source, contract, folder=tmp_path, key=KEY, settings=None)
    assert again.engine is not None
    again.engine.close()
    assert (again.path, again.keyed_hash, again.path.stat().st_mtime_ns) == (first.path, first.keyed_hash, made)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in files if path.stat().st_mode & 0o077]


@pytest.mark.services
def test_an_error_names_no_value(tmp_path: Path) -> None:
    """What ClickHouse says of a value stays in the run's private log."""
    pq.write_table(pa.table({"age": ["PLANTED-4711"]}), tmp_path / "rows.parquet")
    worker = ClickHouseWorker(tmp_path)
    try:
        worker.ask("open", files=[str(tmp_path / "rows.parquet")])
        with pytest.raises(EngineFailed, match="ClickHouse, query: ChdbError; no noise was drawn") as raised:
            worker.query("SELECT CAST(assumeNotNull(age) AS Int64) FROM sudare_source")
    finally:
        worker.close()
    assert "PLANTED" not in str(raised.value)
    assert (tmp_path / LOG).stat().st_mode & 0o077 == 0


@pytest.mark.services
@pytest.mark.parametrize(
    ("name", "values", "says"),
    [
        ("days", pa.array(["2020-01-01"]), "found: text"),
        ("german days", pa.array(["31.12.2024"]), "days that are no dates"),
        ("compact days", pa.array([20201231]), "days that are no dates"),
        ("days", pa.array([0], pa.timestamp("us")), "found: another type"),
        ("first weeks", pa.array([date(2020, 1, 1)]), "days from 1900-01-01 to 2299-12-31 for ClickHouse"),
    ],
)
def test_days_that_it_reads_differently_are_refused_before_anything_is_staged(
    tmp_path: Path, name: str, values: pa.Array, says: str
) -> None:
    contract = contract_of(COLUMNS[name].model_copy(update={"name": "x"}))
    pq.write_table(pa.table([values], names=["x"]), tmp_path / "rows.parquet")
    source = Source(path=tmp_path / "rows.parquet", engine="clickhouse")
    with pytest.raises(SpecRefused, match=says):
        ingest_in_engine(source, contract, folder=tmp_path / "run", key=KEY, settings=None)
    assert not list((tmp_path / "run").glob("snapshot*"))


@pytest.mark.usefixtures("prefect_server")
@pytest.mark.parametrize(
    "name",
    [
        *("tables", "statistics", "aim", "privbayes", "inside"),
        pytest.param("spine", marks=pytest.mark.long),
    ],
)
def test_a_release_counted_by_clickhouse_is_published_and_verifies(tmp_path: Path, source: Source, name: str) -> None:
    """Spec to verified version; nothing of the stage is left behind, and the same command finds it published."""
    place = make_place(tmp_path, source)
    told = place.run(name, name=name, engine="clickhouse")
    assert (told["version"], told["repeated"]) == (1, False)
    place.verify(told["folder"])
    assert not place.left_behind()
    assert place.run(name, name=name, engine="clickhouse")["repeated"]
