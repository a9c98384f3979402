"""A version of deformed pictures: verified, fitted again, and other deformations found out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.verify import verify
from tests.tasks.verification.forgery import edit, forge, load
from tests.worlds.pictures import PictureScenario
from tests.worlds.versions import Version, Worlds, broken

MODEL = Path("model") / "model.json"
PRODUCT = "{kind: synthetic, generator: class_pictures, options: {label: shape, dimensions: 8, frequencies: 12}}"


@pytest.fixture(scope="module")
def published(worlds: Worlds) -> Version:
    return worlds.published(PictureScenario(product=PRODUCT))


def test_a_version_of_deformed_pictures_verifies_and_is_fitted_again(published: Version) -> None:
    stated = load(published.folder / MODEL)
    assert stated["kind"] == "deformed_decoder"
    assert stated["values"]["deformations"]["picture"]["height"] == 5
    report = verify(published.folder, public_key=published.key, deep=True)
    assert report.ok, report.findings


def test_other_deformations_than_the_spec_says_are_found_out(published: Version, tmp_path: Path) -> None:
    version = published.copy(tmp_path / "v")

    def lean(model: dict) -> None:
        model["values"]["deformations"]["picture"]["turn"] += 1000

    edit(version.folder / MODEL, lean)
    forge(version)
    # 9: the rows do not follow from the model; 11: the model does not follow from the sums.
    assert {9, 11} <= broken(verify(version.folder, public_key=version.key, deep=True))
