"""Suppressed cells of statistics: thresholds keep to their probability, and nothing of a suppressed cell is left."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from contracts.domains.addends import Addends, WeightedCount
from contracts.domains.value_lattices import ValueLattice
from contracts.domains.value_sums import LoneSum, moments_of
from contracts.domains.value_trees import ValueTree
from contracts.release.tables.minimum_frequency import MinimumFrequency
from privacy.accounting.events import CountNoise, DiscreteGaussian, DiscreteLaplace
from privacy.marginals.suppression import threshold_for
from privacy.statistics.cell_suppression import (
    cell_threshold,
    counts_rows,
    draw_threshold,
    rule_of_draw,
    suppressed_cells,
)

AGE = ValueLattice("age", Decimal(20), Decimal(90), Decimal(7), True)
WEIGHT = ValueLattice("w", Decimal(0), Decimal(9), Decimal(1), False)
RULE = MinimumFrequency.model_validate({"k": 12, "t": "auto", "at_most": "0.05"})
N = 40_000
ADDENDS: dict[str, Addends] = {
    "sums": AGE,
    "moments": moments_of(AGE, 1),
    "a tree": ValueTree(AGE, Decimal(14)),
}


def event_of(addends: Addends, family: str, times: Fraction = Fraction(1)) -> CountNoise:
    """Noise of about two rows for each number, times so much."""
    move = max(addends.row_moves)
    if family == "laplace":
        return DiscreteLaplace(Fraction(1, 2 * move) / times, (move,))
    return DiscreteGaussian((2 * move * times) ** 2, (move,))


def numbers_of(addends: Addends, rows: int) -> NDArray[np.int64]:
    """The exact numbers of one cell whose rows all lie at the upper end."""
    cell = np.zeros(addends.parts, dtype=np.int64)
    if isinstance(addends, ValueTree):
        starts = np.cumsum([0, *addends.level_nodes])
        cell[starts[1:] - 1] = rows
    else:
        cell[0] = rows * addends.whole  # type: ignore[union-attr]
    return cell


def published_share(addends: Addends, event: CountNoise, noise: CountNoise, rows: int) -> float:
    random = np.random.default_rng(11)
    shape = N, addends.parts
    if isinstance(noise, DiscreteLaplace):
        chance = 1 - np.exp(-float(noise.inverse_scale))
        drawn = random.geometric(chance, shape) - random.geometric(chance, shape)
    else:
        drawn = np.rint(random.normal(0, float(noise.sigma_squared) ** 0.5, shape)).astype(np.int64)
    threshold = cell_threshold(RULE, addends, event)
    return float(1 - threshold.suppressed(numbers_of(addends, rows) + drawn).mean())


@pytest.mark.stat
@pytest.mark.parametrize("family", ["laplace", "gaussian"])
@pytest.mark.parametrize("what", ADDENDS)
def test_a_cell_below_k_is_published_no_more_often_than_stated(what: str, family: str) -> None:
    """With k - 1 rows, at most at 0.05 of 40,000 releases, plus 0.02: by Hoeffding a false alarm in 1e-13.

    It is not far below either, since t is whole. With noise half as large again, which the threshold does not know,
    it is found out.
    """
    addends = ADDENDS[what]
    event = event_of(addends, family)
    share = published_share(addends, event, event, RULE.k - 1)
    assert 0.01 <= share <= 0.07
    assert published_share(addends, event, event_of(addends, family, Fraction(3, 2)), RULE.k - 1) > 0.07


@pytest.mark.parametrize("what", ADDENDS)
def test_what_is_stated_of_a_written_margin_bounds_what_happens(what: str) -> None:
    """Of `t: 0` and of the t that auto finds: the stated chance is above the simulated one, and within 0.05 of it."""
    addends = ADDENDS[what]
    event = event_of(addends, "laplace")
    for written in (RULE, MinimumFrequency.model_validate({"k": 12, "t": 0})):
        told = rule_of_draw(written, addends, event)
        stated = Decimal(told["published_although_below_k"])
        assert told["threshold"] == told["k"] + told["t"]
        assert stated <= Decimal("0.50")
        if written is RULE:
            assert stated <= Decimal("0.05")
        exceeding = np.random.default_rng(5).laplace(0, 1 / float(event.inverse_scale), (N, addends.parts))  # type: ignore[union-attr]
        nodes = addends.level_nodes[0] + 1 if isinstance(addends, ValueTree) else addends.parts
        whole = 1 if isinstance(addends, ValueTree) else addends.whole  # type: ignore[union-attr]
        happened = float((exceeding[:, :nodes].sum(axis=1) / whole >= told["t"] + 1).mean())
        assert happened - 0.02 <= float(stated) <= happened + 0.07


@pytest.mark.parametrize("what", ADDENDS)
def test_all_numbers_of_a_suppressed_cell_are_zeros_and_read_as_suppressed(what: str) -> None:
    addends = ADDENDS[what]
    threshold = cell_threshold(RULE, addends, event_of(addends, "laplace"))
    values = np.stack([numbers_of(addends, rows) for rows in (0, threshold.value - 1, threshold.value, 500)])
    gone = threshold.suppressed(values)
    assert gone.tolist() == [True, True, False, False]
    censored = threshold.censored(values)
    assert not censored[:2].any()
    np.testing.assert_array_equal(censored[2:], values[2:])
    np.testing.assert_array_equal(threshold.suppressed(censored), gone)
    np.testing.assert_array_equal(threshold.hidden(censored.reshape(-1)), np.repeat(gone, addends.parts))


def test_a_cell_is_suppressed_where_one_draw_of_the_table_is() -> None:
    event = event_of(AGE, "laplace")
    few, many = numbers_of(AGE, 0), numbers_of(AGE, 500)
    drawn = [(np.stack([few, many, many]), AGE, event), (np.stack([many, few, many]), AGE, event)]
    assert suppressed_cells(RULE, drawn).tolist() == [True, True, False]
    counts = DiscreteLaplace(Fraction(1, 2), (1,))
    assert suppressed_cells(RULE, [(np.array([0, 500]), None, counts)]).tolist() == [True, False]
    assert draw_threshold(RULE, None, counts) == threshold_for(RULE, counts)


def test_a_sum_alone_and_a_sum_of_weights_count_no_rows() -> None:
    weighed = ValueLattice("age", Decimal(20), Decimal(90), Decimal(7), True, WEIGHT)
    uncounted: list[Addends] = [LoneSum(AGE), WeightedCount(WEIGHT), weighed, ValueTree(weighed, Decimal(14))]
    for addends in uncounted:
        assert not counts_rows(addends)
        with pytest.raises(ValueError, match="does not count rows"):
            cell_threshold(RULE, addends, event_of(addends, "laplace"))
    assert counts_rows(None)
