"""A version whose numbers entered by the places of their bins: verified, fitted again, and told from a scaled one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.tasks.verification.forgery import Json, as_forged, forge, load, told
from tests.worlds.synthetic_rows import aim
from tests.worlds.versions import Version, Worlds

PRODUCT = (
    "{kind: synthetic, generator: p3gm, columns: [ward, insured, bill], options: "
    "{label: ward, numbers: bins, labels: components, decoder: linear, rows_about: 3000}}"
)


@pytest.fixture(scope="module")
def published(worlds: Worlds) -> Version:
    return worlds.published(replace(aim(), product=PRODUCT, release="bills"), here=True)


@pytest.mark.long
def test_a_version_by_bins_says_so_verifies_and_is_fitted_again(published: Version) -> None:
    assert load(published.folder / "record.json")["replay"]["product"]["options"]["numbers"] == "bins"
    published.assert_verifies(deep=True)


@pytest.mark.parametrize("numbers", ["scaled", "auto"])
def test_another_way_to_enter_is_the_publishers_word_until_the_fit_is_made_again(
    published: Version, tmp_path: Path, numbers: str
) -> None:
    """Both have the same plan and the same sums; what stands for a bin in the model is another number."""
    version = as_forged(published.copy(tmp_path / "v"))

    def forged(record: Json) -> None:
        told(record, "software.code", "f" * 64)
        record["replay"]["product"]["options"]["numbers"] = numbers

    forge(version, record=forged).assert_verifies()
    report = version.verify(deep=True)
    assert [each.rule for each in report.checks if each.findings] == [11], report.findings
