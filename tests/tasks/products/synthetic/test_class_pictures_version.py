"""A version of deformed pictures: verified, fitted again, and other deformations found out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.verify import verify
from tests.tasks.products.synthetic.test_pictures import refusals
from tests.tasks.verification.forgery import edit, forge, load
from tests.worlds.pictures import PictureScenario, TwoPictureScenario
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


def test_rows_of_two_columns_of_pictures_follow_from_the_published_model(worlds: Worlds) -> None:
    """Named against the alphabet, which is the order of keys in the published model."""
    version = worlds.published(TwoPictureScenario(product=PRODUCT))
    assert list(load(version.folder / MODEL)["values"]["deformations"]) == ["back", "picture"]
    report = verify(version.folder, public_key=version.key, deep=True)
    assert report.ok, report.findings


@pytest.mark.parametrize(
    ("options", "charge", "message"),
    [
        (
            "{label: nope}",
            "1e-9",
            "product.options.label\n    found: options.label: 'nope' is not among the columns\n    allowed: one of",
        ),
        ("{label: shape, spin: 1}", "1e-9", "one of label, dimensions, frequencies, clip, deform"),
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
