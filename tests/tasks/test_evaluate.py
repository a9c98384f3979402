"""Evaluate: real rows against a version's, encoded by the same contract; what is found stays with the auditor."""

from __future__ import annotations

import json
import logging
import stat
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from contracts.contract.contract import Contract
from contracts.errors import Refused
from privacy.evaluation.cells import EncodedRows
from privacy.evaluation.rows import PrivateScores
from privacy.private_table import PrivateTable
from tasks.evaluate import evaluate
from tasks.evaluation.private_files import write_scores
from tasks.evaluation.score_files import ScoreFiles
from tasks.evaluation.score_pages import scores_page, yardsticks
from tasks.evaluation.scores import LEARNERS, _some, accuracies
from tasks.storage import progress
from tasks.storage.workspace.settings import Workspace
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


COLUMNS = ("age", "sex", "wage", "since")
NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


def found(
    table: PrivateTable, made: Path, contract: Contract, target: str | None = None, columns: tuple[str, ...] = COLUMNS
) -> PrivateScores:
    return evaluate(table, made, contract, columns=columns, target=target, memory_limit="256MB")


def written(scores: PrivateScores, workspace: Workspace, release: str = "town") -> ScoreFiles:
    return write_scores(scores, workspace, release=release, version=1, at=NOW)


def test_values_are_compared_by_their_cells(table: PrivateTable, made: Path, contract: Contract):
    """Other ages and wages of the same bins are the same; one of four sexes differs, which moves two counts."""
    scores = found(table, made, contract).scores
    assert scores.errors[1].distances == (0, 0.5, 0, 0)
    assert scores.errors[2].mean == pytest.approx((3 * 0.5) / 6)
    assert list(scores.errors) == [1, 2, 3]
    assert scores.accuracies == {}


def test_classifiers_are_tested_on_the_real_rows(table: PrivateTable, made: Path, contract: Contract):
    scores = found(table, made, contract, "sex").scores
    assert set(scores.accuracies) == {"decision tree", "support vector machine", "xgboost"}
    assert all(accuracy * 4 in range(5) for accuracy in scores.accuracies.values())


def test_each_score_has_its_yardsticks_and_the_bar_only_moves_on(tmp_path: Path, contract: Contract):
    """Rows that follow a rule: made-up ones that follow it too score like a bootstrap; the page shows both beside."""
    lines = [f"{20 + 10 * (i % 3)},{'FM'[i % 3 > 0]},10.5,2021-03-01" for i in range(600)]
    table = take_in(write_csv(tmp_path, *lines), contract, tmp_path)
    made = tmp_path / "like.parquet"
    ages = [20 + 10 * (i % 3) for i in range(600)]
    columns = {"age": ages, "sex": ["F" if age == 20 else "M" for age in ages], "wage": [10.5] * 600}
    parquet.write_table(pa.table({**columns, "since": ["2021-03-01"] * 600}), made)
    moved: list[float] = []

    class Bar:
        def advance(self, fraction: float, doing: str = "") -> None:
            moved.append(fraction)

        def outcome(self, passed: bool) -> None: ...

    class Reporter:
        def begin(self, name: str) -> Bar:
            return Bar()

        def end(self, name: str, *, ok: bool) -> None: ...

    progress.watch(Reporter())
    try:
        scores = found(table, made, contract, "sex").scores
    finally:
        progress.watch(None)
    assert moved == sorted(moved)
    assert len(moved) >= 9
    assert moved[-1] <= 1
    assert scores.majority == pytest.approx(2 / 3)
    assert scores.learned_from_real["decision tree"] == scores.accuracies["decision tree"] == 1
    assert set(scores.yardsticks) == {"bootstrap", "independent columns"}
    assert yardsticks(scores, "accuracy, decision tree") == ("1.0000", "0.6667")
    near, far = (float(text) for text in yardsticks(scores, "2-way error"))
    assert scores.errors[2].mean == 0 < near < far
    assert yardsticks(scores, "mutual information error [nats]")[1] > "0.01"
    assert yardsticks(scores, "pMSE ratio, logistic regression")[0]
    page = scores_page(PrivateScores(scores), release="town", version=3)
    assert "majority class" in page
    assert f"independent columns: {far:.4f}" in page


def test_a_support_vector_machine_learns_from_some_rows_of_very_many():
    """Half of the rows are drawn, the same each time; the others learn from all."""
    codes = np.stack([np.random.default_rng(1).integers(0, 2, 400)] * 2, axis=1)
    rows = EncodedRows(("a", "b"), (2, 2), codes)
    done: list[str] = []
    assert accuracies(rows, rows, target="b", most=50, after=done.append) == dict.fromkeys(LEARNERS, 1.0)
    assert done == list(LEARNERS)
    assert len(_some(rows, 50).codes) == 50
    assert (_some(rows, 50).codes == _some(rows, 50).codes).all()


def test_no_number_is_logged(table: PrivateTable, made: Path, contract: Contract, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.DEBUG):
        found(table, made, contract)
    said = [record.getMessage() for record in caplog.records if record.name == "tasks.evaluate"]
    assert said == ["evaluated made-up rows of 4 columns against a snapshot"]


