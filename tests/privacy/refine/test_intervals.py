"""Intervals of exact counts: what they cover, by enumeration of the noise, and what stands inside them."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from contracts.release.tables.tables import Refine
from privacy.accounting.events import CountNoise, DiscreteGaussian, DiscreteLaplace
from privacy.marginals.count_noise import half_width, variance
from privacy.refine import simplex as chunks
from privacy.refine.intervals import (
    CONFIDENCE,
    Intervals,
    count_intervals,
    interval_statement,
    noise_intervals,
    refined_intervals,
)
from privacy.refine.noise_mass import noise_likelihood
from privacy.refine.tables import refine_table

LAPLACE = [DiscreteLaplace(Fraction(t).limit_denominator(10**6), (1,)) for t in (0.02, 0.1, 0.3, 1, 2, 3.5, 10)]
GAUSSIAN = [DiscreteGaussian(Fraction(s).limit_denominator(10**6), (1,)) for s in (0.05, 0.5, 2, 30, 4000, 9000)]
METHODS = [
    {"method": "simplex"},
    {"method": "negative_l2", "lambda": "0.1"},
    {"method": "negative_l2", "lambda": "auto", "integers": False},
    {"method": "empirical_bayes", "integers": False},
    {"method": "neighbourhood"},
    {"method": "auto"},
]


def reach(event: CountNoise) -> int:
    """So far the noise is enumerated: less than 1e-17 of it lies beyond."""
    return 40 * (1 + int(np.sqrt(variance(event))))


def noise(event: CountNoise, stretched: float = 1.0) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The distribution of the noise, or of noise that is wider than declared."""
    support = np.arange(-reach(event), reach(event) + 1)
    if stretched == 1:
        weight = noise_likelihood(event, support)
    elif isinstance(event, DiscreteLaplace):
        weight = np.exp(-float(event.inverse_scale) / stretched * np.abs(support))
    else:
        weight = np.exp(-((support / stretched) ** 2) / (2 * float(event.sigma_squared)))
    return support, weight / weight.sum()


def coverage(event: CountNoise, truths: range, stretched: float = 1.0) -> NDArray[np.float64]:
    """The probability, for each exact count, that its interval holds it."""
    support, weight = noise(event, stretched)
    found = []
    for truth in truths:
        made = count_intervals(truth + support, event)
        found.append(float(weight[(made.lower <= truth) & (truth <= made.upper)].sum()))
    return np.array(found)


