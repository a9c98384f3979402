"""What an engine is sent makes the rows that ingest makes, and what it would read differently is refused."""

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from itertools import combinations
from pathlib import Path
from time import monotonic, sleep

import duckdb
import numpy as np
import pytest
from sqlglot import parse_one

from contracts.domains.value_sql import identifier
from contracts.errors import SpecRefused
from contracts.release.spec import load_spec
from privacy.private_table import PrivateTable
from privacy.snapshots.snapshot import SnapshotCounts
from sudare_engines.portable_sql import sql_of
from sudare_engines.spark import SparkWorker
from sudare_engines.spark_settings import SparkSettings
from sudare_engines.spark_worker import FULL, cause
from sudare_engines.stage import ingest_in_engine
from sudare_engines.staged_table import StagedTable
from sudare_engines.staging import SOURCE, stage_of, staged
from tasks.storage.source_engine import EngineFailed
from tasks.storage.workspace.run_folder import RunBusy, hold, is_locked
from tests.contracts.samples import loaded, write
from tests.extensions.sudare_engines.engine_rows import (
    KINDS,
    UNITS,
    Answering,
    people_contract,
    write_keys,
    write_people,
)
from tests.tasks.intake import KEY, SECRET, take_in


def test_an_engine_keeps_of_each_unit_the_rows_that_ingest_keeps(tmp_path: Path):
    """The keyed choice, in the SQL that engines get: the same codes as often, for three thousand rows of units with
    more rows than they may have; under another key other rows."""
    source, contract = write_people(tmp_path / "people"), people_contract(tmp_path)
    table = take_in(source, contract, tmp_path)
    names = ", ".join(identifier(column.name) for column in contract.columns)
    with duckdb.connect(str(table.path), read_only=True) as connection:
        kept = Counter(connection.execute(f"SELECT {names} FROM codes").fetchall())
    assert sum(kept.values()) < 3 * UNITS
    codes = ", ".join(stage_of(contract).codes.values())
    with duckdb.connect() as connection:
        rows = f"read_parquet('{tmp_path}/people/*.parquet', file_row_number = true)"
        connection.execute(
            f"CREATE VIEW {SOURCE} AS SELECT *, dense_rank() OVER (ORDER BY filename) AS sudare_file, "
            f"file_row_number AS sudare_row FROM {rows} ORDER BY hash(wage)"
        )

        def chosen(key: bytes) -> Counter[tuple[int, ...]]:
            write_keys(connection, key)
            sql = sql_of(staged(contract, KINDS), "duckdb")
            return Counter(connection.execute(f"SELECT {codes} FROM ({sql})").fetchall())

        assert chosen(KEY) == kept
        assert chosen(bytes(32)) != kept


@pytest.mark.parametrize("answer", [[[0, 5], [3, 6]], [[0, 5], [None, 7]], [[0, None]], []])
def test_counts_that_are_not_of_every_row_stop_the_run_before_a_draw(tmp_path: Path, answer: list[list[int]]):
    """A file of the stage that did not arrive, a cast that failed: the sum is not the number of rows written."""

    class Worker(Answering):
        def query(self, sql: str) -> list[list[int]]:
            return answer

    contract = loaded(tmp_path)
    stage = StagedTable(Worker(), contract, 12)  # type: ignore[arg-type]
    with pytest.raises(EngineFailed, match="did not count every row"):
        stage.counted_cells([(contract.columns[0].name,)])
    if len(answer) == 2 and None not in answer[1]:
        whole = StagedTable(Worker(), contract, 11)  # type: ignore[arg-type]
        [cells] = whole.counted_cells([(contract.columns[0].name,)])
        assert [each.tolist() for each in cells] == [[0, 3], [5, 6]]


@pytest.mark.parametrize(
    "answer", [[[0, 5.0]], [["0", 11]], [[0, True]], [[-1, 11]], [[0, 2**63]], [[0, 11, 0]], {"n": 11}]
)
def test_wrongly_typed_counts_stop_the_run_before_a_draw(tmp_path: Path, answer: object):
    """A fraction, a text, a truth value, a negative or too large number, and another form are no counts."""

    class Worker(Answering):
        def query(self, sql: str) -> object:
            return answer

    contract = loaded(tmp_path)
    stage = StagedTable(Worker(), contract, 11)  # type: ignore[arg-type]
    with pytest.raises(EngineFailed, match="not whole numbers from 0 on; no noise was drawn"):
        stage.counted_cells([(contract.columns[0].name,)])


