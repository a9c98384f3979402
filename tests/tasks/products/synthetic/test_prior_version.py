"""Versions that began with public rows: verified, fitted again, and forged choices and priors that are found."""

from __future__ import annotations

import pytest

from tasks.verify import verify
from tests.tasks.verification.forgery import load
from tests.worlds.public_priors import with_prior, with_prior_pure
from tests.worlds.versions import Version, Worlds


@pytest.fixture(scope="module")
def made(worlds: Worlds) -> Version:
    return worlds.published(with_prior())


def test_a_version_that_began_with_public_rows_is_fitted_again(made: Version) -> None:
    report = verify(made.folder, public_key=made.key, deep=True)
    assert report.ok, report.findings
    assert "model/prior.json" in made.files
    record = load(made.folder / "record.json")
    (choice,) = [draw for draw in record["replay"]["draws"] if draw["kind"] == "model_choice"]
    assert choice["key"] == "prior-choice"
    assert choice["index"] in (0, 1)
    assert record["replay"]["product"]["prior"]["counts_sha256"]


def test_laplace_noise_a_public_total_and_a_missing_column(worlds: Worlds) -> None:
    version = worlds.published(with_prior_pure())
    report = verify(version.folder, public_key=version.key, deep=True)
    assert report.ok, report.findings
