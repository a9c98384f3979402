"""Votes for candidates that a fit drew: a version with them is checked, deep too, and what is forged is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tasks.verify import verify
from tests.worlds.synthetic_rows import SyntheticScenario, aim
from tests.worlds.versions import Worlds

OPTIONS = "{label: ward, population: 60, rounds: 7, seed: 3}"


def evolved(options: str = OPTIONS) -> SyntheticScenario:
    product = f"{{kind: synthetic, generator: private_evolution, options: {options}}}"
    return replace(aim(), product=product, release="evolved")


@pytest.mark.parametrize("options", [OPTIONS, "{population: 60, rounds: 3, children: 0}"])
def test_a_version_of_votes_holds_and_its_fit_made_again_is_its_model(worlds: Worlds, options: str) -> None:
    """Votes have a file each; nothing of generator or options is left as the publisher's word."""
    version = worlds.published(evolved(options), here=True)
    report = verify(version.folder, public_key=version.key, deep=True)
    assert report.ok, report.findings
    assert not {"replay.product.generator", "replay.product.options"} & set(report.word)
    assert (version.folder / "measurements" / "votes-0001.parquet").is_file()
