"""The exponential mechanism: exact probabilities, and what it refuses."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from privacy.noise.choice import exponential_mechanism
from privacy.noise.limits import NoiseRefused
from privacy.noise.random_bytes import SeededBytes

SCORES = [Fraction(score) for score in (10, 7, 10, -5, Fraction(17, 2))]
DRAWS = 40_000
FALSE_ALARM = 1e-9


def expected(epsilon: float, sensitivity: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    weights = np.array([math.exp(epsilon * float(score) / (2 * sensitivity)) for score in SCORES])
    result: np.ndarray[tuple[int], np.dtype[np.float64]] = weights / weights.sum()
    return result


def statistic(epsilon: Fraction, sensitivity: Fraction, assumed: float) -> float:
    source = SeededBytes(20)
    drawn = [
        exponential_mechanism(SCORES, epsilon=epsilon, sensitivity=sensitivity, source=source) for _ in range(DRAWS)
    ]
    counts, wanted = np.bincount(drawn, minlength=len(SCORES)), expected(assumed, float(sensitivity)) * DRAWS
    return float(((counts - wanted) ** 2 / wanted).sum())


@pytest.mark.long
@pytest.mark.stat
def test_each_candidate_is_chosen_with_its_probability() -> None:
    """n = 40,000 choices of 5, chi-square with 4 degrees of freedom: false alarm 1e-9. The wrong case, an epsilon
    twice as large (the factor 2 forgotten), is found."""
    most = float(chi2.isf(FALSE_ALARM, len(SCORES) - 1))
    assert statistic(Fraction(1), Fraction(2), assumed=1.0) < most
    assert statistic(Fraction(1), Fraction(2), assumed=2.0) > most


def test_scores_that_are_far_below_are_never_chosen_and_one_candidate_always_is() -> None:
    far = [Fraction(0), Fraction(10**30)]
    source = SeededBytes(1)
    one = Fraction(1)
    assert {exponential_mechanism(far, epsilon=one, sensitivity=one, source=source) for _ in range(50)} == {1}
    assert exponential_mechanism([Fraction(-3)], epsilon=one, sensitivity=one, source=source) == 0


@pytest.mark.long
def test_many_candidates_of_one_score_are_equally_likely() -> None:
    """300 candidates need two bytes a proposal; n = 30,000, each within 6 standard deviations of 100."""
    source = SeededBytes(2)
    same = [Fraction(1)] * 300
    drawn = [
        exponential_mechanism(same, epsilon=Fraction(1), sensitivity=Fraction(1), source=source)
        for _ in range(30_000)
    ]
    counts = np.bincount(drawn, minlength=300)
    assert counts.size == 300
    assert abs(counts - 100).max() < 60


@pytest.mark.parametrize(
    ("scores", "epsilon", "sensitivity", "name"),
    [([], 1, 1, "candidates"), ([1], 0, 1, "epsilon"), ([1], 1, -1, "sensitivity")],
)
def test_bad_arguments_are_refused_by_name(scores: list[int], epsilon: int, sensitivity: int, name: str) -> None:
    with pytest.raises(NoiseRefused, match=name):
        exponential_mechanism(
            [Fraction(score) for score in scores],
            epsilon=Fraction(epsilon),
            sensitivity=Fraction(sensitivity),
            source=SeededBytes(3),
        )
