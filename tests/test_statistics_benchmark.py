"""The statistics benchmark compares with what it says, and no verdict flatters us."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from benchmarks._statistics_data import Measured
from benchmarks.statistics import (
    Error,
    _alone,
    _comparison,
    _error,
    _expected,
    _expected_ratio,
    _laplace_error,
    ours,
    sum_alone,
    variances,
)
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
    """Far from 0 a sum that is drawn with its count is worse than one alone, however wide the repeats' doubt is."""
    joint = _expected(measured(17, 90), "1")["sum"] / _laplace_error(measured(17, 90), "1")
    assert joint == pytest.approx((17**2 + 90**2) ** 0.5 / 90, rel=1e-4)
    wide = Error(1.0, 0.5)
    assert _comparison(wide, wide, joint)["verdict"] == "larger"
    assert _comparison(wide, wide, _expected_ratio(measured(0, 90), "1"))["verdict"] == "not to be told apart"


@pytest.mark.parametrize(("low", "high"), [(17, 90), (-90, 90), (-5, 90), (-90, -20)])
def test_a_sum_alone_has_the_error_of_the_farthest_value(low: int, high: int) -> None:
    """As all peers have it, and no more; whole noise errs a little less than real noise of the same scale."""
    for epsilon in ("0.1", "1"):
        assert 0.99 < _expected_ratio(measured(low, high), epsilon) <= 1


def test_variances_without_noise_are_those_of_the_clipped_values() -> None:
    table = measured(10, 50)
    assert table.exact["variance"].tolist() == [0, 0, 25, 0]
    moments, terms = table.moments, {"width": 40, "whole": table.form.whole}
    found = variances(moments, **terms, epsilon=Fraction(10**6), source=SeededBytes(1))
    assert found == pytest.approx([0, 0, 25, 0], abs=1e-3)
    assert variances(moments * 0, **terms, epsilon=Fraction(10**9), source=SeededBytes(1)).tolist() == [200] * 4


@pytest.mark.stat
def test_a_sum_alone_has_the_error_of_the_formula() -> None:
    """n = 100,000; a relative error of 5 % is 14 standard errors: false alarms below 1e-9."""
    sums = np.broadcast_to(np.int64(1000), (25_000, 4))
    found = sum_alone(sums, reach=90, epsilon=Fraction(1, 2), source=SeededBytes(1))
    assert _error(found, np.full(4, 1000.0)).size == pytest.approx(_alone(measured(17, 90), "0.5"), rel=0.05)


def test_a_verdict_needs_three_standard_errors() -> None:
    sharp, dull = 0.001, 0.1
    assert _comparison(Error(1.1, sharp), Error(1.0, sharp), None)["verdict"] == "larger"
    assert _comparison(Error(0.9, sharp), Error(1.0, sharp), None)["verdict"] == "smaller"
    assert _comparison(Error(1.1, dull), Error(1.0, dull), None)["verdict"] == "not to be told apart"


def test_a_mean_that_is_infinite_has_an_infinite_error() -> None:
    assert _error(np.array([[1.0], [np.inf]]), np.array([1.0])).size == np.inf
