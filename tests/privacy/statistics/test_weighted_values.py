"""Weighted statistics from noisy numbers: those of a table in which each row stands as often as its weight says."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from contracts.domains.addends import Addends, WeightedCount
from contracts.domains.lattice import ValueLattice
from contracts.domains.trees import ValueTree
from contracts.release.statistics import StatisticsTable
from privacy.accounting.events import CountNoise, DiscreteGaussian, DiscreteLaplace
from privacy.grant.sampled_noise import SampledNoise
from privacy.marginals.cell_sums import cell_sum_event
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise
from privacy.noise.random_bytes import SeededBytes
from privacy.statistics.table import Columns, NoisyNumbers, table_values

OF = ["count", {"sum": "pay"}, {"mean": "pay"}, {"ratio": {"sum": "pay"}, "over": {"sum": "hours"}}]
ALL = [*OF, {"quantiles": [0.25, 0.5], "of": "pay"}]
PAY = ValueLattice("pay", Decimal(10), Decimal(60), Decimal("0.5"), counts_missing=True)
HOURS = ValueLattice("hours", Decimal(0), Decimal(40), Decimal(1), counts_missing=False)
TREE = ValueTree(PAY, Decimal(5))
CELLS = 40


def weighed(addends: Addends, step: str) -> Addends:
    weight = ValueLattice("people", Decimal(0), 50 * Decimal(step), Decimal(step), counts_missing=True)
    if isinstance(addends, ValueTree):
        return replace(addends, lattice=replace(addends.lattice, weight=weight))
    return replace(addends, weight=weight)


def numbers(addends: Addends, seed: int) -> NDArray[np.int64]:
    """Noisy numbers of 40 cells, some of them below 0."""
    return np.random.default_rng(seed).integers(-4000, 90_000, (CELLS, addends.parts))


def published(of: list[Any], step: str | None, noise: type[CountNoise] = DiscreteLaplace) -> Columns:
    """The columns that follow from the same noisy numbers and noise, with weights of a step or without."""
    event = noise(Fraction(1, 400), (100,)) if noise is DiscreteLaplace else noise(Fraction(160_000), (100,))
    table = StatisticsTable.model_validate({"by": [], "of": of, "survey_weight": step and "people"})
    drawn: dict[str | None, NoisyNumbers] = {}
    for each in (PAY, HOURS, TREE):
        addends = each if step is None else weighed(each, step)
        drawn[each.key] = NoisyNumbers(numbers(each, each.parts), event, addends)
    return table_values(table, drawn, np.zeros(CELLS, dtype=np.bool_))


@pytest.mark.parametrize("noise", [DiscreteLaplace, DiscreteGaussian])
def test_weights_in_steps_of_one_change_no_bit(noise: type[CountNoise]) -> None:
    """Every estimate and every end is that of rows that count once, by the same noisy numbers and noise."""
    plain, one = published(ALL, None, noise), published(ALL, "1", noise)
    assert list(plain) == list(one)
    for name, array in plain.items():
        np.testing.assert_array_equal(array, one[name])
    assert one["count"].dtype == np.float64


def test_counts_and_sums_are_times_the_step_and_nothing_else_is() -> None:
    """Steps of 2.5: counts and sums 2.5 times as large; means, ratios, quantiles and marks the same."""
    one, coarse = published(ALL, "1"), published(ALL, "2.5")
    for name, array in one.items():
        times = 2.5 if name.startswith(("count", "sum_pay")) else 1.0
        np.testing.assert_array_equal(array * times if times != 1 else array, coarse[name])


@pytest.mark.parametrize("noise", [LaplaceNoise(Fraction(1)), GaussianNoise(Fraction(1, 2))])
def test_counts_alone_are_the_noisy_numbers_in_steps(noise: LaplaceNoise | GaussianNoise) -> None:
    """Not below 0; the interval is the noise's half width, and what cannot be told from 0 is marked."""
    weight = ValueLattice("people", Decimal(0), Decimal(20), Decimal("0.25"), counts_missing=True)
    addends = WeightedCount(weight)
    event = cell_sum_event(noise, addends, adjacency="add_remove", rows_per_unit=1)
    assert event.moves == (80,)
    drawn = np.array([-7, 0, 3, 100_001])[:, None]
    table = StatisticsTable.model_validate({"by": [], "of": ["count"], "survey_weight": "people"})
    impossible = np.array([False, False, False, False])
    found = table_values(table, {addends.key: NoisyNumbers(drawn, event, addends)}, impossible)
    assert found["count"].tolist() == [0, 0, 0.75, 25_000.25]
    reach = found["count_high"][3] - found["count"][3]
    assert found["count"][3] - found["count_low"][3] == reach > 20
    assert reach * 4 == round(reach * 4)
    assert found["near_zero"].tolist() == [True, True, True, False]
    nobody = table_values(table, {addends.key: NoisyNumbers(drawn, event, addends)}, ~impossible)
    assert nobody["count"].tolist() == nobody["count_high"].tolist() == [0] * 4
    assert nobody["near_zero"].all()


@pytest.mark.stat
@pytest.mark.parametrize("noise", [LaplaceNoise(Fraction(1)), GaussianNoise(Fraction(1, 2))])
def test_intervals_hold_over_releases_and_would_not_without_the_weight_s_noise(
    noise: LaplaceNoise | GaussianNoise,
) -> None:
    """n = 4,000 releases of one cell: 95 % falls below 92.5 % with probability below 1e-11. Halved intervals do."""
    random = np.random.default_rng(5)
    lattice = weighed(PAY, "0.5")
    assert isinstance(lattice, ValueLattice)
    offsets, weights = random.integers(0, PAY.width + 1, 60), random.integers(0, 51, 60)
    exact = np.array([(weights * offsets).sum(), (weights * (PAY.width - offsets)).sum(), 0])
    event = cell_sum_event(noise, lattice, adjacency="add_remove", rows_per_unit=1)
    drawn = np.tile(exact, (4000, 1))
    drawn = drawn + SampledNoise(SeededBytes(3)).integers(drawn.size, event=event).reshape(drawn.shape)
    of = ["count", {"sum": "pay"}, {"mean": "pay"}]
    table = StatisticsTable.model_validate({"by": [], "of": of, "survey_weight": "people"})
    found = table_values(table, {"pay": NoisyNumbers(drawn, event, lattice)}, np.zeros(4000, dtype=np.bool_))
    values = 10 + offsets * 0.5
    true = {"count": 0.5 * weights.sum(), "sum_pay": 0.5 * (weights * values).sum()}
    true |= {"mean_pay": (weights * values).sum() / weights.sum()}
    for name, value in true.items():
        low, high = found[f"{name}_low"], found[f"{name}_high"]
        assert np.mean((low <= value) & (value <= high)) > 0.925
        middle, quarter = (low + high) / 2, (high - low) / 4
        assert np.mean(np.abs(value - middle) <= quarter) < 0.925
