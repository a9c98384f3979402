"""Claims by a loss distribution: verified by code of its own, and refused where its publisher made them too small."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from privacy.accounting.amounts import PICO, atto_to_text
from tasks.verification.recompute.loss import recompute
from tasks.verify import UnverifiedVersion
from tests.tasks.verification.forgery import load
from tests.worlds.classifiers import ModelScenario
from tests.worlds.versions import Version, publish_version

TERMS = "rows_about: 3000, epochs: 1, checkpoints: 1, reserve: 0, batch: 200"


@dataclass
class Claiming(ModelScenario):
    """A training whose publisher's own program claims a part of what its noise loses, everywhere, and signs it."""

    product: str = f"{{kind: classifier, trainer: dp_sgd, label: ward, options: {{{TERMS}}}}}"
    claims: Fraction = Fraction(1)

    def prepared_of(self, folder: Path, kind: Any) -> Any:
        spec, contract, plan, ledger = super().prepared_of(folder, kind)
        assert plan.claimed_by == "pld"
        return spec, contract, replace(plan, epsilon=int(plan.epsilon * self.claims)), ledger


def published(claims: Fraction, folder: Path) -> tuple[Version, float, float]:
    """A version; the epsilon that it claims, and the one that Rényi losses alone give."""
    version = publish_version(Claiming(claims=claims), folder)
    replay = load(version.folder / "record.json")["replay"]
    events = [draw["event"] for draw in replay["draws"]]
    renyi = recompute(events, atto_to_text(replay["claim"]["delta"]), replay["calculus"]).epsilon_best
    assert renyi is not None
    return version, replay["claim"]["epsilon"] / PICO, float(renyi)


@pytest.mark.long
def test_a_claim_that_only_the_loss_distribution_keeps_verifies(tmp_path: Path) -> None:
    version, claimed, renyi = published(Fraction(1), tmp_path)
    assert claimed < 0.99 * renyi
    version.assert_verifies()


@pytest.mark.long
@pytest.mark.parametrize("part", [Fraction(99, 100), Fraction(1, 2)])
def test_a_claim_below_what_the_loss_distribution_keeps_is_refused(tmp_path: Path, part: Fraction) -> None:
    """Every file, digest, journal entry and signature would be right; the check before publication finds it."""
    with pytest.raises(UnverifiedVersion) as refused:
        published(part, tmp_path)
    first, finding = refused.value.findings
    assert first.found == "broken rules: 7 (costs and ε recomputed from the events)"
    assert (finding.where, finding.field) == ("record.json", "replay.claim.epsilon")
    assert "recomputed from the events" in finding.allowed
