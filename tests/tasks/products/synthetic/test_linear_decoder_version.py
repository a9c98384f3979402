"""A version whose decoder is made of sums alone: verified, fitted again, and no other decoder can be named."""

from __future__ import annotations

import pytest

from privacy.generators.linear_decoder import ASKED_FOR
from tests.tasks.verification.forgery import forge, load
from tests.worlds.pictures import PictureScenario
from tests.worlds.versions import Version, Worlds

PRODUCT = "{kind: synthetic, generator: p3gm, options: {label: shape, rows_about: 200, decoder: linear}}"


@pytest.fixture(scope="module")
def published(worlds: Worlds) -> Version:
    return worlds.published(PictureScenario(product=PRODUCT, release="linear"))


@pytest.mark.long
def test_a_version_that_was_not_trained_says_so_verifies_and_is_fitted_again(published: Version) -> None:
    assert ASKED_FOR in load(published.folder / "record.json")["replay"]["notes"]
    assert not list(published.folder.glob("measurements/*checkpoint*"))
    published.assert_verifies(deep=True)


def test_the_record_says_that_no_metric_was_computed_on_counts(published: Version) -> None:
    """The record said that they came of the noise of 0 draws."""
    said = {each["metric"]: each["computed_on"] for each in published.words["utility.computed_on"]}
    sums = len(load(published.folder / "record.json")["replay"]["draws"])
    nothing = f"nothing: no cells of a table were counted; drawn were {sums} noisy sums over rows"
    assert said["expected_error"] == said["error_against_noisy"] == nothing


@pytest.mark.long
def test_sums_alone_need_no_coin_for_each_row(worlds: Worlds) -> None:
    """Rows that are exchanged move each of these sums by a known amount, and no training is there to refuse them."""
    privacy = "{unit: {kind: row, scope: block}, adjacency: replace_one}"
    version = worlds.published(PictureScenario(product=PRODUCT, release="linear", privacy=privacy))
    version.assert_verifies(deep=True)


def test_another_choice_of_the_decoder_is_found_out(version: Version) -> None:
    """A training charges other events than sums alone."""

    def trained(record: dict) -> None:
        record["replay"]["product"]["options"]["decoder"] = "trained"

    forge(version, record=trained)
    report = version.verify()
    assert "replay.product.generator" in {finding.field for finding in report.findings}, report.findings
