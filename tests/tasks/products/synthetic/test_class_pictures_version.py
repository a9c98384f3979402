"""A version of deformed pictures: verified, fitted again, and other deformations found out."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from contracts.errors import SpecRefused
from flows.evaluation.evaluate import evaluate_version
from privacy.generators.class_pictures import DeformedDecoder
from tasks.sample import published_model
from tasks.storage.workspace.settings import Workspace
from tests.tasks.products.synthetic.test_pictures import refusals
from tests.tasks.verification.forgery import edit, forge, load
from tests.worlds.pictures import PictureScenario, TwoPictureScenario, as_table, drawn
from tests.worlds.versions import Version, Worlds, broken

MODEL = Path("model") / "model.json"
PRODUCT = "{kind: synthetic, generator: class_pictures, options: {label: shape, dimensions: 8, frequencies: 12}}"


@pytest.fixture(scope="module")
def published(worlds: Worlds) -> Version:
    return worlds.published(PictureScenario(product=PRODUCT))


@pytest.mark.long
def test_a_version_of_deformed_pictures_verifies_and_is_fitted_again(published: Version) -> None:
    stated = load(published.folder / MODEL)
    assert stated["kind"] == "deformed_decoder"
    assert stated["values"]["deformations"]["picture"]["height"] == 5
    published.assert_verifies(deep=True)


def test_other_deformations_than_the_spec_says_are_found_out(version: Version) -> None:

    def lean(model: dict) -> None:
        model["values"]["deformations"]["picture"]["turn"] += 1000

    edit(version.folder / MODEL, lean)
    forge(version)
    # 9: the rows do not follow from the model; 11: the model does not follow from the sums.
    assert {9, 11} <= broken(version.verify(deep=True))


@pytest.mark.long
def test_a_version_of_split_labels_verifies_and_is_fitted_again(worlds: Worlds, tmp_path: Path) -> None:
    """Five draws, each round's groups named by a digest of the mixture before; fewer rounds are other events."""
    product = PRODUCT.replace("dimensions: 8", "dimensions: 4, components: 4")
    version = worlds.published(PictureScenario(product=product, rows=900))
    record = load(version.folder / "record.json")
    assert len([draw for draw in record["replay"]["draws"] if draw["kind"] == "sums"]) == 5
    model, _ = published_model(version.folder)
    assert isinstance(model, DeformedDecoder)
    assert model.labels.size > 3
    assert set(model.labels.tolist()) == {0, 1, 2}
    version.assert_verifies(deep=True)
    copy = version.copy(tmp_path / "v")

    def fewer(record: dict) -> None:
        record["replay"]["product"]["options"]["components"] = 2

    forge(copy, record=fewer)
    report = copy.verify()
    assert "replay.product.generator" in {finding.field for finding in report.findings}, report.findings


@pytest.mark.long
def test_rows_of_two_columns_of_pictures_follow_from_the_published_model(worlds: Worlds) -> None:
    """Named against the alphabet, which is the order of keys in the published model."""
    version = worlds.published(TwoPictureScenario(product=PRODUCT))
    assert list(load(version.folder / MODEL)["values"]["deformations"]) == ["back", "picture"]
    version.assert_verifies(deep=True)


def test_scores_of_pictures_are_refused_with_what_to_do(published: Version, tmp_path: Path) -> None:
    rows = tmp_path / "real.parquet"
    parquet.write_table(as_table(*drawn(20)), rows)
    workspace = Workspace.create(tmp_path / "place")
    with pytest.raises(SpecRefused, match=r"'picture', a column of pictures\n.*single values\n    do: train"):
        evaluate_version(published.folder, rows, target=None, workspace=workspace, at=datetime.now(UTC))


@pytest.mark.parametrize(
    ("options", "charge", "message"),
    [
        (
            "{label: nope}",
            "1e-9",
            "product.options.label\n    found: 'nope' is not among the columns\n    allowed: one of picture, shape",
        ),
        ("{label: shape, decoder: linear}", "1e-9", "do: drop it: it is an option of ae, p3gm"),
        ("{label: shape, dimension: 4}", "1e-9", "do: write 'dimensions' instead of 'dimension'"),
        ("{label: shape, spin: 1}", "1e-9", "one of label, dimensions, frequencies, clip, deform, components"),
        ("{label: shape, components: 17}", "1e-9", "a whole number from 1 to 16"),
        ("{label: shape, deform: 3}", "1e-9", "a number from 0 to 0.5\n    do: correct it, or drop it for 0.15"),
        (
            "{label: shape, clip: 1e-9}",
            "1e-9",
            "product.options.clip\n    found: '1e-9'\n    allowed: a number from 1e-06",
        ),
        ("{label: shape}", "0", "give the charge a delta"),
    ],
)
def test_options_that_mean_nothing_are_refused_by_the_spec(
    tmp_path: Path, options: str, charge: str, message: str
) -> None:
    product = f"{{kind: synthetic, generator: class_pictures, options: {options}}}"
    assert message in refusals(tmp_path, product, charge=charge)
