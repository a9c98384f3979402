"""The benchmark of weighted statistics releases what its formulas say, and a wrong weight would be seen."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest

from benchmarks.statistics import _error
from benchmarks.statistics_weighted import CLIP, WEIGHT, _ours, _summed
from contracts.domains.lattice import ValueLattice

AGE = ValueLattice("age", Decimal(0), Decimal(100), Decimal(1), counts_missing=False, weight=WEIGHT)
TOTAL = np.array([200_000.0, 400_000.0])
MEANS = np.array([50.0, 20.0])


def test_a_weight_is_added_up_by_place_alone() -> None:
    """The second key is the same for all rows; values are clipped before they are added up."""
    table = _summed("weights", "people", ("b", "a", "b"), np.array([500, 7, 3]), 0, CLIP)
    assert table.cells == (("a", "all"), ("b", "all"))
    assert table.exact["sum"].tolist() == [7, 403]


@pytest.mark.stat
def test_counts_and_means_have_the_errors_of_the_noise_that_hides_the_largest_weight() -> None:
    """n = 4,000 draws; 12 % is 7 standard errors of a Laplace error's size: false alarms below 1e-9.

    Noise that hid a weight of 1 would be 400 times smaller, and half the noise misses both.
    """
    counts = _ours(TOTAL, None, AGE)["count"]
    size = 2**0.5 * CLIP
    assert _error(counts, TOTAL).size == pytest.approx(size, rel=0.12)
    assert _error(TOTAL + (counts - TOTAL) / 2, TOTAL).size != pytest.approx(size, rel=0.12)
    means = _ours(TOTAL, MEANS * TOTAL, AGE)["mean_age"]
    shares = MEANS / 100
    each = 100 * size * np.sqrt(shares**2 + (1 - shares) ** 2) / TOTAL
    assert _error(means, MEANS).size == pytest.approx(np.sqrt(np.mean(each**2)), rel=0.12)
