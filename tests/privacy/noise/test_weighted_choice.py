"""The exponential mechanism over runs: exact probabilities, deep gaps, and what it refuses."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2

from privacy.noise.choice import weighted_choice
from privacy.noise.limits import NoiseRefused
from privacy.noise.random_bytes import SeededBytes

DISTANCES = np.array([3, 0, 9, 4, 40, 2, 7])
WEIGHTS = np.array([5, 1, 900, 0, 10**9, 40, 100])
RATE = Fraction(3, 7)
DRAWS = 10_000
FALSE_ALARM = 1e-9


def statistic(rate: Fraction, assumed: float) -> float:
    source = SeededBytes(20)
    drawn = [weighted_choice(DISTANCES, WEIGHTS, rate=rate, source=source)[0] for _ in range(DRAWS)]
    wanted = WEIGHTS * np.exp(-assumed * DISTANCES)
    wanted, some = wanted / wanted.sum() * DRAWS, WEIGHTS > 0
    counts = np.bincount(drawn, minlength=len(WEIGHTS))
    assert counts[~some].sum() == 0
    return float(((counts - wanted)[some] ** 2 / wanted[some]).sum())


@pytest.mark.long
@pytest.mark.stat
def test_each_run_is_chosen_with_its_probability() -> None:
    """n = 10,000 choices of 6, chi-square with 5 degrees of freedom: false alarm 1e-9. The wrong cases, a rate 10 %
    higher or lower, are found."""
    threshold = float(chi2.isf(FALSE_ALARM, int((WEIGHTS > 0).sum()) - 1))
    assert statistic(RATE, float(RATE)) < threshold
    for wrong in (1.1, 0.9):
        assert statistic(RATE, wrong * float(RATE)) > threshold


@pytest.mark.stat
def test_the_number_beside_a_run_is_uniform_below_its_weight() -> None:
    """n = 5,000 numbers below 10, chi-square with 9 degrees of freedom: false alarm 1e-9."""
    source, distances, weights = SeededBytes(4), np.array([1, 3]), np.array([10, 3])
    drawn = [weighted_choice(distances, weights, rate=Fraction(1), source=source) for _ in range(5000)]
    counts = np.bincount([number for place, number in drawn if place == 0], minlength=10)
    assert counts.size == 10
    wanted = counts.sum() / 10
    assert float(((counts - wanted) ** 2 / wanted).sum()) < chi2.isf(FALSE_ALARM, 9)


def test_runs_far_away_are_never_chosen() -> None:
    """Gaps of 10^15 nats cost no time, and the nearest run with a weight has no gap, however far it is."""
    distances, weights = np.array([0, 10**15, 10**12]), np.array([0, 7, 3])
    source = SeededBytes(1)
    assert {weighted_choice(distances, weights, rate=Fraction(1), source=source)[0] for _ in range(50)} == {2}


@pytest.mark.parametrize(
    ("distances", "weights", "rate"),
    [
        (DISTANCES, WEIGHTS, Fraction(0)),
        (DISTANCES, np.zeros_like(WEIGHTS), RATE),
        (DISTANCES, -WEIGHTS, RATE),
        (-DISTANCES, WEIGHTS, RATE),
        (DISTANCES[1:], WEIGHTS, RATE),
        (DISTANCES, WEIGHTS * 2**33, RATE),
    ],
)
def test_what_is_out_of_range_is_refused(
    distances: NDArray[np.int64], weights: NDArray[np.int64], rate: Fraction
) -> None:
    with pytest.raises(NoiseRefused):
        weighted_choice(distances, weights, rate=rate, source=SeededBytes(1))