def test_some_columns_are_compared_where_the_version_has_no_others(
    table: PrivateTable, made: Path, contract: Contract, tmp_path: Path
):
    narrow = tmp_path / "two.parquet"
    parquet.write_table(pa.table({name: MADE[name] for name in ("age", "sex")}), narrow)
    scores = found(table, narrow, contract, columns=("age", "sex")).scores
    assert scores.columns == ("age", "sex")
    assert scores.errors[1].distances == (0, 0.5)


def test_scores_are_written_into_the_workspace_for_their_owner_alone_and_never_over_a_file(
    table: PrivateTable, made: Path, contract: Contract, tmp_path: Path
):
    scores, workspace = found(table, made, contract), Workspace.create(tmp_path / "w")
    files = written(scores, workspace)
    assert files.numbers == workspace.private / "evaluations" / "town-v1-20260304T050607Z" / "scores.json"
    for file in (files.numbers, files.page):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    for folder in (files.numbers.parent, files.numbers.parent.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    content = json.loads(files.numbers.read_text())
    assert (content["class"], content["release"], content["version"]) == ("private", "town", 1)
    assert content["alpha_way_error"]["1"]["by_marginal"][1] == {"columns": ["sex"], "error": 0.5}
    before = files.numbers.read_bytes()
    again = written(scores, workspace)
    assert again.numbers.parent.name == "town-v1-20260304T050608Z"
    assert files.numbers.read_bytes() == before


def test_a_release_name_that_a_stranger_wrote_leads_nowhere_else(
    table: PrivateTable, made: Path, contract: Contract, tmp_path: Path
):
    """The name comes out of a record; one with a path in it stays inside the private folder."""
    workspace = Workspace.create(tmp_path / "w")
    files = written(found(table, made, contract), workspace, "../../releases/town/<i>")
    assert files.numbers.parent.parent == workspace.private / "evaluations"
    assert "<i>" not in files.page.read_text()
    assert list(workspace.releases.iterdir()) == []


@pytest.mark.parametrize("sign", ["MANIFEST.json", "record.json", "latest", "store", "staging"])
def test_no_score_gets_into_a_release_store(
    table: PrivateTable, made: Path, contract: Contract, tmp_path: Path, sign: str
):
    """Not through a link into a version, into the store, or into what is being staged; not where a version lies."""
    scores, workspace = found(table, made, contract), Workspace.create(tmp_path / "w")
    version = workspace.releases / "town" / (".staging-v2" if sign == "staging" else "v1")
    version.mkdir(parents=True)
    evaluations = workspace.private / "evaluations"
    evaluations.symlink_to(workspace.releases if sign == "store" else version, target_is_directory=True)
    with pytest.raises(Refused, match="a link to"):
        written(scores, workspace)
    evaluations.unlink()
    if sign == "store":
        with pytest.raises(Refused, match="inside the store"):
            written(scores, replace(workspace, releases=workspace.private))
    elif sign != "staging":
        evaluations.mkdir()
        (evaluations / sign).touch()
        with pytest.raises(Refused, match="inside the store"):
            written(scores, workspace)
        (evaluations / sign).unlink()
    assert [path for path in workspace.releases.rglob("*") if path.is_file()] == []
    assert list(workspace.private.rglob("scores.*")) == []


def test_the_page_says_that_it_is_private_and_shows_every_kind_of_score(
    table: PrivateTable, made: Path, contract: Contract
):
    page = scores_page(found(table, made, contract, "sex"), release="town", version=3)
    for told in ("PRIVATE", "for the auditor alone", "town v3", "2-way error: 0.2500", "decision tree", "age × sex"):
        assert told in page
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")


def test_no_score_gets_where_a_store_was_put_into_the_private_folder(
    table: PrivateTable, made: Path, contract: Contract, tmp_path: Path
):
    """Whatever lies in a store may be handed on with it, whoever put it there."""
    scores, workspace = found(table, made, contract), Workspace.create(tmp_path / "w")
    for store in (workspace.private, workspace.private / "evaluations"):
        version = store / "town" / "v1"
        version.mkdir(parents=True)
        (version / "MANIFEST.json").touch()
        with pytest.raises(Refused, match="inside the store"):
            written(scores, workspace)
        (version / "MANIFEST.json").unlink()
    assert list(workspace.private.rglob("scores.*")) == []
    assert written(scores, workspace).numbers.exists()


def test_what_cannot_be_compared_is_refused(table: PrivateTable, made: Path, contract: Contract, tmp_path: Path):
    with pytest.raises(Refused, match="another contract than the snapshot's"):
        found(replace(table, contract_digest="0" * 64), made, contract)
    with pytest.raises(Refused, match="one of age, sex"):
        found(table, made, contract, "height")
    with pytest.raises(Refused, match="the only one"):
        found(table, made, contract, "age", ("age",))
    narrow = tmp_path / "narrow.parquet"
    parquet.write_table(pa.table({"age": [1]}), narrow)
    with pytest.raises(Refused, match="no such column"):
        found(table, narrow, contract)
    empty = tmp_path / "empty.parquet"
    parquet.write_table(pa.table(MADE)[:0], empty)
    with pytest.raises(Refused, match="at least one row"):
        found(table, empty, contract)
