"""What `sudare plan` says of counts inside bins: their cost, and what noise does to ranks and means."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from console.products.synthetic import SyntheticProductView
from privacy.generators.calibration import FittedPlan
from tests.worlds.synthetic_rows import aim, looked_into

PUBLIC = (
    "{unit: {kind: row, scope: block}, adjacency: replace_one, ZEROS, CONSTRAINTS, "
    'invariants: [{kind: total, value: 3000, reference: "yearbook"}]}'
)


def test_a_plan_shows_the_share_and_the_expected_errors(tmp_path: Path) -> None:
    """A fifth of the charge; a line for each column, its mean over rows that are not known."""
    spec, _, plan, ledger = looked_into().prepared_of(tmp_path, FittedPlan)
    ledger.close()
    view = SyntheticProductView()
    payload = json.loads(json.dumps(view.plan_object(spec, plan)))
    assert list(payload["inside_bins"]) == ["age", "arrived", "left", "bill"]
    assert all(set(error) == {"sum", "rank"} for error in payload["inside_bins"].values())
    (step, *_) = payload["steps"]
    assert (step["what"], step["draws"], round(step["share"], 6)) == ("counts inside bins", 4, 0.2)
    lines = [words for name, words in view.plan_facts(payload) if name in ("inside bins", "")]
    assert [line.partition(":")[0] for line in lines] == ["age", "arrived", "left", "bill"]
    assert all("ranks of quantiles ±" in line and ", sum ±" in line for line in lines)


def test_with_a_public_number_of_rows_the_error_of_the_mean_is_told(tmp_path: Path) -> None:
    scenario = replace(looked_into(), privacy=PUBLIC, release="public")
    spec, _, plan, ledger = scenario.prepared_of(tmp_path, FittedPlan)
    ledger.close()
    payload = SyntheticProductView().plan_object(spec, plan)
    for error in payload["inside_bins"].values():
        assert error["mean"] == pytest.approx(error["sum"] / 3000)


def test_more_noise_for_a_smaller_share(tmp_path: Path) -> None:
    """Errors fall as the root of the share of a zCDP budget."""
    ranks = []
    for number, share in enumerate(("0.1", "0.4")):
        product = f"{{kind: synthetic, generator: mst, inside_bins: {{share: {share}}}}}"
        scenario = replace(looked_into(), product=product)
        _, _, plan, ledger = scenario.prepared_of(tmp_path / str(number), FittedPlan)
        ledger.close()
        ranks.append(plan.plan.inside_error["bill"].rank)
    # The charge is calibrated for each plan by itself: a few per cent remain.
    assert ranks[0] / ranks[1] == pytest.approx(2, rel=0.05)


def test_a_plan_without_them_says_nothing_of_them(tmp_path: Path) -> None:
    spec, _, plan, ledger = aim().prepared_of(tmp_path, FittedPlan)
    ledger.close()
    payload = SyntheticProductView().plan_object(spec, plan)
    assert "inside_bins" not in payload
    assert not [name for name, _ in SyntheticProductView().plan_facts(payload) if name == "inside bins"]
