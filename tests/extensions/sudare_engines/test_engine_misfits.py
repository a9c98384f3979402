"""The look of the operator at ids that an engine counts, and at columns that an engine sees and nothing releases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from contracts.contract.contract import Contract
from contracts.contract.odcs import load_contract
from contracts.release.source import Source
from privacy.private_table import PrivateTable
from sudare_engines.stage import ingest_in_engine
from sudare_engines.staged_table import StagedTable
from tests.tasks.intake import CONTRACT, KEY
from tests.tasks.storage.postgres_server import PostgresServer
from tests.tasks.storage.sources.postgres.test_left_out_columns import PEOPLE as COLUMNS_LEFT_OUT
from tests.tasks.validation.test_misfits import NO_IDS, PEOPLE, ROW, SHARE, Take, look


@pytest.fixture
def take(request: pytest.FixtureRequest) -> Take:
    """Stage a source in ClickHouse; the engine is closed after the test."""

    def staged(source: Source, contract: Contract, folder: Path) -> PrivateTable:
        taken = ingest_in_engine(source, contract, folder=folder, key=KEY, settings=None)
        assert isinstance(taken.engine, StagedTable)
        request.addfinalizer(taken.engine.close)
        return taken

    return staged


@pytest.mark.services
@pytest.mark.parametrize("name", ["pid", "klant"])
def test_ids_that_repeat_where_rows_are_units_want_a_yes(tmp_path: Path, take: Take, name: str) -> None:
    found = look(tmp_path, f"left_out: [{name}]\n{ROW}", {name: PEOPLE}, take=take, engine="clickhouse")
    assert [str(each) for each in found.notes] == [f"30 rows per {name}; a row is not a person"]
    assert found.asks(SHARE)


@pytest.mark.services
@pytest.mark.parametrize(("name", "values"), NO_IDS)
def test_no_yes_is_wanted_for_columns_that_are_no_ids(
    tmp_path: Path, take: Take, name: str, values: list[Any]
) -> None:
    found = look(tmp_path, f"left_out: [{name}]\n{ROW}", {name: values}, take=take, engine="clickhouse")
    assert (found.notes, found.asks(SHARE), found.clean) == ([], False, True)


def test_a_server_counts_beside_columns_that_are_left_out(
    tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, take: Take
) -> None:
    monkeypatch.setenv("PGUSER", "postgres")
    text = CONTRACT.replace("UNIT", "{kind: row, scope: block}").replace("GATES", "[]").replace("IDPROPERTY", "")
    path = tmp_path / "left_out.odcs.yaml"
    path.write_text(text.replace("gates: []", "gates: []\n          left_out: [id, name]"))
    source = postgres.source(postgres.database(*COLUMNS_LEFT_OUT), engine="postgresql")
    take(source, load_contract(path), tmp_path / "run")