def test_all_marginals_of_a_round_are_counted_in_one_scan(tmp_path: Path):
    """One statement for all pairs, run by DuckDB over the stage; the counts are those of a scan for each pair."""
    source, contract = write_people(tmp_path / "people"), people_contract(tmp_path)
    said = []
    with duckdb.connect() as connection:
        rows = f"read_parquet('{tmp_path}/people/*.parquet', file_row_number = true, filename = true)"
        connection.execute(
            f"CREATE VIEW {SOURCE} AS SELECT *, dense_rank() OVER (ORDER BY filename) AS sudare_file, "
            f"file_row_number AS sudare_row FROM {rows}"
        )
        write_keys(connection, KEY)
        connection.execute(f"CREATE TABLE sudare_stage AS {sql_of(staged(contract, KINDS), 'duckdb')}")
        [(total,)] = connection.execute("SELECT count(*) FROM sudare_stage").fetchall()

        class Worker(Answering):
            def query(self, sql: str) -> list[list[int]]:
                said.append(sql)
                return [
                    list(row) for row in connection.execute(parse_one(sql, dialect="spark").sql("duckdb")).fetchall()
                ]

        stage = StagedTable(Worker(), contract, total)  # type: ignore[arg-type]
        cliques = [(), *combinations([column.name for column in contract.columns], 2)]
        together = stage.counted_cells(cliques)
        assert len(said) == 1
        alone = [stage.counted_cells([clique])[0] for clique in cliques]
    here = SnapshotCounts(take_in(source, contract, tmp_path), contract)
    for clique, one, other in zip(cliques, together, alone, strict=True):
        assert [each.tolist() for each in one] == [each.tolist() for each in other]
        counts = here.marginal(clique)._count().ravel()
        assert (one[0].tolist(), one[1].tolist()) == (np.flatnonzero(counts).tolist(), counts[counts > 0].tolist())


def test_no_cast_that_spark_is_sent_can_fail_loudly(tmp_path: Path):
    """Spark's error would quote a row's value; other dialects are as Ibis writes them."""
    expression = staged(people_contract(tmp_path), KINDS)
    casts = re.compile(r"\b(TRY_)?CAST\(")
    assert {found.group(1) for found in casts.finditer(sql_of(expression, "pyspark"))} == {"TRY_"}
    assert {found.group(1) for found in casts.finditer(sql_of(expression, "duckdb"))} == {None}


def test_a_handle_on_an_engine_opens_as_one_on_a_file_and_says_as_little(tmp_path: Path):
    """Dense and sparse counts come from the engine alone; references to it are not pickled and show nothing."""
    contract = loaded(tmp_path)

    class Counting:
        def counted_cells(self, cliques):  # type: ignore[no-untyped-def]
            import numpy as np

            return tuple((np.array([1]), np.array([3])) for _ in cliques)

        def broken_checks(self) -> frozenset[str]:
            return frozenset()

        def marked_rows(self) -> tuple[int, dict[str, int]]:
            return 3, {}

        def seen(self) -> list[tuple[str, int, int]]:
            return []

        def close(self) -> None: ...

    table = PrivateTable(tmp_path / "none", "f" * 64, contract.digest, "people", Counting())
    counts = SnapshotCounts(table, contract)
    name = contract.columns[0].name
    assert counts.marginal((name,))._count().sum() == 3
    assert counts.marginal((name,))._count()[1] == 3
    assert [each.tolist() for each in counts.sparse((name,))._count()] == [[1], [3]]
    assert "Counting" not in repr(table)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("{path: people.csv, engine: spark}", "`engine` for csv"),
        ("{path: people.duckdb, table: t, engine: spark}", "`engine` for duckdb"),
        ("{path: people.parquet, engine: spark, select: SELECT age FROM source}", "`select` beside `engine`"),
        ("{path: people.parquet, engine: hive}", "spark"),
    ],
)
def test_an_engine_is_refused_where_it_would_not_read_alike(tmp_path: Path, source: str, says: str):
    from tests.contracts.samples import SPEC

    text = SPEC.replace(next(line for line in SPEC.splitlines() if line.startswith("source:")), f"source: {source}")
    with pytest.raises(SpecRefused, match=says):
        load_spec(write(tmp_path, "spec.yaml", text))


