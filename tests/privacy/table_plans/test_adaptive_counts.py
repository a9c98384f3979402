"""Adaptive tables are planned without data, estimated by least squares, and their intervals hold for any choice."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from math import ceil, log
from typing import Any

import numpy as np
import pytest

from contracts.contract.contract import Contract
from contracts.release.adaptive.product import AdaptiveProduct
from privacy.accounting.amounts import ATTO, PICO
from privacy.accounting.convert import best_epsilon
from privacy.marginals.group_levels import level_starts, level_sums
from privacy.table_plans.adaptive_counts import detail_counts, expected_widths
from privacy.table_plans.adaptive_plan import (
    AdaptiveTablePlan,
    expected_levels,
    level_variances,
    plan_adaptive,
)
from privacy.table_plans.choice_reach import LevelError, survival, uniform_reach
from tests.worlds.adaptive import of_wards

TABLE: dict[str, Any] = {
    "by": ["ward"],
    "adapt": {"share": 0.1, "levels": [[], ["insured"], ["insured", "floor"]], "thresholds": [40, 90]},
}


@pytest.fixture(scope="module")
def contract(tmp_path_factory: pytest.TempPathFactory) -> Contract:
    return of_wards().prepared_of(tmp_path_factory.mktemp("wards"), object)[1]


def planned(
    contract: Contract, *, epsilon: str = "1", mechanism: str = "gaussian", **changed: Any
) -> AdaptiveTablePlan:
    table = {**TABLE, "adapt": {**TABLE["adapt"], **changed}}
    product = AdaptiveProduct.model_validate({"kind": "adaptive", "mechanism": mechanism, "tables": [table]})
    (made,) = plan_adaptive(product, contract, epsilon=Decimal(epsilon), delta=Decimal("1e-9")).tables
    return made


def test_a_plan_splits_the_charge_as_written(contract: Contract) -> None:
    """Shares of weights and of totals; all draws together fit the epsilon"""
    tables = [TABLE, {**TABLE, "name": "more", "weight": 3, "adapt": {**TABLE["adapt"], "share": 0.25}}]
    product = AdaptiveProduct.model_validate({"kind": "adaptive", "tables": tables})
    plan = plan_adaptive(product, contract, epsilon=Decimal(1), delta=Decimal("1e-9"))
    assert [draw.share for draw in plan.draws] == [Fraction(1, 40), Fraction(9, 40), Fraction(3, 16), Fraction(9, 16)]
    whole = sum(draw.noise.rho for draw in plan.draws)
    for draw in plan.draws:
        assert abs(draw.noise.rho / whole - draw.share) < Fraction(1, 10**8)
    assert plan.epsilon <= PICO
    assert best_epsilon(plan.events, Fraction(plan.delta, ATTO))[0] * PICO <= plan.epsilon


def test_thresholds_follow_from_the_noise_the_cells_and_the_wanted_error(contract: Contract) -> None:
    """From a threshold on an average cell's 95 % interval is within the wanted share of it; twice as wide, half."""
    plan = planned(contract, thresholds="auto", relative_error="0.5")
    assert plan.thresholds == tuple(ceil(cells * plan.counts.half_width / 0.5) for cells in (3, 9))
    wider = planned(contract, thresholds="auto", relative_error="1")
    assert all(abs(one - 2 * other) <= 1 for one, other in zip(plan.thresholds, wider.thresholds, strict=True))
    assert planned(contract, epsilon="0.5", thresholds="auto").thresholds > plan.thresholds
    for level, least in zip(expected_levels(plan)[1:], plan.thresholds, strict=True):
        assert level.least == least
        assert 0.45 < (level.at_least or 0) <= 0.5


def test_a_noisy_total_at_the_threshold_gets_the_level(contract: Contract) -> None:
    """At or above; below it the level before; a negative total the first one."""
    chosen = planned(contract).chosen(np.array([-50, 39, 40, 89]))
    assert chosen.tolist() == [0, 0, 1, 1]
    assert planned(contract).chosen(np.array([90, 91, 10**9, 0])).tolist() == [2, 2, 2, 0]


