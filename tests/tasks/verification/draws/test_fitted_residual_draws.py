"""Residuals that a fit drew: a version with them is checked, deep too, and one that understates them is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.tasks.verification.forgery import Json, as_forged, forge
from tests.worlds.synthetic_rows import SyntheticScenario, aim
from tests.worlds.versions import Worlds


def factors(generator: str = "latent_factors") -> SyntheticScenario:
    return replace(aim(), product=f"{{kind: synthetic, generator: {generator}}}", release="factors")


@pytest.mark.long
@pytest.mark.parametrize("generator", ["latent_factors", "gaussian_copula"])
def test_a_version_of_residuals_holds_and_its_fit_made_again_comes_to_its_model(
    worlds: Worlds, generator: str
) -> None:
    """All numbers in one file; nothing of generator or options is left as the publisher's word. The copula has a sum
    over rows besides.
    """
    version = worlds.published(factors(generator), here=True)
    report = version.verify(deep=True)
    assert report.ok, report.findings
    assert "replay.product.generator" not in report.word
    assert [name for name in report.word if name.startswith("replay.product.options")] == ["replay.product.options"]
    assert (version.folder / "measurements" / "residuals.parquet").is_file()


@pytest.mark.long
def test_moves_that_are_not_the_worst_neighbours_are_refused(worlds: Worlds, tmp_path: Path) -> None:
    version = as_forged(worlds.published(factors(), here=True).copy(tmp_path / "v"))

    def change(record: Json) -> None:
        moves = record["replay"]["draws"][0]["event"]["moves"]
        record["replay"]["draws"][0]["event"]["moves"] = moves[:1]

    forge(version, record=change)
    assert "replay.draws[0].event.moves" in {finding.field for finding in version.verify().findings}
