"""What an engine adds up for statistics, and the look at its ids and columns, are those of a run here."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from sqlglot import parse_one

from contracts.contract.contract import Contract
from contracts.release.source import Source
from flows.request import read_request
from privacy.private_table import PrivateTable
from sudare_engines.portable_sql import sql_of
from sudare_engines.spark import SparkWorker
from sudare_engines.stage_rules import kinds_of, repeated_ids
from sudare_engines.staged_table import StagedTable, scan_sql
from sudare_engines.staging import SOURCE, STAGE, staged
from tasks.ingest import ingest
from tasks.storage.source_engine import EngineFailed
from tests.extensions.sudare_engines.engine_rows import KINDS, Answering, people_contract, write_keys, write_people
from tests.extensions.sudare_engines.statistics_rows import beside_of, exact
from tests.extensions.sudare_engines.test_engine_admission import written
from tests.tasks.intake import KEY
from tests.tasks.validation.test_misfits import NO_IDS, PEOPLE, ROW, ROWS, SHARE, Take, look


class DuckDBAsSpark(Answering):
    """Answers the statements that Spark gets, read back from Spark's SQL."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self.said: list[str] = []

    def query(self, sql: str) -> list[list[int]]:
        self.said.append(sql)
        return [list(row) for row in self._connection.execute(parse_one(sql, "spark").sql("duckdb")).fetchall()]


@pytest.mark.long
def test_every_form_of_adding_up_has_the_same_numbers_and_no_id_stands_in_the_stage(tmp_path: Path):
    """Sums, weights, quotas, moments, trees, magnitudes, narrowed clips, chosen quantiles, units, distinct values."""
    source, contract = write_people(tmp_path / "people"), people_contract(tmp_path)
    beside = beside_of(contract)
    here = ingest(source, contract, folder=tmp_path / "run", key=KEY, memory_limit="256MB", lattices=beside)
    with duckdb.connect() as connection:
        rows = f"read_parquet('{tmp_path}/people/*.parquet', file_row_number = true)"
        connection.execute(
            f"CREATE VIEW {SOURCE} AS SELECT *, dense_rank() OVER (ORDER BY filename) AS sudare_file, "
            f"file_row_number AS sudare_row FROM {rows} ORDER BY hash(wage)"
        )
        write_keys(connection, KEY)
        connection.execute(f"CREATE TABLE sudare_stage AS {sql_of(staged(contract, KINDS, beside), 'duckdb')}")
        [(total,)] = connection.execute("SELECT count(*) FROM sudare_stage").fetchall()
        texts = "SELECT count(*) FROM sudare_stage WHERE NOT regexp_full_match(o5, '[0-9a-f]{64}')"
        assert connection.execute(texts).fetchall() == [(0,)]
        worker = DuckDBAsSpark(connection)
        engine = StagedTable(worker, contract, total, beside)  # type: ignore[arg-type]
        away = PrivateTable(here.path, here.keyed_hash, contract.digest, here.source, engine)
        for (name, one), (_, other) in zip(exact(here, contract), exact(away, contract), strict=True):
            np.testing.assert_array_equal(one, other, err_msg=name)
            assert one.any(), name
        short = StagedTable(worker, contract, total + 1, beside)  # type: ignore[arg-type]
        with pytest.raises(EngineFailed, match="did not count every row"):
            next(exact(PrivateTable(here.path, "", contract.digest, "", short), contract))
    assert not [sql for sql in worker.said if "codes" in sql or "\x1f" in sql]


@pytest.mark.parametrize("answer", [[[0, 5.5, 2]], [[0, "5", 2]], [[0, True, 2]], [[0, 2**63, 2]], [[0, 2]]])
def test_wrongly_typed_sums_stop_the_run_before_a_draw(tmp_path: Path, answer: object):
    class Worker(Answering):
        def query(self, sql: str) -> object:
            return answer

    stage = StagedTable(Worker(), people_contract(tmp_path), 2)  # type: ignore[arg-type]
    with pytest.raises(EngineFailed, match="not whole numbers of 64 bits; no noise was drawn"):
        stage.whole_columns('SELECT "age", sum("age") FROM codes GROUP BY 1')


