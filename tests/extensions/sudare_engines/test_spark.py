"""Spark, really: a process of its own with two threads, the same counts as DuckDB, and a version that verifies.

`make test-spark` runs these and names the Python that has pyspark in SUDARE_SPARK_PYTHON; CI runs it.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import duckdb
import ibis
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from contracts.contract.contract import Contract
from contracts.errors import GateBroken, SourceUnreadable, SpecRefused
from contracts.release.source import Source
from privacy.accounting.amounts import PICO
from privacy.grant.grant import Grant, open_grant
from privacy.grant.queries.marginal import MarginalQuery
from privacy.ledger.ledger import Ledger
from privacy.marginals.sensitivity import noise_event
from privacy.private_table import PrivateTable, snapshot_mark
from privacy.snapshots.snapshot import SnapshotCounts
from sudare_engines.portable_sql import sql_of
from sudare_engines.spark import LOG, SparkWorker
from sudare_engines.spark_settings import SparkSettings
from sudare_engines.stage import MARKER, STAGED, ingest_in_engine
from sudare_engines.staging import SOURCE, staged
from tasks.storage.source_engine import EngineFailed
from tasks.validate import validate
from tests.contracts.engine import rows_as_written
from tests.extensions.sudare_engines.engine_rows import MOST, people_contract, write_people
from tests.extensions.sudare_engines.portable_rows import CASES, tables
from tests.extensions.sudare_engines.test_spark_staging import ORDERS
from tests.privacy.ledger.ledgers import HALF, bind, request, terms
from tests.tasks.intake import KEY, take_in

PARTS = 6
pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
GATES = ("nulls:age",)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="module")
def source(folder: Path) -> Source:
    return write_people(folder / "people")


@pytest.fixture(scope="module")
def contract(folder: Path) -> Contract:
    return people_contract(folder)


@pytest.fixture(scope="module")
def staged_table(spark: SparkSettings, folder: Path, source: Source, contract: Contract) -> Iterator[PrivateTable]:
    table = ingest_in_engine(source, contract, folder=folder / "engine", key=KEY, settings=spark)
    yield table
    assert table.engine is not None
    table.engine.close()


def test_every_marginal_of_a_bounded_table_is_what_duckdb_counts(
    staged_table: PrivateTable, folder: Path, source: Source, contract: Contract
):
    """Total, all columns, all pairs and a sparse one; both keep the same rows of each unit."""
    here = SnapshotCounts(take_in(source, contract, folder), contract)
    there = SnapshotCounts(staged_table, contract)
    names = [column.name for column in contract.columns]
    cliques = [(), *((name,) for name in names), *combinations(names, 2), tuple(names)]
    for one, other in zip(here.marginals(cliques), there.marginals(cliques), strict=True):
        np.testing.assert_array_equal(one._count(), other._count())
    for one, other in zip(here.sparse(tuple(names))._count(), there.sparse(tuple(names))._count(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_checks_come_out_as_great_expectations_finds_them(
    staged_table: PrivateTable, folder: Path, source: Source, contract: Contract
):
    """The same outcome of every check; a gate that is broken stops both, in the same words."""
    here = take_in(source, contract, folder)
    outcomes = validate(here, contract, folder=folder / "run")
    assert validate(staged_table, contract, folder=folder / "engine") == outcomes
    assert {outcome.passed for outcome in outcomes} == {True, False}
    gated = people_contract(folder, gates=GATES)
    said = []
    for table in (here, staged_table):
        with pytest.raises(GateBroken) as raised:
            validate(table, gated, folder=folder / "run")
        said.append(str(raised.value))
    assert said[0] == said[1]


@pytest.mark.parametrize("part", range(PARTS))
def test_awkward_values_of_every_kind_get_the_codes_that_duckdb_gives_them(
    worker: SparkWorker, tmp_path: Path, part: int
):
    """Each type and domain of the row-for-row tests, read by Spark from Parquet; SQL of all at once is a megabyte."""
    contract, kinds, rows = tables(CASES[part::PARTS])
    pq.write_table(rows, tmp_path / "rows.parquet")
    expression = staged(contract, kinds)
    worker.ask("open", files=[str(tmp_path / "rows.parquet")])
    worker.ask("stage", sql=sql_of(expression, "pyspark"), to=str(tmp_path / "stage"))
    with duckdb.connect() as connection:
        connection.register(SOURCE, rows)
        expected = rows_as_written(connection, sql_of(expression, "duckdb"))
        got = connection.execute(f"FROM '{tmp_path}/stage/*.parquet'").fetchall()
    assert sorted(got) == sorted(expected)


def test_a_stage_is_taken_up_again_and_another_source_makes_another(
    spark: SparkSettings, staged_table: PrivateTable, tmp_path: Path, folder: Path, contract: Contract
):
    """The same rows in one file have the same hash; a finished stage is not made again; a row
    without an id stops it, and a Spark that is gone is told by its name."""
    shutil.copytree(folder / "people", tmp_path / "people")
    with duckdb.connect() as connection:
        connection.execute(f"COPY (FROM '{tmp_path}/people/*.parquet' ) TO '{tmp_path}/all.parquet'")
    other, run = Source(path=tmp_path / "all.parquet"), tmp_path / "run"
    first = ingest_in_engine(other, contract, folder=run, key=KEY, settings=spark)
    assert first.keyed_hash == staged_table.keyed_hash
    made = first.path.stat().st_mtime_ns
    engine = first.engine
    assert engine is not None
    engine.close()
    with pytest.raises(EngineFailed, match="the process ended"):
        engine.broken_checks()
    again = ingest_in_engine(other, contract, folder=run, key=KEY, settings=spark)
    assert (again.path, again.keyed_hash, again.path.stat().st_mtime_ns) == (first.path, first.keyed_hash, made)
    assert again.engine is not None
    again.engine.close()
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (SELECT * REPLACE (CASE WHEN person LIKE '%6' THEN ' ' ELSE person END AS person) "
            f"FROM '{tmp_path}/people/*.parquet') TO '{tmp_path}/all.parquet'"
        )
    with pytest.raises(GateBroken, match="an id in every row"):
        ingest_in_engine(other, contract, folder=run, key=KEY, settings=spark)
    assert not (run / MARKER).exists()


def test_a_release_counted_by_spark_is_published_and_verifies(
    spark: SparkSettings, tmp_path: Path, source: Source, initialised: tuple[Path, str]
):
    """`sudare run` with `engine: spark`: charged once, verified by a stranger, no stage and no log with rows left
    behind, and the same command again finds it published."""
    root = tmp_path / "work"
    shutil.copytree(initialised[0], root)
    settings = root / "sudare.toml"
    named = f'[spark]\npython = "{spark.python}"\nmaster = "{spark.master}"\n'
    settings.write_text(f"{settings.read_text()}\n{named}")
    people_contract(tmp_path)
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        f"release: people\ncontract: people.odcs.yaml\n"
        f"source: {{path: '{source.path}', files: parquet, engine: spark}}\n"
        "charge: {account: town, epsilon: 1, delta: 0}\n"
        "product: {kind: tables, mechanism: laplace, tables: [[age, sex], [since]], total: noisy, "
        "refine: {method: simplex}}\npublish: {to: releases}\n"
    )
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "SUDARE_"))}

    def sudare(*words: str, code: int = 0) -> str:
        command = [sys.executable, "-c", "from console.main import main; main()", *words]
        done = subprocess.run(command, env=plain, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        return done.stdout

    where = ("--workspace", str(root))
    opened = ("--population", "people", "--block", "2024", "--unit", "person", "--adjacency", "add_remove")
    cap = ("--calculus", "pure", "--epsilon", "3", "--delta", "0", "--source", str(source.path))
    sudare("budget", "open", "town", *opened, *cap, *where)
    told = json.loads(sudare("run", str(spec), "--accept-misfits", "--json", *where))
    assert (told["version"], told["repeated"], told["charged"]) == (1, False, "1")
    sudare("verify", told["folder"], "--key", str(root / ".sudare/keys/signing.pub"))
    record = (Path(told["folder"]) / "record.json").read_text()
    assert '"rows_per_unit": 3' in record or '"max_rows_per_unit": 3' in record
    assert not list((root / ".sudare/runs").glob("*/snapshot*"))
    assert not list((root / ".sudare/runs").glob("*/spill"))
    assert json.loads(sudare("run", str(spec), "--accept-misfits", "--json", *where))["repeated"]


def ledger_of(folder: Path) -> Ledger:
    ledger = Ledger(f"sqlite:///{folder}/ledger.sqlite", draws=folder / "draws")
    ledger.open_account(terms(epsilon=9, unit="person"))
    bind(ledger, "2024")
    return ledger


def granted(ledger: Ledger, table: PrivateTable, contract: Contract, *, draws: int) -> Grant:
    """The grant of the one run that the tests make, charged once."""
    event = noise_event(HALF, adjacency="add_remove", rows_per_unit=MOST)
    asked = request(
        unit="person",
        rows_per_unit=MOST,
        events=(event,) * draws,
        epsilon=9 * PICO,
        contract_digest=contract.digest,
        snapshot_hash=snapshot_mark(table.keyed_hash, "a" * 64),
    )
    ledger.reserve(asked)
    return open_grant(ledger, "run-1")


def test_rows_that_do_not_arrive_stop_the_run_before_any_charge(
    spark: SparkSettings, tmp_path: Path, source: Source, contract: Contract, monkeypatch: pytest.MonkeyPatch
):
    """A stage that loses a file between writing and reading, as one that is not shared does: no marker is left."""
    ask = SparkWorker.ask

    def losing(self: SparkWorker, what: str, **arguments: Any) -> Any:
        if what == "attach":
            for part in Path(arguments["path"]).glob("part-*.parquet"):
                rows = pq.read_table(part)
                pq.write_table(rows.slice(0, rows.num_rows // 2), part)
                part.with_name(f".{part.name}.crc").unlink()
        return ask(self, what, **arguments)

    monkeypatch.setattr(SparkWorker, "ask", losing)
    with pytest.raises(EngineFailed, match="differ in number; no noise was drawn for this"):
        ingest_in_engine(source, contract, folder=tmp_path / "run", key=KEY, settings=spark)
    assert not (tmp_path / "run" / MARKER).exists()


def test_no_value_of_a_row_stands_in_what_spark_writes_but_the_stage(spark: SparkSettings, tmp_path: Path):
    """A planted value that no cast of ours takes: not in logs or spills, whose files are the owner's alone."""
    planted = "PLANTED-4711"
    pq.write_table(pa.table({"age": [planted, "7"]}), tmp_path / "rows.parquet")
    worker = SparkWorker(spark, tmp_path)
    try:
        worker.ask("open", files=[str(tmp_path / "rows.parquet")])
        cast = sql_of(ibis.table({"age": "string"}, name=SOURCE).select(n=ibis._.age.cast("int64")), "pyspark")
        assert worker.ask("stage", sql=cast, to=str(tmp_path / "stage")) == 2
    finally:
        worker.close()
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "rows.parquet"]
    assert len(files) > 2
    assert not [path for path in files if planted.encode() in path.read_bytes()]
    assert not [path for path in files if path.stat().st_mode & 0o077]


