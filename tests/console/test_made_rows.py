"""What is said of made-up rows: in the plan of counts inside bins, and how many there are in the last words."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from console.products.synthetic import SyntheticProductView
from console.run import _print
from privacy.accounting.amounts import budget_used
from privacy.generators.calibration import FittedPlan
from tests.worlds.synthetic_rows import aim, looked_into

README = Path(__file__).resolve().parents[2] / "README.md"
OUTCOME: dict[str, Any] = {
    **{"release": "few", "version": 1, "status": "published", "repeated": False, "copy": None},
    **{"epsilon": "1", "delta": "0", "account": "few", "epsilon_cap": "3", "account_delta": "0"},
    **{"also_charged": (), "can_give": None, "public_key_file": "key.pub", "used": "67 % of the budget is used"},
    **{"charged": "1", "remaining": "1", "cap": "3", "loss": "ε"},
}


def _version(folder: Path, replay: dict[str, Any]) -> Path:
    (folder / "record.json").write_text(json.dumps({"replay": {"product": {}, "draws": [], **replay}}))
    return folder


def _said(folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    _print(Console(width=200), {**OUTCOME, "folder": str(folder)})
    return capsys.readouterr().out


def test_the_number_of_made_up_rows_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """As the record states it, with the parents of linked tables."""
    parents = {"table": "household", "number": 950}
    said = _said(_version(tmp_path, {"rows": {"number": 2400, "parents": parents}}), capsys)
    assert "made-up rows  2,400, 950 of household" in said
    assert "!" not in said


def test_no_made_up_row_is_said_aloud(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """A header alone is published and charged: the noise is above the table."""
    said = _said(_version(tmp_path, {"rows": {"number": 0, "parents": None}}), capsys)
    assert "made-up rows  0\n" in said
    assert "! No made-up row is published: the noise is above the table." in said
    assert "sudare plan" in said


def test_the_one_loss_is_the_claim_and_the_one_share_what_is_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """No second ε stands next to the claim: caps, units and what still fits are for `--exact`."""
    said = _said(tmp_path, capsys)
    assert said.count("ε = ") == 1
    assert "account   few: 67 % of the budget is used\n" in said
    _print(Console(width=200), {**OUTCOME, "folder": str(tmp_path)}, exact=True)
    exact = capsys.readouterr().out
    assert "cap             ε = 3 at δ = 0\n" in exact
    assert "can still give  nothing more of this kind\n" in exact


def test_the_readme_shows_what_a_run_says(capsys: pytest.CaptureFixture[str]):
    """Line by line, down to the account; ε = 1 under a cap of 3 is 33.4 % of the budget, rounded up."""
    [shown] = re.findall(r"^adult-tables v1 is published\n(?:\w+ .*\n)+", README.read_text("utf-8"), re.MULTILINE)
    told = {"release": "adult-tables", "account": "adult-1994", "used": budget_used(1, 3)}
    _print(Console(width=200), {**OUTCOME, **told, "folder": "build/demo/releases/adult-tables/v1"})
    assert capsys.readouterr().out.startswith(shown)


@pytest.mark.parametrize("replay", [{}, {"rows": None}, {"rows": [1]}])
def test_other_kinds_say_nothing_of_made_up_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], replay: dict[str, Any]
):
    assert "made-up" not in _said(_version(tmp_path, replay), capsys)


def test_a_version_whose_record_is_gone_says_nothing_of_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert "made-up" not in _said(tmp_path, capsys)


PUBLIC = (
    "{unit: {kind: row, scope: block}, adjacency: replace_one, ZEROS, CONSTRAINTS, "
    'invariants: [{kind: total, value: 3000, reference: "yearbook"}]}'
)


def test_a_plan_shows_the_share_and_the_expected_errors(tmp_path: Path):
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


def test_with_a_public_number_of_rows_the_error_of_the_mean_is_told(tmp_path: Path):
    scenario = replace(looked_into(), privacy=PUBLIC, release="public")
    spec, _, plan, ledger = scenario.prepared_of(tmp_path, FittedPlan)
    ledger.close()
    payload = SyntheticProductView().plan_object(spec, plan)
    for error in payload["inside_bins"].values():
        assert error["mean"] == pytest.approx(error["sum"] / 3000)


def test_more_noise_for_a_smaller_share(tmp_path: Path):
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


def test_a_plan_without_them_says_nothing_of_them(tmp_path: Path):
    spec, _, plan, ledger = aim().prepared_of(tmp_path, FittedPlan)
    ledger.close()
    payload = SyntheticProductView().plan_object(spec, plan)
    assert "inside_bins" not in payload
    assert not [name for name, _ in SyntheticProductView().plan_facts(payload) if name == "inside bins"]