def truths(event: CountNoise) -> range:
    """Every count up to well beyond the split, or, under wide noise, some of them."""
    last = 6 * half_width(event, CONFIDENCE) + 20
    return range(0, last, max(1, last // 300))


@pytest.mark.parametrize("event", LAPLACE + GAUSSIAN)
def test_every_count_is_held_with_95_percent(event: CountNoise):
    """Whatever a cell holds, its interval misses it with probability 5 % at most: summed over all noise."""
    assert coverage(event, truths(event)).min() >= CONFIDENCE - 1e-9


@pytest.mark.parametrize("event", [event for event in LAPLACE + GAUSSIAN if variance(event) > 10])
def test_the_coverage_is_not_bought_by_length(event: CountNoise):
    """Wherever one step more or less matters little, zero and large counts are held with hardly more than 95 %."""
    widest = half_width(event, CONFIDENCE)
    found = coverage(event, range(0, 6 * widest + 20, max(1, widest)))
    assert found[0] < CONFIDENCE + 0.02
    assert found[-1] < CONFIDENCE + 0.02


@pytest.mark.parametrize("event", [event for event in LAPLACE + GAUSSIAN if variance(event) > 10])
def test_noise_that_is_wider_than_declared_is_noticed(event: CountNoise):
    """The wrong case: under noise of 1.2 times the declared scale the same intervals hold too little."""
    assert coverage(event, truths(event), stretched=1.2).min() < CONFIDENCE - 0.01


@pytest.mark.parametrize("event", [event for event in LAPLACE + GAUSSIAN if variance(event) > 1])
def test_intervals_of_empty_cells_are_shorter_than_by_noise_alone(event: CountNoise):
    """On average over the noise of an empty cell, where the noise alone is cut at 0 in the same way."""
    support, weight = noise(event)
    made = count_intervals(support, event)
    clipped = noise_intervals(np.maximum(support, 0), event)
    ours = float(weight @ (made.upper - made.lower))
    alone = float(weight @ (clipped.upper - np.maximum(clipped.lower, 0)))
    assert ours < alone
    if variance(event) > 100:
        assert ours < 0.9 * alone


@pytest.mark.parametrize("event", [event for event in LAPLACE + GAUSSIAN if half_width(event, 0.9) > 0])
def test_no_interval_is_one_point_where_the_noise_hides_a_row(event: CountNoise):
    """A zero is "0 to q", also where the noise fell far below 0: summed over all noise of cells with one row. The
    wrong case is the interval of the negative value itself: a cell of one row has "0 to 0" there."""
    support, weight = noise(event)
    noisy = 1 + support
    made = count_intervals(noisy, event)
    assert (made.lower < made.upper).all()
    zero = noisy <= 0
    assert (made.lower[zero] == 0).all()
    held = (made.lower <= 1) & (made.upper >= 1)
    assert weight[zero & held].sum() == pytest.approx(weight[zero].sum())
    one_point = np.maximum(noisy + half_width(event, 1 - 2 * 0.045), 0) == 0
    assert weight[zero & ~one_point].sum() < weight[zero].sum()


@pytest.mark.parametrize("event", LAPLACE + GAUSSIAN)
def test_intervals_hold_the_noisy_value_and_move_with_it(event: CountNoise):
    """0 ≤ lower ≤ max(noisy, 0) ≤ upper; a larger noisy value never has a smaller end."""
    values = np.arange(-reach(event), reach(event))
    made = count_intervals(values, event)
    assert (made.lower >= 0).all()
    assert (made.lower <= np.maximum(values, 0)).all()
    assert (made.upper >= values).all()
    for ends in (made.lower, made.upper):
        assert all(first <= second for first, second in pairwise(ends.tolist()))


def test_far_from_zero_the_interval_is_that_of_the_noise():
    for event in LAPLACE + GAUSSIAN:
        values = np.array([10**6, 2**61])
        made, alone = count_intervals(values, event), noise_intervals(values, event)
        assert np.array_equal(made.lower, alone.lower)
        assert np.array_equal(made.upper, alone.upper)


@given(st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=30), st.integers(1, 7))
def test_a_cell_s_interval_depends_on_its_own_value_alone(values: list[int], size: int):
    """Neither other cells, nor the shape, nor where the work is cut make a difference."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "CHUNK", size)
        table = np.array([values, values])
        made = count_intervals(table, LAPLACE[1])
    alone = [count_intervals(np.array(value), LAPLACE[1]) for value in values]
    assert made.lower.tolist() == [[int(one.lower) for one in alone]] * 2
    assert made.upper.tolist() == [[int(one.upper) for one in alone]] * 2


def test_an_interval_grows_to_hold_the_published_count():
    """Fractions are held by whole ends; an interval that holds its count already stays as it is."""
    made = Intervals(np.array([3, 3, 3]), np.array([5, 5, 5])).holding(np.array([0.5, 4.0, 5.5]))
    assert made.lower.tolist() == [0, 3, 3]
    assert made.upper.tolist() == [5, 5, 6]
    whole = Intervals(np.array([3]), np.array([5])).holding(np.array([2**60 + 1]))
    assert whole.upper.tolist() == [2**60 + 1]
    assert whole.upper.dtype == np.int64


@pytest.mark.parametrize("terms", METHODS)
@pytest.mark.parametrize("event", [LAPLACE[1], GAUSSIAN[3]])
@pytest.mark.parametrize("total", [900, -5])
def test_each_method_publishes_intervals_holding_its_counts(terms: dict[str, object], event: CountNoise, total: int):
    """Of the noisy values, grown to hold the counts, and 0 to 0 where the contract declares a zero."""
    generator = np.random.default_rng(5)
    noisy = generator.integers(-30, 60, (12, 9))
    impossible = generator.random((12, 9)) < 0.2
    made = refine_table(
        noisy, Refine.model_validate(terms), impossible=impossible, total=total, event=event, ordered=(0, 1)
    )
    ends, bare = made.intervals, count_intervals(noisy, event)
    assert (ends.lower <= made.values).all()
    assert (made.values <= ends.upper).all()
    assert not ends.lower[impossible].any()
    assert not ends.upper[impossible].any()
    assert (ends.lower <= bare.lower)[~impossible].all()
    assert (ends.upper >= bare.upper)[~impossible].all()
    held = (bare.lower <= made.values) & (made.values <= bare.upper) & ~impossible
    assert np.array_equal(ends.lower[held], bare.lower[held])
    assert np.array_equal(ends.upper[held], bare.upper[held])


def test_unrefined_counts_keep_the_interval_of_the_noise():
    noisy, impossible = np.array([-40, 7, 500]), np.array([False, True, False])
    made = refine_table(noisy, Refine(method="none"), impossible=impossible, total=None, event=LAPLACE[1], ordered=())
    width = half_width(LAPLACE[1], CONFIDENCE)
    assert made.intervals.lower.tolist() == [-40 - width, 0, 500 - width]
    assert made.intervals.upper.tolist() == [-40 + width, 0, 500 + width]
    assert interval_statement("none") != interval_statement("simplex")


def test_no_cells_have_no_intervals():
    none = np.empty((0, 3), np.int64)
    made = refined_intervals(none, none, LAPLACE[0], impossible=none.astype(bool))
    assert made.lower.shape == made.upper.shape == (0, 3)
