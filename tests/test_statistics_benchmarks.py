"""The benchmarks of statistics, of keys and distinct counts, and of weights compare with what they say."""

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from math import sqrt

import numpy as np
import pytest

from benchmarks._distinct_peers import Answers, Question
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
from benchmarks.statistics_distinct import (
    CELLS,
    DELTA,
    ROWS,
    _count_row,
    _key_rows,
    laplace_error,
    optimal_chances,
    several_rows,
    zipf_people,
)
from benchmarks.statistics_weighted import CLIP, WEIGHT, _ours, _summed
from contracts.domains.lattice import ValueLattice
from privacy.accounting.key_law import ONE, keep_chances
from privacy.noise.random_bytes import SeededBytes


def measured(low: int, high: int) -> Measured:
    values = np.array([5, 20, 90, 40, 60], dtype=np.int64)
    return Measured("made up", "years", tuple("nnsss"), tuple("fmffm"), values, low, high)


def test_the_exact_statistics_are_those_of_the_clipped_values():
    """Cells are every region with every sex; 5 is clipped to 10 and 90 to 50."""
    table = measured(10, 50)
    assert table.cells == (("n", "f"), ("n", "m"), ("s", "f"), ("s", "m"))
    assert table.counts.tolist() == [1, 1, 2, 1]
    assert table.above.tolist() == [0, 10, 70, 40]
    assert table.below.tolist() == [40, 30, 10, 0]
    assert table.exact["sum"].tolist() == [10, 20, 90, 50]


def test_noise_that_is_almost_nothing_gives_the_exact_statistics():
    """At epsilon 4,000 a draw differs from 0 with probability below 1e-40; an empty cell's mean is the middle."""
    above, below = np.array([0, 10, 70, 0]), np.array([40, 30, 10, 0])
    found = ours(above, below, low=10, high=50, width=40, epsilon=Fraction(4000), source=SeededBytes(1))
    assert found["count"].tolist() == [1, 1, 2, 0]
    assert found["sum"].tolist() == [10, 20, 90, 0]
    assert found["mean"].tolist() == [10, 20, 45, 30]


@pytest.mark.stat
def test_counts_and_sums_have_the_errors_of_the_formula():
    """n = 100,000 draws of each of two; a relative error of 5 % is 14 standard errors: false alarms below 1e-9."""
    table, shape = measured(17, 90), (25_000, 4)
    above, below = (np.broadcast_to(values, shape) for values in (table.above, table.below))
    found = ours(above, below, low=17, high=90, width=73, epsilon=Fraction(1, 2), source=SeededBytes(1))
    for statistic, size in _expected(table, "0.5").items():
        exact = table.exact[statistic]
        wider = exact + 1.1 * (found[statistic] - exact)
        assert _error(found[statistic], exact).size == pytest.approx(size, rel=0.05)
        assert _error(wider, exact).size != pytest.approx(size, rel=0.05)


def test_a_larger_error_is_never_called_equal_where_a_formula_says_so():
    """Far from 0 a sum that is drawn with its count is worse than one alone, however wide the repeats' doubt is."""
    joint = _expected(measured(17, 90), "1")["sum"] / _laplace_error(measured(17, 90), "1")
    assert joint == pytest.approx((17**2 + 90**2) ** 0.5 / 90, rel=1e-4)
    wide = Error(1.0, 0.5)
    assert _comparison(wide, wide, joint)["verdict"] == "larger"
    assert _comparison(wide, wide, _expected_ratio(measured(0, 90), "1"))["verdict"] == "not to be told apart"


@pytest.mark.parametrize(("low", "high"), [(17, 90), (-90, 90), (-5, 90), (-90, -20)])
def test_a_sum_alone_has_the_error_of_the_farthest_value(low: int, high: int):
    """As all peers have it, and no more; whole noise errs a little less than real noise of the same scale."""
    for epsilon in ("0.1", "1"):
        assert 0.99 < _expected_ratio(measured(low, high), epsilon) <= 1


def test_variances_without_noise_are_those_of_the_clipped_values():
    table = measured(10, 50)
    assert table.exact["variance"].tolist() == [0, 0, 25, 0]
    moments, terms = table.moments, {"width": 40, "whole": table.form.whole}
    found = variances(moments, **terms, epsilon=Fraction(10**6), source=SeededBytes(1))
    assert found == pytest.approx([0, 0, 25, 0], abs=1e-3)
    assert variances(moments * 0, **terms, epsilon=Fraction(10**9), source=SeededBytes(1)).tolist() == [200] * 4


@pytest.mark.stat
def test_a_sum_alone_has_the_error_of_the_formula():
    """n = 100,000; a relative error of 5 % is 14 standard errors: false alarms below 1e-9."""
    sums = np.broadcast_to(np.int64(1000), (25_000, 4))
    found = sum_alone(sums, reach=90, epsilon=Fraction(1, 2), source=SeededBytes(1))
    assert _error(found, np.full(4, 1000.0)).size == pytest.approx(_alone(measured(17, 90), "0.5"), rel=0.05)