def test_a_spec_without_an_engine_keeps_its_digest(tmp_path: Path):
    """The key came later: no release changes its name through it; with it a spec is another one."""
    from tests.contracts.samples import SPEC

    line = next(line for line in SPEC.splitlines() if line.startswith("source:"))
    plain = load_spec(write(tmp_path, "a.yaml", SPEC.replace(line, "source: {path: p.parquet}"))).digest
    null = load_spec(write(tmp_path, "b.yaml", SPEC.replace(line, "source: {path: p.parquet, engine: null}"))).digest
    spark = load_spec(
        write(tmp_path, "c.yaml", SPEC.replace(line, "source: {path: p.parquet, engine: spark}"))
    ).digest
    assert plain == null != spark


@pytest.mark.services
def test_without_a_spark_that_can_be_run_the_remedy_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """No settings, a Python that is not there, and one without pyspark; what it said is in a private file, and keys
    in our environment are not in its own."""
    monkeypatch.setenv("SUDARE_SIGNING_KEY", SECRET)
    monkeypatch.setenv("PGPASSWORD", SECRET)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    source, contract = write_people(tmp_path / "people", rows=50), people_contract(tmp_path)
    with pytest.raises(SpecRefused, match=r"spark\.python in sudare\.toml"):
        ingest_in_engine(source, contract, folder=tmp_path / "run", key=KEY, settings=None)
    folder = tmp_path / "worker"
    folder.mkdir()
    with pytest.raises(EngineFailed, match=r"correct `spark\.python`"):
        SparkWorker(SparkSettings(tmp_path / "no-python"), folder)
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nenv >&2\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    with pytest.raises(EngineFailed, match="ModuleNotFoundError"):
        SparkWorker(SparkSettings(bare), folder)
    log = folder / "spark.private.log"
    assert "pyspark" in log.read_text()
    assert "PATH=" in log.read_text()
    assert SECRET not in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600


FAKE_SPARK = """
import os

class SparkSession:
    version = "0"

    class builder:
        @staticmethod
        def appName(name):
            return SparkSession.builder

        config = staticmethod(lambda name, value: SparkSession.builder)

        @staticmethod
        def getOrCreate():
            return SparkSession()

    def sql(self, text):
        os.system("env >&2")
        os.write(2, f"WARN Java: {text}\\n".encode())
        raise RuntimeError(f"[PARSE_SYNTAX_ERROR] == SQL == {text}")

    def stop(self):
        pass
"""
ORDERS = {
    "SPARK_REMOTE": "sc://elsewhere",
    "SPARK_LOCAL_IP": "10.0.0.1",
    "SPARK_LOCAL_DIRS": "/elsewhere",
    "SPARK_HOME": "/elsewhere",
    "PYSPARK_SUBMIT_ARGS": "--master spark://elsewhere pyspark-shell",
    "PYSPARK_GATEWAY_PORT": "1",
    "PYSPARK_GATEWAY_SECRET": "elsewhere",
    "MASTER": "spark://elsewhere",
    "HADOOP_CONF_DIR": "/elsewhere",
    "JAVA_TOOL_OPTIONS": "-Dspark.master=elsewhere",
    "JDK_JAVA_OPTIONS": "-Dspark.master=elsewhere",
}


def fake_spark(folder: Path) -> Path:
    """Write a Python whose Spark says of every statement all that it knows."""
    (folder / "pyspark" / "sql").mkdir(parents=True)
    (folder / "pyspark" / "__init__.py").touch()
    (folder / "pyspark" / "sql" / "__init__.py").write_text(FAKE_SPARK)
    start = f"import runpy, sys; sys.path.insert(0, '{folder}'); runpy.run_path(sys.argv[2], run_name='__main__')"
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{start}" "$@"\n')
    python.chmod(0o755)
    return python


