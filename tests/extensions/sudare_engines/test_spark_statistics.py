"""Statistics in Spark, really: the same exact numbers as DuckDB's, and a version that verifies.

`make test-spark` runs these and names the Python that has pyspark in SUDARE_SPARK_PYTHON; CI runs it.
"""

from pathlib import Path

import duckdb
import numpy as np
import pyarrow.parquet as pq
import pytest

from sudare_engines.portable_sql import sql_of
from sudare_engines.spark import SparkWorker
from sudare_engines.spark_settings import SparkSettings
from sudare_engines.stage import ingest_in_engine
from sudare_engines.staging import SOURCE, stage_of, staged
from tasks.ingest import ingest
from tests.contracts.engine import rows_as_written
from tests.extensions.sudare_engines.engine_rows import people_contract, write_people
from tests.extensions.sudare_engines.portable_rows import NUMBERS, lattices_of, numbers_table
from tests.extensions.sudare_engines.spark_releases import make_place
from tests.extensions.sudare_engines.statistics_rows import beside_of, exact
from tests.tasks.intake import KEY

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def test_every_form_of_adding_up_has_the_numbers_of_duckdb(spark: SparkSettings, tmp_path: Path):
    """Bounded to three rows a unit; by no column, one, two and three."""
    source, contract = write_people(tmp_path / "people"), people_contract(tmp_path)
    beside = beside_of(contract)
    here = ingest(source, contract, folder=tmp_path / "run", key=KEY, memory_limit="256MB", lattices=beside)
    there = ingest_in_engine(source, contract, folder=tmp_path / "far", key=KEY, settings=spark, beside=beside)
    assert there.engine is not None
    try:
        for (name, one), (_, other) in zip(exact(here, contract), exact(there, contract), strict=True):
            np.testing.assert_array_equal(one, other, err_msg=name)
    finally:
        there.engine.close()
    hidden = stage_of(contract, beside).beside
    for part in there.path.glob("*.parquet"):
        assert set(pq.read_schema(part).names) >= set(hidden.values())
        assert not any(text.encode() in part.read_bytes() for text in ("ü7", "ü77", "ü123"))


def test_awkward_numbers_of_every_type_get_the_offsets_that_duckdb_gives_them(worker: SparkWorker, tmp_path: Path):
    """Halves of steps and the doubles beside them, -0, infinities, NaN, null, decimals, notations."""
    contract, kinds, rows = numbers_table()
    beside = [each for column in contract.columns for each in lattices_of(column)]
    pq.write_table(rows, tmp_path / "rows.parquet")
    expression = staged(contract, kinds, beside)
    worker.ask("open", files=[str(tmp_path / "rows.parquet")])
    worker.ask("stage", sql=sql_of(expression, "pyspark"), to=str(tmp_path / "stage"))
    with duckdb.connect() as connection:
        connection.register(SOURCE, rows)
        expected = rows_as_written(connection, sql_of(expression, "duckdb"))
        got = connection.execute(f"FROM '{tmp_path}/stage/*.parquet'").fetchall()
    assert sorted(got) == sorted(expected)
    assert len(NUMBERS) > 20


@pytest.mark.usefixtures("prefect_server")
@pytest.mark.parametrize("name", ["statistics", "inside", "spine"])
def test_a_release_counted_by_spark_is_published_and_verifies(spark: SparkSettings, tmp_path: Path, name: str):
    """Spec to verified version, charged once; no stage is left behind.

    One of each form of counting; tables and rounds of marginals are in `test_spark_cluster`.
    """
    place = make_place(tmp_path, write_people(tmp_path / "people"))
    place.engine(spark)
    told = place.run(name, name=name)
    assert (told["version"], told["repeated"]) == (1, False)
    assert 0 < float(told["charged"]) <= 1
    place.verify(told["folder"])
    assert not place.left_behind()