def test_estimates_are_least_squares(contract: Contract) -> None:
    """Against the normal equations: total and cells of a group, before they are made whole; and their variances."""
    plan = planned(contract, epsilon="4")
    totals, counts = np.array([100, 7, 60, 120]), []
    chosen = plan.chosen(totals)
    random = np.random.default_rng(5)
    noisy = random.integers(20, 60, int(level_starts(plan.sizes, chosen)[-1]))
    made, starts = detail_counts(plan, totals, noisy), level_starts(plan.sizes, chosen)
    for group, cells in enumerate(np.diff(starts).tolist()):
        rows = np.vstack([np.ones(cells), np.eye(cells)])
        weights = np.diag([1 / plan.totals.variance, *[1 / plan.counts.variance] * cells])
        drawn = np.array([totals[group], *noisy[starts[group] : starts[group + 1]]])
        spread = np.linalg.inv(rows.T @ weights @ rows)
        counts.append(spread @ rows.T @ weights @ drawn)
        cell, total = level_variances(plan.totals.variance, plan.counts.variance, cells)
        assert cell == pytest.approx(spread[0, 0])
        assert total == pytest.approx(spread.sum())
    values = np.concatenate(counts)
    assert (np.abs(made.counts[0] - values) < 1).all()
    assert (np.abs(made.totals[0] - np.add.reduceat(values, starts[:-1])) <= 0.501).all()


