"""Private scores of a released model on the rows: what is computed, what is refused; nothing shows unasked."""

import pickle
from pathlib import Path

import duckdb
import numpy as np
import pytest

from contracts.errors import Refused, SpecRefused
from privacy.evaluation.membership import model_scores
from privacy.private_table import PrivateTable
from tasks.evaluation.classifier_scores import evaluate_model, published_classifier
from tasks.products.version_records import kind_of, published_classifier_record, published_record
from tests.tasks.verification.forgery import edit
from tests.worlds.classifiers import learning_first
from tests.worlds.tables import KEYED_HASH
from tests.worlds.versions import Version, publish_version


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Version]:
    folder = tmp_path_factory.mktemp("scored")
    return folder, publish_version(learning_first(), folder)


def test_a_model_s_scores_are_those_of_its_answers_on_the_rows(place: tuple[Path, Version]):
    """Counted again from the codes; and nothing of it is shown or leaves the process."""
    folder, version = place
    record, meaning = published_classifier_record(version.folder)
    model = published_classifier(version.folder, record, meaning)
    table = PrivateTable(folder / "snapshot.duckdb", KEYED_HASH, meaning.contract.digest, "stays.parquet")
    scores = evaluate_model(table, model, meaning, others=None, memory_limit="1GB")
    with duckdb.connect(str(table.path), read_only=True) as connection:
        names = ", ".join(f'"{name}"' for name in meaning.names)
        codes = np.array(connection.execute(f"SELECT {names} FROM codes").fetchall()).astype(np.uint8)
    true, told = codes[:, meaning.names.index("ward")], model.cells(codes)
    assert scores.accuracy == pytest.approx((true == told).mean())
    assert scores.membership is None
    assert sum(scores.recalled.values()) > 0
    assert "auditor" in repr(scores)
    with pytest.raises(TypeError, match="auditor"):
        pickle.dumps(scores)
    other = PrivateTable(table.path, KEYED_HASH, "0" * 64, "stays.parquet")
    with pytest.raises(Refused, match="another contract"):
        evaluate_model(other, model, meaning, others=None, memory_limit="1GB")


def test_a_version_of_a_model_has_no_rows_and_weights_out_of_range_are_refused(
    place: tuple[Path, Version], tmp_path: Path
):
    version = place[1].copy(tmp_path / "v")
    assert kind_of(version.folder) == "classifier"
    with pytest.raises(SpecRefused, match="a release of kind synthetic"):
        published_record(version.folder)
    edit(
        version.folder / "record.json",
        lambda record: record["replay"]["model"].update(range=["-0.01", "0.01", "-1.0", "1.0"]),
    )
    record, meaning = published_classifier_record(version.folder)
    with pytest.raises(SpecRefused, match=r"outside of the range -0\.01 to 0\.01"):
        published_classifier(version.folder, record, meaning)


def test_members_are_told_where_a_model_knows_its_rows_by_heart():
    sure, unsure = np.tile([0.01, 0.99], (50, 1)), np.tile([0.4, 0.6], (50, 1))
    labels = np.ones(50, dtype=np.int64)
    found = model_scores(sure, labels, column="ward", cells=("a", "b"), others=(unsure, labels))
    assert found.membership is not None
    assert found.membership.area == 1.0
    same = model_scores(sure, labels, column="ward", cells=("a", "b"), others=(sure, labels))
    assert same.membership is not None
    assert same.membership.area == 0.5
    assert (found.accuracy, found.f_measure, dict(found.recalled)) == (1.0, 1.0, {"b": 1.0})
    assert found.to_json()["membership"]["area"] == 1.0
