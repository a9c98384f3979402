"""The quantiles and boxes behind intervals of variances."""

from __future__ import annotations

from fractions import Fraction
from math import expm1

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace
from privacy.statistics.estimates import (
    BOXES,
    LARGEST,
    mean_margins,
    square_margins,
    three_noises,
    variance_intervals,
)
from privacy.statistics.noise_sums import PIECES, mixed_quantile, quantile

LAPLACE = DiscreteLaplace(Fraction(1, 5000), (5000,))
GAUSSIAN = DiscreteGaussian(Fraction(5000**2), (5000,))


@pytest.mark.parametrize("event", [LAPLACE, GAUSSIAN], ids=["laplace", "gaussian"])
@settings(max_examples=60, deadline=None)
@given(weights=st.tuples(*[st.floats(1e-4, 1.5)] * 3), missed=st.sampled_from([0.044, 0.006, 0.05]))
def test_many_quantiles_at_once_are_those_that_are_found_one_by_one(
    event: DiscreteLaplace | DiscreteGaussian, weights: tuple[float, float, float], missed: float
) -> None:
    """By another module's search; never smaller but for last digits, and larger by 1 % at most."""
    (found,) = three_noises(event, np.array(weights)[:, None], 1 - missed)
    wanted = quantile(event, weights, 1 - missed)
    assert wanted * (1 - 1e-3) - 2 <= found <= wanted * 1.011 + 2
    terms = [(weight, event) for weight in weights]
    assert found == pytest.approx(mixed_quantile(terms, 1 - missed), rel=1e-6)


def test_equal_and_missing_weights_have_quantiles_too() -> None:
    weights = np.array([[1.0, 1.0, 1.0], [1.0, 1.0, 0.0], [2.0, 0.0, 0.0]]).T
    found = three_noises(LAPLACE, weights, 0.95)
    for triple, one in zip(weights.T, found, strict=True):
        assert quantile(LAPLACE, [each for each in triple if each], 0.95) <= one * 1.0005
        assert one <= quantile(LAPLACE, [each for each in triple if each], 0.95) * 1.02


@given(mean=st.floats(0, 1), share=st.floats(0, 1))
def test_a_box_has_the_quantile_of_each_pair_in_it(mean: float, share: float) -> None:
    """Every pair that some numbers from 0 to 1 have; six digits are rounded up."""
    variance = share * mean * (1 - mean)
    weights = [mean**2 - variance, mean * (1 - mean) + variance, (1 - mean) ** 2 - variance]
    piece = min(int(mean * PIECES), PIECES - 1)
    box = min(int(variance / LARGEST * BOXES), BOXES - 1)
    sizes = np.abs(np.array(weights))[:, None]
    (wanted,) = three_noises(LAPLACE, np.maximum(sizes, 1e-9), 0.956)
    assert square_margins(LAPLACE, 0.956, 0.0)[piece, box] >= wanted * (1 - 1e-9)
    (contrast,) = three_noises(LAPLACE, np.maximum(np.abs([[mean], [0.5 - mean], [1 - mean]]), 1e-9), 0.994)
    assert mean_margins(LAPLACE, 0.994)[piece] >= contrast * (1 - 0.012)


def test_no_noise_at_all_leaves_the_variance_itself() -> None:
    """Exact moments of a billion rows, noise of one row: the interval is a millionth long."""
    event = DiscreteLaplace(Fraction(1), (1,))
    for mean, variance in ((0.5, 1 / 12), (0.1, 0.0), (0.9, 0.09), (0.0, 0.0), (0.5, 0.25)):
        second = variance + mean * mean
        parts = np.array([[1 - 2 * mean + second], [2 * mean - 2 * second], [second]]) * 1e9
        value, lower, upper = variance_intervals(parts, event=event, confidence=0.95, sink=0.0)[:, 0]
        assert lower <= value <= upper
        assert value == pytest.approx(variance, abs=1e-12)
        assert upper - lower < 1e-6


@given(parts=st.tuples(*[st.integers(-(10**12), 10**12)] * 3))
@settings(max_examples=200, deadline=None)
def test_whatever_was_drawn_values_and_ends_lie_in_what_is_possible(parts: tuple[int, int, int]) -> None:
    found = variance_intervals(np.array(parts, dtype=np.float64)[:, None], event=LAPLACE, confidence=0.95, sink=0.0)[
        :, 0
    ]
    assert np.isfinite(found).all()
    assert 0 <= found[1] <= found[0] <= found[2] <= LARGEST
    if sum(parts) <= 0:
        assert found[1:].tolist() == [0, LARGEST]


@pytest.mark.stat
@pytest.mark.parametrize("true", [(30_000, 0, 0), (7_500, 15_000, 7_500), (15_000, 0, 15_000)])
def test_intervals_at_the_ends_of_what_is_possible_are_never_short(true: tuple[int, int, int]) -> None:
    """n = 2,000 releases of 300 rows whose variance is 0 or 1/4: the shortest is two thirds of the median at least.
    Deterministic seed; the shortest interval that comes of a noisy number below the possible is that of the possible
    one next to it. Coverage is at least 95 % by the exact binomial, false-alarm rate 1e-10 of three decisions."""
    event = DiscreteLaplace(Fraction(1, 100), (100,))
    random, stop = np.random.default_rng(4), -expm1(-0.01)
    noise = random.geometric(stop, (3, 2000)) - random.geometric(stop, (3, 2000))
    parts = np.array(true, dtype=np.float64)[:, None] + noise
    _, lower, upper = variance_intervals(parts, event=event, confidence=0.95, sink=0.0)
    at_low, between, at_high = (each / sum(true) for each in true)
    variance = at_low * at_high - between**2 / 4
    assert np.min(upper - lower) >= 2 / 3 * np.median(upper - lower)
    assert np.count_nonzero((lower <= variance) & (variance <= upper)) >= binom.ppf(1e-10, 2000, 0.95)