def test_noise_too_small_for_a_float_leaves_the_counts_as_they_are(contract: Contract) -> None:
    """At the largest epsilon the variance of the noise is 0 as a float; nothing is divided by it."""
    plan = planned(contract, epsilon="1000", share="0.5")
    totals = np.array([100, 7, 60, 39])
    starts = level_starts(plan.sizes, plan.chosen(totals))
    noisy = np.concatenate(
        [np.full(size, total // size) for total, size in zip(totals, np.diff(starts), strict=True)]
    )
    made = detail_counts(plan, totals, noisy)
    assert (np.abs(made.totals[0] - totals) <= 9).all()
    assert (made.totals[1] <= made.totals[0]).all()
    assert all(0.5 <= width < 0.51 for width in expected_widths(plan))


def test_the_reach_of_one_level_is_that_of_a_normal_variable_and_of_two_the_worst_mixture() -> None:
    """One level: 1.96, whatever its part. Two that share nothing: both may miss, at most their sum."""
    assert uniform_reach((mixed(0.3),), 0.95, "gaussian") == pytest.approx(1.96, abs=0.002)
    both = (mixed(0.0), mixed(1.0))
    # 2 Q(z) + (1 - 2 Q(z)) 2 Q(z) = 0.05
    assert uniform_reach(both, 0.95, "gaussian") == pytest.approx(2.2365, abs=0.004)
    assert uniform_reach((mixed(0.5), mixed(0.9)), 0.95, "gaussian") > uniform_reach((mixed(0.5),), 0.95, "gaussian")


def mixed(part: float) -> LevelError:
    """An estimate of two noises."""
    return LevelError(part, (((1 - part**2) ** 0.5, 1),))


def test_the_reach_of_laplace_noise_is_that_of_its_sums() -> None:
    """One noise: log(20) / sqrt(2); many: 1.96. Two levels that share nothing: both tails e^(-sqrt(2) z) may miss."""
    one = log(20) / 2**0.5
    for part in (0.0, 1.0):
        assert one <= uniform_reach((mixed(part),), 0.95, "laplace") < one + 0.002
    many = LevelError(0.0, ((10**-2.5, 10**5),))
    assert uniform_reach((many,), 0.95, "laplace") == pytest.approx(1.96, abs=0.002)
    tail = 1 - 0.95**0.5  # 1 - (1 - tail)^2 = 0.05
    assert uniform_reach((mixed(0.0), mixed(1.0)), 0.95, "laplace") == pytest.approx(-log(tail) / 2**0.5, abs=0.004)


SUMS = [((0.8, 1), (0.6, 1)), ((0.5, 2), (6**-0.5, 3)), ((0.95, 1), (0.00975**0.5, 10))]


@pytest.mark.stat
@pytest.mark.parametrize("weights", SUMS)
def test_the_law_of_a_sum_of_laplace_noises_is_that_of_draws(weights: tuple[tuple[float, int], ...]) -> None:
    """n = 200,000 draws: by DKW farther from P(R > x) than 0.00732 with probability below 1e-9; a tenth wider is."""
    random, total = np.random.default_rng(11), np.zeros(200_000)
    for weight, number in weights:
        total += weight * random.laplace(size=(total.size, number)).sum(axis=1) / 2**0.5
    assert sum(weight**2 * number for weight, number in weights) == pytest.approx(1)
    grid = np.linspace(-5, 5, 401)
    drawn = np.array([(total > x).mean() for x in grid])
    law = survival(LevelError(0.0, weights), "laplace")
    assert np.abs(drawn - law(grid)).max() < 0.00732
    assert np.abs(drawn - law(grid / 1.1)).max() > 0.00732


@pytest.mark.long
@pytest.mark.stat
@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_intervals_hold_for_totals_near_a_threshold(contract: Contract, mechanism: str) -> None:
    """3,000 releases of four groups, each at or near a threshold, where the choice follows the noise.

    At 95 % each, fewer than 94 % of 12,000 totals lie inside with a chance below 1e-6: 0.01 is five deviations of
    their mean. Of intervals of half the length fewer than 90 % hold.
    """
    plan = planned(contract, epsilon="0.5", mechanism=mechanism)
    random = np.random.default_rng(11)
    noise = random.normal if mechanism == "gaussian" else lambda *of: random.laplace(of[0], of[1] / 2**0.5, of[2])
    exact = np.zeros((4, 9), np.int64)
    for group, total in enumerate((36, 44, 85, 97)):
        exact[group] = np.bincount(np.arange(total) % 9, minlength=9)
    held = {"totals": [], "cells": [], "halved": []}  # type: ignore[var-annotated]
    for _ in range(3000):
        totals = exact.sum(axis=1) + np.rint(noise(0, plan.totals.variance**0.5, 4)).astype(np.int64)
        true = level_sums(exact, plan.sizes, plan.cell_of, plan.chosen(totals))
        noisy = true + np.rint(noise(0, plan.counts.variance**0.5, true.size)).astype(np.int64)
        made = detail_counts(plan, totals, noisy)
        held["totals"] += ((made.totals[1] <= exact.sum(axis=1)) & (exact.sum(axis=1) <= made.totals[2])).tolist()
        held["cells"] += ((made.counts[1] <= true) & (true <= made.counts[2])).tolist()
        middle, half = (made.totals[1] + made.totals[2]) / 2, (made.totals[2] - made.totals[1]) / 4
        held["halved"] += (np.abs(exact.sum(axis=1) - middle) <= half).tolist()
    found = {name: float(np.mean(each)) for name, each in held.items()}
    assert found["totals"] >= 0.94, found
    assert found["cells"] >= 0.94, found
    assert found["halved"] < 0.9, found


def test_declared_noise_moves_no_count_where_there_is_none(contract: Contract) -> None:
    """Noisy numbers that agree are published as they are; negative totals become groups of zeros."""
    plan = planned(contract)
    plan = replace(plan, thresholds=(40, 90))
    totals = np.array([90, 40, 12, -5])
    noisy = np.array([10] * 9 + [20, 15, 5] + [12] + [-5])
    made = detail_counts(plan, totals, noisy)
    assert made.totals[0].tolist() == [90, 40, 12, 0]
    assert made.counts[0].tolist() == [*[10] * 9, 20, 15, 5, 12, 0]
    assert (made.counts[1] <= made.counts[0]).all()
    assert (made.counts[0] <= made.counts[2]).all()
