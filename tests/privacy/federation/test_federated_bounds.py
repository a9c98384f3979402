"""Bounds that the accounting of federations stands on, by numbers: sums of shares, and people at several sites."""

from __future__ import annotations

from math import exp, pi

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, norm

from privacy.federation.plan import MOST_SITES
from privacy.federation.plans import FINEST_VARIANCE

Density = NDArray[np.float64]
STEP = 0.002
LINE = np.arange(-60, 60, STEP)


def apart(variance: float, shares: int) -> float:
    """How far a sum of discrete Gaussians is from one, by convolution: the largest |log ratio| of probabilities."""
    grid = np.arange(-200, 201)
    share = np.exp(-(grid**2) / (2 * variance))
    share /= share.sum()
    total = share
    for _ in range(shares - 1):
        total = np.convolve(total, share, mode="same")
    whole = np.exp(-(grid**2) / (2 * shares * variance))
    whole /= whole.sum()
    near = np.abs(grid) <= 6 * np.sqrt(shares * variance)
    return float(np.abs(np.log(total[near] / whole[near])).max())


def stated(variance: float, shares: int) -> float:
    """docs/federation.md: 10 times the sum of exp(-2 pi^2 v j / (j + 1)) over j from 1 to k - 1."""
    return 10 * sum(exp(-2 * pi**2 * variance * j / (j + 1)) for j in range(1, shares))


@pytest.mark.parametrize("shares", [2, 3, 5, 9])
@pytest.mark.parametrize("variance", [0.25, 0.5, 0.75, 1.0])
def test_a_sum_of_shares_is_as_near_a_discrete_gaussian_as_is_stated(variance: float, shares: int) -> None:
    """Where it can be seen in float64. Of two shares it is about a fifth of what is stated, whatever the variance. So
    the exponent is the right one: with another the fifth would not stay."""
    found = apart(variance, shares) / stated(variance, shares)
    assert found <= 1
    if shares == 2:
        assert 0.19 < found < 0.26


def test_at_the_least_variance_of_a_share_it_is_nothing() -> None:
    assert stated(FINEST_VARIANCE, MOST_SITES) < 1e-60
    assert stated(FINEST_VARIANCE / 4, MOST_SITES) > 1e-60


def stick(one: Density, other: Density, factor: float) -> float:
    """The integral of max(0, one - factor other)."""
    return float(np.maximum(one - factor * other, 0).sum() * STEP)


def mixture(shifts: list[float], shares: list[float], deviation: float) -> Density:
    return np.asarray(sum(w * norm.pdf(LINE, x, deviation) for x, w in zip(shifts, shares, strict=True)))


CASES = [(2, 0.1, 2.0), (3, 0.5, 3.0), (5, 0.02, 1.5)]
"""Sites of a person, sampling probability, noise multiplier."""
FACTORS = [1.0, 1.01, 1.1, 1.5, 2.0, 5.0, 20.0]


@pytest.mark.parametrize(("sites", "chance", "deviation"), CASES)
@pytest.mark.parametrize("part", [1.0, 0.6, -0.4])
def test_no_mixture_is_above_one_large_shift_whenever_a_row_is_sampled(
    sites: int, chance: float, deviation: float, part: float
) -> None:
    """Both directions, at every factor; rows that move the sum by less, or back, tell no more."""
    counts = binom.pmf(np.arange(sites + 1), sites, chance)
    shifts = [part * k + (1 - part) * (k > 1) for k in range(sites + 1)]
    assert max(abs(shift) for shift in shifts) <= sites
    without, any_ = norm.pdf(LINE, 0, deviation), 1 - (1 - chance) ** sites
    person = mixture(shifts, list(counts), deviation)
    bound = mixture([0.0, float(sites)], [1 - any_, any_], deviation)
    for factor in FACTORS:
        assert stick(person, without, factor) <= stick(bound, without, factor) + 1e-9
        assert stick(without, person, factor) <= stick(without, bound, factor) + 1e-9


@pytest.mark.parametrize(("sites", "chance", "deviation"), CASES)
def test_one_row_s_event_is_not_enough_for_a_person_at_several_sites(
    sites: int, chance: float, deviation: float
) -> None:
    """The wrong case: a person who is charged as if one of their rows were all."""
    counts = binom.pmf(np.arange(sites + 1), sites, chance)
    without = norm.pdf(LINE, 0, deviation)
    person = mixture([float(k) for k in range(sites + 1)], list(counts), deviation)
    alone = mixture([0.0, 1.0], [1 - chance, chance], deviation)
    assert all(stick(person, without, factor) > stick(alone, without, factor) + 1e-9 for factor in FACTORS[:4])