def test_a_spark_that_dies_while_it_counts_costs_no_draw(
    spark: SparkSettings, tmp_path: Path, source: Source, contract: Contract, monkeypatch: pytest.MonkeyPatch
):
    """SIGKILL to the process and its Java at the third of four marginals: the next run goes on with what was drawn,
    one charge and one set of draws. `benchmarks.spark_kills` kills many times."""
    ledger, run, at = ledger_of(tmp_path), tmp_path / "run", 3
    names = [column.name for column in contract.columns][:4]
    counted = 0
    query = SparkWorker.query

    def dying(self: SparkWorker, sql: str) -> list[list[Any]]:
        nonlocal counted
        counted += 1
        if counted == at:
            os.killpg(self._process.pid, signal.SIGKILL)
        return query(self, sql)

    def draw_all() -> list[str]:
        table = ingest_in_engine(source, contract, folder=run, key=KEY, settings=spark)
        try:
            with monkeypatch.context() as patched:
                patched.setattr(SparkWorker, "query", dying)
                grant = granted(ledger, table, contract, draws=len(names))
                counts = SnapshotCounts(table, contract)
                return [
                    grant.draw(MarginalQuery(counts.marginal((name,)), HALF, None), key=name).sha256 for name in names
                ]
        finally:
            assert table.engine is not None
            table.engine.close()

    with pytest.raises(EngineFailed, match="the process ended"):
        draw_all()
    before = [entry.body["sha256"] for entry in ledger.entries_of("run-1") if entry.kind == "noise_drawn"]
    assert len(before) == at - 1
    assert draw_all()[: at - 1] == before
    kinds = [entry.kind for entry in ledger.entries_of("run-1")]
    assert (kinds.count("charge_reserved"), kinds.count("noise_drawn")) == (1, len(names))


