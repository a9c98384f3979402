"""What the console shows of a plan with survey weights: what a large weight costs, and where a lower clip pays."""

from __future__ import annotations

import io
import json
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from console.products.statistics import StatisticsProductView
from privacy.statistics.plan import StatisticsPlan
from tests.worlds.statistics import of_tables

WEIGHT = "{column: bill, clip: [0, 400], step: 2.5}"
TABLES = (
    f"[{{by: [ward], of: [count, {{mean: age}}], survey_weight: {WEIGHT}}}, {{by: [floor], of: [{{mean: age}}]}}]"
)


def shown(folder: Path, tables: str = TABLES) -> tuple[dict[str, Any], str]:
    folder.mkdir()
    spec, _, plan, ledger = of_tables(tables).prepared_of(folder, StatisticsPlan)
    ledger.close()
    view = StatisticsProductView()
    payload = json.loads(json.dumps(view.plan_object(spec, plan)))
    printed = io.StringIO()
    view.print_draws(Console(file=printed, width=160), payload)
    return payload, printed.getvalue()


def test_a_plan_tells_what_a_large_weight_costs(tmp_path: Path) -> None:
    """At the clip, a half and a quarter of it; each is what a plan with that clip says of a count."""
    payload, printed = shown(tmp_path / "400")
    weighed, plain = payload["statistics"]
    assert "survey_weight" not in plain
    costs = {each["clip"]: each["half_width_95"] for each in weighed["survey_weight"]["counts"]}
    assert list(costs) == ["400", "200", "100"]
    for clip, width in costs.items():
        (first, _), _ = shown(tmp_path / f"to {clip}", TABLES.replace("[0, 400]", f"[0, {clip}]"))[0]["statistics"], 0
        (count, *_) = first["expected"]
        assert (count["statistic"], count["half_width_95"]) == ("count", pytest.approx(width, rel=1e-6))
    (line,) = [line for line in printed.splitlines() if "up to 200" in line]
    width, less = (float(part.replace(",", "")) for part in re.findall(r"±?([\d,.]*\d)(?=, which| of a cell)", line))
    assert width == pytest.approx(costs["200"], rel=0.01)
    assert less == pytest.approx(costs["400"] - costs["200"], rel=0.01)
    assert "ward: bill up to 400 hides a whole weight" in printed


def test_means_are_foretold_for_cells_of_a_weight(tmp_path: Path) -> None:
    """Weights reach the hundreds, so that cells of 10,000 people and more are told."""
    payload, printed = shown(tmp_path / "400")
    weighed, plain = payload["statistics"]
    found = [each for each in weighed["expected"] if each["statistic"] == "mean_age"]
    assert [each["rows"] for each in found] == [10_000, 100_000, 1_000_000]
    assert "weight 10,000" in printed
    other = [each for each in plain["expected"] if each["statistic"] == "mean_age"]
    assert [each["rows"] for each in other] == [100, 1000, 10_000]
    # 400 times the noise over 100 times the size.
    for some, each in zip(found, other, strict=True):
        assert some["half_width_95"] == pytest.approx(4 * each["half_width_95"], rel=0.01)


@pytest.mark.parametrize("of", ["count", "{quantiles: [0.5], of: age}", "{mean: age}"])
def test_half_the_clip_has_half_the_noise(tmp_path: Path, of: str) -> None:
    """Whatever the counts come of: the weight alone, a tree, or sums."""
    (table,) = shown(tmp_path / "t", f"[{{by: [ward], of: [{of}], survey_weight: {WEIGHT}}}]")[0]["statistics"]
    widths = [each["half_width_95"] for each in table["survey_weight"]["counts"]]
    assert widths == pytest.approx([widths[0], widths[0] / 2, widths[0] / 4], rel=0.05)


def test_a_weight_of_one_step_has_no_lower_clip(tmp_path: Path) -> None:
    weight = "{column: bill, clip: [0, 400], step: 400}"
    (table,) = shown(tmp_path / "t", f"[{{by: [ward], of: [count], survey_weight: {weight}}}]")[0]["statistics"]
    assert [each["clip"] for each in table["survey_weight"]["counts"]] == ["400"]


def test_a_plan_foretells_an_effective_size_and_what_it_costs(tmp_path: Path) -> None:
    """One draw more than the same table without it; the half width is of weights at a quarter of their clip."""
    without = f"[{{by: [ward], of: [count], survey_weight: {WEIGHT}}}]"
    (plain, _), (payload, printed) = (
        shown(tmp_path / "without", without),
        shown(tmp_path / "with", without.replace("[count]", "[count, {mean: age}, {effective_size: bill}]")),
    )
    assert [len(each["draws"]) for each in (plain, payload)] == [1, 2]
    (table,) = payload["statistics"]
    (size,) = [each for each in table["expected"] if each["statistic"] == "effective_size_bill"]
    (draw,) = [each for each in payload["draws"] if each["key"] == "table:ward/bill"]
    assert draw["event"]["moves"] == [160 * 160]
    # Two Laplace noises of scale b, each 8 times over 160 squared: 8 b z / 160^2 with exp(-z) (1 + z / 2) = 3.5 %.
    scale = 1 / Fraction(draw["event"]["inverse_scale"]) / 160**2
    assert size["half_width_95"] == pytest.approx(float(8 * scale) * 4.5367, rel=0.01)
    assert "rows" not in size
    assert "weights at a quarter of their clip" in printed
