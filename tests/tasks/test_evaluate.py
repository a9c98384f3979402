"""Evaluate: real rows against a version's, encoded by the same contract; what is found stays with the auditor."""

from __future__ import annotations

import json
import logging
import stat
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from contracts.contract import Contract
from contracts.errors import Refused
from privacy.evaluation.scores import PrivateScores
from privacy.private_table import PrivateTable
from tasks.evaluate import evaluate, write_scores
from tests.tasks.intake import make_contract, take_in, write_csv

REAL = ("34,F,10.5,2021-03-01", "17,M,700,2020-01-01", "?,F,,2024-12-31", "31,F,12.5,2021-12-31")
MADE = {
    "age": [38, 14, None, 31],
    "sex": ["F", "M", "F", "M"],
    "wage": [0.0, 999.0, None, 50.0],
    "since": ["2021-01-01", "2020-01-01", "2024-01-01", "2021-01-01"],
}


@pytest.fixture
def contract(tmp_path: Path) -> Contract:
    return make_contract(tmp_path)


@pytest.fixture
def table(tmp_path: Path, contract: Contract) -> PrivateTable:
    return take_in(write_csv(tmp_path, *REAL), contract, tmp_path)


@pytest.fixture
def made(tmp_path: Path) -> Path:
    path = tmp_path / "made.parquet"
    parquet.write_table(pa.table(MADE), path)
    return path


def found(table: PrivateTable, made: Path, contract: Contract, target: str | None = None) -> PrivateScores:
    return evaluate(table, made, contract, target=target, memory_limit="256MB")


def test_values_are_compared_by_their_cells(table: PrivateTable, made: Path, contract: Contract) -> None:
    """Other ages and wages of the same bins are the same; one of four sexes differs, which moves two counts."""
    scores = found(table, made, contract).scores
    assert scores.errors[1].distances == (0, 0.5, 0, 0)
    assert scores.errors[2].mean == pytest.approx((3 * 0.5) / 6)
    assert list(scores.errors) == [1, 2, 3]
    assert scores.accuracies == {}


def test_classifiers_are_tested_on_the_real_rows(table: PrivateTable, made: Path, contract: Contract) -> None:
    scores = found(table, made, contract, "sex").scores
    assert set(scores.accuracies) == {"decision tree", "support vector machine", "xgboost"}
    assert all(accuracy * 4 in range(5) for accuracy in scores.accuracies.values())


def test_no_number_is_logged(
    table: PrivateTable, made: Path, contract: Contract, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        found(table, made, contract)
    said = [record.getMessage() for record in caplog.records if record.name == "tasks.evaluate"]
    assert said == ["evaluated made-up rows of 4 columns against a snapshot"]


def test_scores_are_written_for_their_owner_alone_and_never_over_a_file(
    table: PrivateTable, made: Path, contract: Contract, tmp_path: Path
) -> None:
    scores = found(table, made, contract)
    path = write_scores(scores, contract, tmp_path / "scores.json")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    written = json.loads(path.read_text())
    assert written["class"] == "private"
    assert written["alpha_way_error"]["1"]["by_marginal"][1] == {"columns": ["sex"], "error": 0.5}
    with pytest.raises(Refused, match="File exists"):
        write_scores(scores, contract, path)
    with pytest.raises(Refused, match="a new file in a folder"):
        write_scores(scores, contract, tmp_path / "nowhere" / "scores.json")


@pytest.mark.parametrize("sign", ["MANIFEST.json", "record.json", "latest"])
def test_no_score_gets_into_a_release_store(
    table: PrivateTable, made: Path, contract: Contract, tmp_path: Path, sign: str
) -> None:
    """Not beside the record, not in a folder of the version, not in one that is being staged."""
    scores = found(table, made, contract)
    version = tmp_path / "releases" / "town" / "v1"
    staging = tmp_path / "other" / ".staging-v2" / "data"
    for folder in (version / "data", staging):
        folder.mkdir(parents=True)
    (version / sign).touch()
    for place in (version, version / "data", staging):
        with pytest.raises(Refused, match="release store"):
            write_scores(scores, contract, place / "scores.json")
        assert not (place / "scores.json").exists()


def test_no_score_gets_into_the_root_of_a_store_or_through_a_link(
    table: PrivateTable, made: Path, contract: Contract, tmp_path: Path
) -> None:
    """Whatever lies in a store may be handed on with it; a link from a private folder leads there as well."""
    scores = found(table, made, contract)
    store, private = tmp_path / "releases", tmp_path / "private"
    version = store / "town" / "v1"
    for folder in (version, private):
        folder.mkdir(parents=True)
    (version / "MANIFEST.json").touch()
    (private / "link").symlink_to(version)
    (private / "root").symlink_to(store)
    for place in (store, private / "root", private / "link"):
        with pytest.raises(Refused, match="release store"):
            write_scores(scores, contract, place / "scores.json")
        assert not (place / "scores.json").exists()
    assert write_scores(scores, contract, private / "scores.json").exists()


def test_what_cannot_be_compared_is_refused(
    table: PrivateTable, made: Path, contract: Contract, tmp_path: Path
) -> None:
    with pytest.raises(Refused, match="another contract than the snapshot's"):
        found(replace(table, contract_digest="0" * 64), made, contract)
    with pytest.raises(Refused, match="one of several columns"):
        found(table, made, contract, "height")
    narrow = tmp_path / "narrow.parquet"
    parquet.write_table(pa.table({"age": [1]}), narrow)
    with pytest.raises(Refused, match="no such column"):
        found(table, narrow, contract)
    empty = tmp_path / "empty.parquet"
    parquet.write_table(pa.table(MADE)[:0], empty)
    with pytest.raises(Refused, match="at least one row"):
        found(table, empty, contract)
