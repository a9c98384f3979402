"""The look of the operator at ids that an engine counts, and at columns that an engine sees and nothing releases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from contracts.contract.contract import Contract
from contracts.release.source import Source
from privacy.private_table import PrivateTable
from sudare_engines.portable_sql import sql_of
from sudare_engines.spark import SparkWorker
from sudare_engines.stage_rules import kinds_of, repeated_ids
from sudare_engines.staged_table import StagedTable
from sudare_engines.staging import SOURCE, STAGE, staged
from tests.extensions.sudare_engines.test_engine_statistics import DuckDBAsSpark
from tests.tasks.validation.test_misfits import NO_IDS, PEOPLE, ROW, ROWS, SHARE, Take, look


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
def test_ids_that_repeat_where_rows_are_units_want_a_yes(tmp_path: Path, take: Take, name: str) -> None:
    found = look(tmp_path, f"left_out: [{name}]\n{ROW}", {name: PEOPLE}, take=take, engine="spark")
    assert [str(each) for each in found.notes] == [f"30 rows per {name}; a row is not a person"]
    assert found.asks(SHARE)


@pytest.mark.parametrize(("name", "values"), NO_IDS)
def test_no_yes_is_wanted_for_columns_that_are_no_ids(
    tmp_path: Path, take: Take, name: str, values: list[Any]
) -> None:
    found = look(tmp_path, f"left_out: [{name}]\n{ROW}", {name: values}, take=take, engine="spark")
    assert (found.notes, found.asks(SHARE), found.clean) == ([], False, True)