def test_a_scan_is_written_over_the_stage_and_names_only_what_stands_there():
    """Columns are told by their quotes, so that one called `cell` is not the alias; a column that is not there stops
    the scan; a division of whole numbers is one."""
    names = {"cell": "c0", "a\x1f0": "o0"}
    summed = 'sum(("a\x1f0"::BIGINT + 3) // 5) FILTER ("a\x1f0" > 0)'
    query = f'SELECT "cell"::BIGINT AS cell, {summed} FROM codes GROUP BY cell'
    sql, width = scan_sql(query, names, "pyspark")
    assert width == 2
    assert sql == (
        "SELECT TRY_CAST(c0 AS BIGINT) AS cell, SUM((TRY_CAST(o0 AS BIGINT) + 3) DIV 5) FILTER(WHERE o0 > 0), "
        "COUNT(*) FROM sudare_stage GROUP BY cell"
    )
    with pytest.raises(KeyError):
        scan_sql('SELECT "age", count(*) FROM codes GROUP BY 1', names, "pyspark")


@pytest.mark.parametrize(
    "statistics",
    [
        "{by: [sex], of: [{sum: wage, step: 10}, {mean: wage, step: 10}, {variance: wage, step: 10}]}",
        "{by: [sex], of: [units, {quantiles: [0.5], of: wage, step: 10}]}",
        "{by: [sex], of: [{distinct: since}, {sum: age, per_unit: 60}]}",
    ],
)
def test_statistics_of_declared_groups_are_admitted(tmp_path: Path, statistics: str):
    spec = written(tmp_path, f"{{kind: statistics, tables: [{statistics}]}}")
    assert read_request(spec).spec.source.engine == "spark"


class DuckDB(DuckDBAsSpark):
    """With Spark's names of types."""

    kind_of = staticmethod(SparkWorker.kind_of)


@pytest.fixture
def take() -> Iterator[Take]:
    """Stage a source by the statements that Spark gets, which DuckDB answers."""
    with duckdb.connect() as connection:

        def taken(source: Source, contract: Contract, folder: Path) -> PrivateTable:
            connection.execute(f"CREATE VIEW {SOURCE} AS FROM '{source.path}'")
            described = connection.execute(f"DESCRIBE {SOURCE}").fetchall()
            columns = {name: {"VARCHAR": "string"}.get(kind, kind.lower()) for name, kind, *_ in described}
            worker: Any = DuckDB(connection)
            sql = sql_of(staged(contract, kinds_of(worker, columns, contract, "t")), "duckdb")
            connection.execute(f"CREATE TABLE {STAGE} AS {sql}")
            engine = StagedTable(worker, contract, ROWS, repeated=repeated_ids(worker, columns, contract))
            return PrivateTable(folder, "0" * 64, contract.digest, source.name, engine)

        yield taken


@pytest.mark.parametrize("name", ["pid", "klant"])
def test_ids_that_repeat_where_rows_are_units_want_a_yes(tmp_path: Path, take: Take, name: str):
    found = look(tmp_path, f"left_out: [{name}]\n{ROW}", {name: PEOPLE}, take=take, engine="spark")
    assert [str(each) for each in found.notes] == [f"30 rows per {name}; a row is not a person"]
    assert found.asks(SHARE)


@pytest.mark.parametrize(("name", "values"), NO_IDS)
def test_no_yes_is_wanted_for_columns_that_are_no_ids(tmp_path: Path, take: Take, name: str, values: list[Any]):
    found = look(tmp_path, f"left_out: [{name}]\n{ROW}", {name: values}, take=take, engine="spark")
    assert (found.notes, found.asks(SHARE), found.clean) == ([], False, True)