@pytest.mark.services
def test_a_worker_takes_no_orders_from_the_environment_and_writes_no_key_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Neither where rows go is told by variables, nor a key by what Spark says of an error; here in Spark's stead a
    module that says all of it. `make test-spark` does the same with Spark."""
    for name, value in ORDERS.items():
        monkeypatch.setenv(name, value)
    worker, key = SparkWorker(SparkSettings(fake_spark(tmp_path)), tmp_path), "0123456789abcdef" * 4
    with pytest.raises(EngineFailed, match="RuntimeError"):
        worker.query(f"SELECT sha2(concat('{key}', age), 256) FROM sudare_stage")
    worker.close()
    log = (tmp_path / "spark.private.log").read_text()
    assert key not in log
    assert log.count("SELECT sha2(concat('********', age), 256) FROM sudare_stage") == 2, "of Java and of Python"
    assert "SPARK_LOCAL_IP=127.0.0.1" in log
    assert "elsewhere" not in log
    assert not any(f"{name}=" in log for name in ORDERS if name != "SPARK_LOCAL_IP")


def test_of_a_value_that_an_error_quotes_nothing_is_told():
    lines = (
        "java.io.IOException: No space left on device",
        "Caused by: java.io.FileNotFoundException: /x/y (Permission denied)",
        "Lost task 0.0 in stage 1.0: java.nio.file.FileSystemException: /x: Disk quota exceeded",
    )
    assert [cause(each) for each in lines] == [
        f": {FULL}",
        ": a process of Spark's may not read or write a folder",
        f": {FULL}",
    ]
    assert cause("[CAST_INVALID_INPUT] the value 'Permission denied, said Bob' cannot be cast") == ""


@pytest.mark.services
def test_a_full_disk_of_a_worker_is_told_in_words_of_ours(tmp_path: Path):
    """What Spark says of it quotes where, and may quote more; only fixed words are passed on, beside the class."""
    text = "Task 0 in stage 3.0 failed 4 times: java.io.IOException: No space left on device (row PLANTED-4711)"
    worker = SparkWorker(SparkSettings(fake_spark(tmp_path)), tmp_path)
    with pytest.raises(EngineFailed) as raised:
        worker.query(text)
    worker.close()
    assert "Spark, query: RuntimeError: a disk of Spark's is full" in str(raised.value)
    assert "PLANTED" not in str(raised.value)


DEAF = """#!/bin/sh
echo $$ >&2
echo '{"answer": "4"}'
exec sleep 600
"""
HOLDER = """
import sys
from pathlib import Path
from sudare_engines.spark import SparkWorker
from sudare_engines.spark_settings import SparkSettings
from tasks.storage.workspace.run_folder import hold
with hold(Path(sys.argv[1]), "people", keep_snapshot=False) as run:
    SparkWorker(SparkSettings(Path(sys.argv[2])), run.path, lock=run.lock)
    print("started", flush=True)
    input()
"""


@pytest.mark.services
def test_a_run_s_folder_stays_held_while_an_engine_that_outlived_the_run_may_write(tmp_path: Path):
    """After SIGKILL the worker goes on with what it was asked for; until it ends no other run gets the folder."""
    deaf = tmp_path / "deaf"
    deaf.write_text(DEAF)
    deaf.chmod(0o755)
    runs = tmp_path / "runs"
    command = [sys.executable, "-c", HOLDER, str(runs), str(deaf)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"started\n"
    worker = int((runs / "people" / "spark.private.log").read_text().split()[0])
    holder.kill()
    holder.communicate()
    assert is_locked(runs, "people")
    with pytest.raises(RunBusy), hold(runs, "people", keep_snapshot=False):
        pass
    os.kill(worker, signal.SIGKILL)
    began = monotonic()
    while is_locked(runs, "people") and monotonic() - began < 30:
        sleep(0.05)
    with hold(runs, "people", keep_snapshot=False):
        pass