def test_a_verdict_needs_three_standard_errors():
    sharp, dull = 0.001, 0.1
    assert _comparison(Error(1.1, sharp), Error(1.0, sharp), None)["verdict"] == "larger"
    assert _comparison(Error(0.9, sharp), Error(1.0, sharp), None)["verdict"] == "smaller"
    assert _comparison(Error(1.1, dull), Error(1.0, dull), None)["verdict"] == "not to be told apart"


def test_a_mean_that_is_infinite_has_an_infinite_error():
    assert _error(np.array([[1.0], [np.inf]]), np.array([1.0])).size == np.inf


UNITS = np.bincount(zipf_people(20_000).key)


@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(1, 2), Fraction(3)])
def test_the_optimum_is_that_of_the_theorem_and_our_coins_reach_it(epsilon: Fraction):
    """Two computations of one recursion, in other numbers; a rule with half of delta is told apart."""
    found = optimal_chances(epsilon, DELTA, 10**6)
    ours = [chance / ONE for chance in keep_chances(epsilon, DELTA)]
    assert len(found) == len(ours)
    assert np.allclose(found, ours, rtol=1e-9, atol=1e-15)
    assert not np.allclose(
        found, [chance / ONE for chance in keep_chances(epsilon, DELTA / 2)][: len(found)], rtol=1e-3
    )


def test_the_error_by_formula_is_that_of_the_distribution():
    """Summed over the integers; the continuous law's is larger."""
    for rows in (1, 3, 10):
        ratio = np.exp(-1 / rows)
        places = np.arange(-4000, 4001)
        mass = (1 - ratio) / (1 + ratio) * ratio ** np.abs(places)
        assert laplace_error(Fraction(1, rows)) == pytest.approx(sqrt(float((mass * places**2).sum())))
        assert laplace_error(Fraction(1, rows)) < sqrt(2) * rows


@pytest.mark.stat
def test_keys_reach_the_optimum_and_a_peer_that_publishes_more_is_a_miss():
    """n = 2,000 selections against the expected number: beyond 3 standard errors with probability 0.003, so 6 here.

    False alarm below 1e-8. A peer's number above ours is written as a target that does not hold.
    """
    asked = Question("PipelineDP", "keys", 2)
    more = Answers(asked, {"seconds": 1.0, "versions": {}}, np.array([[9000.0], [9001.0]]))
    alone, _, coverage, near = _key_rows(UNITS, [more])
    assert coverage.holds is True
    assert alone.holds is False
    assert near.measured is not None
    assert near.measured <= 6 * float(str(near.settings["standard_error"]))
    assert _key_rows(UNITS, [replace(more, noisy=np.array([[10.0], [11.0]]))])[0].holds is True


@pytest.mark.stat
def test_the_error_of_units_is_that_of_three_rows_and_a_better_peer_is_a_miss():
    """n = 200,000 noisy numbers: 3 % is over 10 standard errors, a false alarm below 1e-20.

    One row's noise is a third.
    """
    people = several_rows()
    exact = np.array([len(np.unique(people.person[people.key == cell])) for cell in range(CELLS)], dtype=np.float64)
    asked = Question("OpenDP", "units", 100)
    near = Answers(asked, {"versions": {}}, exact + np.tile([[1.0], [-1.0]], (50, CELLS)))
    row = _count_row("units", people, [near])
    assert row.holds is False
    assert row.settings["rmse_simulated"] == pytest.approx(laplace_error(Fraction(1, ROWS)), rel=0.03)
    assert row.settings["rmse_simulated"] != pytest.approx(laplace_error(Fraction(1)), rel=0.5)
    assert _count_row("values", people, []).measured == row.measured


def test_the_rows_of_people_are_those_that_they_are_said_to_be():
    """People of one key each, most keys of one person; three rows each of 12,000 others."""
    several = several_rows()
    assert UNITS.sum() == 20_000
    assert np.median(UNITS) == 1
    assert np.bincount(several.person).tolist() == [ROWS] * 12_000
    assert set(several.key.tolist()) == set(range(CELLS))


AGE = ValueLattice("age", Decimal(0), Decimal(100), Decimal(1), counts_missing=False, weight=WEIGHT)
TOTAL = np.array([200_000.0, 400_000.0])
MEANS = np.array([50.0, 20.0])


def test_a_weight_is_added_up_by_place_alone():
    """The second key is the same for all rows; values are clipped before they are added up."""
    table = _summed("weights", "people", ("b", "a", "b"), np.array([500, 7, 3]), 0, CLIP)
    assert table.cells == (("a", "all"), ("b", "all"))
    assert table.exact["sum"].tolist() == [7, 403]


@pytest.mark.stat
def test_counts_and_means_have_the_errors_of_the_noise_that_hides_the_largest_weight():
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
