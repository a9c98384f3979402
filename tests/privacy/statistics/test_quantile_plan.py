"""Quantiles in a plan: shares, events and expected errors, all from public parameters."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from contracts.domains.trees import ValueTree
from contracts.release.statistics import statistics_product
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise
from privacy.statistics.plan import StatisticsDraw, StatisticsPlan, expected_errors
from privacy.statistics.quantiles import rank_bounds, tree_count_error
from tests.worlds.statistics import StatisticsScenario, gaussian, of_tables

BOTH = """[{by: [ward], of: [count, {mean: age}, {quantiles: [0.1, 0.5], of: age, method: tree},
  {quantiles: [0.9], of: bill, method: tree}]}]"""
ALONE = "[{by: [], of: [count, {quantiles: [0.25, 0.5], of: age, method: tree}]}]"


def planned(scenario: StatisticsScenario, folder: Path) -> tuple[StatisticsPlan, tuple[StatisticsDraw, ...]]:
    spec, _, plan, ledger = scenario.prepared_of(folder, StatisticsPlan)
    ledger.close()
    (table,) = statistics_product(spec.product).tables
    return plan, plan.of_table(table.name)


def test_each_column_of_quantiles_has_a_draw_and_a_share_of_its_own(tmp_path: Path) -> None:
    """However many quantiles there are; the events are those of a marginal for each level."""
    plan, draws = planned(of_tables(BOTH), tmp_path)
    assert [draw.key for draw in draws] == ["table:ward/age", "table:ward/quantiles/age", "table:ward/quantiles/bill"]
    assert {draw.share for draw in draws} == {Fraction(1, 3)}
    for draw in draws[1:]:
        tree = draw.addends
        assert isinstance(tree, ValueTree)
        assert isinstance(draw.event, DiscreteLaplace)
        assert isinstance(draw.noise, LaplaceNoise)
        assert draw.event.moves == (1,) * tree.levels
        assert draw.noise.epsilon * (1 - Fraction(1, 10**9)) <= draw.event.inverse_scale * tree.levels
        assert draw.event.inverse_scale * tree.levels <= draw.noise.epsilon
        assert draw.shape == (4, tree.parts)
    assert plan.epsilon <= 2 * 10**12


def test_gaussian_noise_pays_for_the_norm_of_a_row(tmp_path: Path) -> None:
    """Three rows of a unit are replaced: 2 L nodes move by 3, sigma^2 = 9 * 2 L / (2 rho), and not (2 L)^2."""
    scenario = replace(gaussian(), product=f"{{kind: statistics, mechanism: gaussian, tables: {ALONE}}}")
    _, (draw,) = planned(scenario, tmp_path)
    assert isinstance(draw.addends, ValueTree)
    assert isinstance(draw.event, DiscreteGaussian)
    assert isinstance(draw.noise, GaussianNoise)
    levels = draw.addends.levels
    assert draw.event.moves == (3,) * 2 * levels
    assert float(draw.event.sigma_squared) == pytest.approx(9 * levels / float(draw.noise.rho))


def test_the_expected_error_is_the_largest_of_a_rank(tmp_path: Path) -> None:
    """At the last level; counts are those of sums where there are any, and of the tree where there are none."""
    for number, (tables, place) in enumerate(((BOTH, 1), (ALONE, 0))):
        scenario = of_tables(tables)
        spec, _, plan, ledger = scenario.prepared_of(tmp_path / str(number), StatisticsPlan)
        ledger.close()
        (table,) = statistics_product(spec.product).tables
        draws = plan.of_table(table.name)
        tree, event = draws[place].addends, draws[place].event
        assert isinstance(tree, ValueTree)
        errors = {each.statistic: each for each in expected_errors(table, draws)}
        bounds = rank_bounds(tree, table.of[-2 if number == 0 else -1].quantiles[1], event, 0.95)
        assert errors["q50_age"].half_width == float(np.max(bounds[-1]))
        assert errors["q50_age"].ranks
        assert not errors["count"].ranks
        of_tree = tree_count_error(tree, event=event, confidence=0.95)
        assert (errors["count"].half_width == of_tree) == (number == 1)
        assert errors["count"].half_width <= of_tree