def test_spark_takes_no_orders_from_the_environment_and_writes_no_key_down(
    spark_as_found: SparkSettings, tmp_path: Path, source: Source, monkeypatch: pytest.MonkeyPatch
):
    """Variables that would lead it, its disk or its file system elsewhere change nothing; an error quotes no key."""
    for name, value in ORDERS.items():
        monkeypatch.setenv(name, value)
    worker, key = SparkWorker(spark_as_found, tmp_path), "0123456789abcdef" * 4
    try:
        [file] = sorted(Path(str(source.path)).rglob("*.parquet"))[:1]
        worker.ask("open", files=[str(file)])
        worker.ask("stage", sql="SELECT age FROM sudare_source", to=str(tmp_path / "stage"))
        worker.ask("attach", path=str(tmp_path / "stage"))
        with pytest.raises(EngineFailed, match="Exception"):
            worker.query(f"SELECT no_such_function(concat('{key}', age)) FROM sudare_stage")
        assert worker.query("SELECT count(*) FROM sudare_stage")[0][0] > 0
    finally:
        worker.close()
    assert list((tmp_path / "stage").glob("*.parquet"))
    log = (tmp_path / LOG).read_text()
    assert "no_such_function" in log
    assert key not in log


def test_what_spark_reads_differently_is_refused_before_anything_is_staged(
    spark: SparkSettings, tmp_path: Path, contract: Contract
):
    """A date stored as text, and partitions in paths."""
    (tmp_path / "y=1").mkdir()
    with duckdb.connect() as connection:
        columns = "'a' AS person, 1 AS age, 'F' AS sex, 1.5::DOUBLE AS wage, '2020-01-01' AS since"
        connection.execute(f"COPY (SELECT {columns}) TO '{tmp_path}/people.parquet'")
        part = "'a' AS person, 1 AS age, 'F' AS sex, DATE '2020-01-01' AS since"
        (tmp_path / "people/wage=1").mkdir(parents=True)
        connection.execute(f"COPY (SELECT {part}) TO '{tmp_path}/people/wage=1/a.parquet'")
    told = {"folder": tmp_path / "run", "key": KEY, "settings": spark}
    with pytest.raises(SpecRefused, match="'since'"):
        ingest_in_engine(Source(path=tmp_path / "people.parquet"), contract, **told)  # type: ignore[arg-type]
    with pytest.raises(SourceUnreadable, match="partition columns"):
        ingest_in_engine(Source(path=tmp_path / "people", files="parquet"), contract, **told)  # type: ignore[arg-type]
    assert not list((tmp_path / "run").glob(f"{STAGED}*"))
