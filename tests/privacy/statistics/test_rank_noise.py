"""Bounds on weighted sums of many noises: never too small, nearly the least, the same by other routes."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from privacy.accounting.events import CountNoise, DiscreteGaussian, DiscreteLaplace
from privacy.marginals.count_noise import half_width, variance
from privacy.noise.random_bytes import SeededBytes
from privacy.statistics.noise_sums import Counts, weighted_bounds
from tests.privacy.noise.noise_statistics import noise_of

SOURCE = SeededBytes(31)
noise = partial(noise_of, source=SOURCE)
DRAWS = 40_000
EXCEEDING = 0.025
MOST = float(binom.ppf(1 - 1e-10, DRAWS, EXCEEDING)) / DRAWS
"""A share of 2.5 % is above it with probability 1e-10; all cases together below 1e-7."""
LEAST = float(binom.ppf(1e-10, DRAWS, 0.02)) / DRAWS
"""A bound that 2 % exceed has a share below it with probability 1e-10: bounds are not much too large."""
EVENTS = [DiscreteLaplace(Fraction(1) / scale, (1,)) for scale in (Fraction(1, 3), Fraction(4), Fraction(3000))]
EVENTS += [DiscreteGaussian(Fraction(sigma) ** 2, (1,)) for sigma in (1, 20, 900)]  # type: ignore[list-item]
NUMBERS: list[Counts] = [(1, 1, 0), (3, 20, 0), (12, 1, 7), (0, 0, 2)]


@pytest.mark.stat
@pytest.mark.parametrize("event", EVENTS, ids=str)
def test_a_sum_exceeds_its_bound_as_often_as_stated_and_a_smaller_one_more_often(event: CountNoise) -> None:
    """n = 40,000 sums a case, 32 cases; false alarms below 1e-7. 15 % less is found out where noise is not tiny."""
    cases = list(product(NUMBERS, ((0.5, 0.5, 1.0), (0.9, 0.1, 1.0))))
    for numbers, weights in cases:
        (bound,) = weighted_bounds(event, [numbers], weights, EXCEEDING)
        parts = [
            w * noise(event, n * DRAWS).reshape(n, DRAWS).sum(axis=0)
            for n, w in zip(numbers, weights, strict=True)
            if n
        ]
        sums = sum(parts, np.zeros(DRAWS))
        assert (sums > bound).mean() <= MOST
        assert (sums < -bound).mean() <= MOST
        if variance(event) > 10:
            assert (sums > 0.85 * bound).mean() > MOST
            assert (sums > bound).mean() > LEAST - 0.002


@pytest.mark.parametrize("event", EVENTS, ids=str)
def test_one_noise_has_its_own_quantile(event: CountNoise) -> None:
    """By the closed form of the two-sided quantile: above it by 3 % and one step at most, never below."""
    (bound,) = weighted_bounds(event, [(1, 0, 0)], (1.0, 0.5, 0.5), EXCEEDING)
    exact = half_width(event, 1 - 2 * EXCEEDING)
    assert exact <= bound <= 1.03 * exact + 1.1


def test_a_law_that_is_added_up_by_hand_gives_the_same_bound() -> None:
    """Three noises of weight 0.9 and two of 0.1: all values enumerated by plain convolution."""
    event = DiscreteLaplace(Fraction(1, 2), (1,))
    places = np.arange(-80, 81)
    mass = np.exp(-0.5 * np.abs(places))
    mass /= mass.sum()
    first = np.convolve(np.convolve(mass, mass), mass)
    second = np.convolve(mass, mass)
    sums = np.add.outer(0.9 * np.arange(-240, 241), 0.1 * np.arange(-160, 161)).ravel()
    chances = np.multiply.outer(first, second).ravel()
    (bound,) = weighted_bounds(event, [(3, 2, 0)], (0.9, 0.1, 1.0), EXCEEDING)
    assert chances[sums > bound + 1e-9].sum() <= EXCEEDING
    assert chances[sums > bound * 0.97].sum() > EXCEEDING


def test_bounds_of_several_sums_are_those_of_each_alone_up_to_the_lattice() -> None:
    """Sums share one lattice, by the smallest deviation; alone each has a finer one at most."""
    event = DiscreteLaplace(Fraction(1, 20), (1,))
    together = weighted_bounds(event, NUMBERS, (0.9, 0.1, 1.0), EXCEEDING)
    alone = np.concatenate([weighted_bounds(event, [each], (0.9, 0.1, 1.0), EXCEEDING) for each in NUMBERS])
    assert np.abs(together / alone - 1).max() < 0.03
    digits = [f"{bound:.6g}" for bound in together]
    assert [float(text) for text in digits] == list(together)


@pytest.mark.parametrize(
    ("numbers", "weights", "exceeding"),
    [((0, 0, 0), (1, 1, 1), 0.1), ((-1, 2, 0), (1, 1, 1), 0.1), ((1, 0, 0), (0, 1, 1), 0.1)]
    + [((1, 0, 0), (1, 1, 1), exceeding) for exceeding in (0, 0.5, 1)],
)
def test_what_is_no_sum_or_no_probability_is_refused(numbers: Counts, weights: tuple, exceeding: float) -> None:
    with pytest.raises(ValueError, match="noises, weights"):
        weighted_bounds(EVENTS[0], [numbers], weights, exceeding)
