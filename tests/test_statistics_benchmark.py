"""The statistics benchmark compares with what it says, and no verdict flatters us."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from benchmarks._statistics_data import Measured
from benchmarks.statistics import Error, _comparison, _error, _expected, _expected_ratio, ours
from privacy.noise.random_bytes import SeededBytes


def measured(low: int, high: int) -> Measured:
    values = np.array([5, 20, 90, 40, 60], dtype=np.int64)
    return Measured("made up", "years", tuple("nnsss"), tuple("fmffm"), values, low, high)


def test_the_exact_statistics_are_those_of_the_clipped_values() -> None:
    """Cells are every region with every sex; 5 is clipped to 10 and 90 to 50."""
    table = measured(10, 50)
    assert table.cells == (("n", "f"), ("n", "m"), ("s", "f"), ("s", "m"))
    assert table.counts.tolist() == [1, 1, 2, 1]
    assert table.above.tolist() == [0, 10, 70, 40]
    assert table.below.tolist() == [40, 30, 10, 0]
    assert table.exact["sum"].tolist() == [10, 20, 90, 50]


def test_noise_that_is_almost_nothing_gives_the_exact_statistics() -> None:
    """At epsilon 4,000 a draw differs from 0 with probability below 1e-40; an empty cell's mean is the middle."""
    above, below = np.array([0, 10, 70, 0]), np.array([40, 30, 10, 0])
    found = ours(above, below, low=10, high=50, width=40, epsilon=Fraction(4000), source=SeededBytes(1))
    assert found["count"].tolist() == [1, 1, 2, 0]
    assert found["sum"].tolist() == [10, 20, 90, 0]
    assert found["mean"].tolist() == [10, 20, 45, 30]


@pytest.mark.stat
def test_counts_and_sums_have_the_errors_of_the_formula() -> None:
    """n = 100,000 draws of each of two; a relative error of 5 % is 14 standard errors: false alarms below 1e-9."""
    table, shape = measured(17, 90), (25_000, 4)
    above, below = (np.broadcast_to(values, shape) for values in (table.above, table.below))
    found = ours(above, below, low=17, high=90, width=73, epsilon=Fraction(1, 2), source=SeededBytes(1))
    for statistic, size in _expected(table, "0.5").items():
        exact = table.exact[statistic]
        wider = exact + 1.1 * (found[statistic] - exact)
        assert _error(found[statistic], exact).size == pytest.approx(size, rel=0.05)
        assert _error(wider, exact).size != pytest.approx(size, rel=0.05)


def test_a_larger_error_is_never_called_equal_where_a_formula_says_so() -> None:
    """Far from 0 our sum alone is worse than noise on the sum itself, however wide the repeats' doubt is."""
    assert _expected_ratio(measured(17, 90), "1") == pytest.approx((17**2 + 90**2) ** 0.5 / 90, rel=1e-4)
    wide = Error(1.0, 0.5)
    assert _comparison(wide, wide, _expected_ratio(measured(17, 90), "1"))["verdict"] == "larger"
    assert _comparison(wide, wide, _expected_ratio(measured(0, 90), "1"))["verdict"] == "not to be told apart"


def test_a_verdict_needs_three_standard_errors() -> None:
    sharp, dull = 0.001, 0.1
    assert _comparison(Error(1.1, sharp), Error(1.0, sharp), None)["verdict"] == "larger"
    assert _comparison(Error(0.9, sharp), Error(1.0, sharp), None)["verdict"] == "smaller"
    assert _comparison(Error(1.1, dull), Error(1.0, dull), None)["verdict"] == "not to be told apart"


def test_a_mean_that_is_infinite_has_an_infinite_error() -> None:
    assert _error(np.array([[1.0], [np.inf]]), np.array([1.0])).size == np.inf
