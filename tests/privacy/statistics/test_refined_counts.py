"""Refined counts of statistics: a total by precision, counts that keep it, and other methods refused."""

from decimal import Decimal

import numpy as np
import pytest

from contracts.domains.lattice import ValueLattice
from contracts.release.tables.tables import Refine
from privacy.refine.negative_l2 import negative_l2
from privacy.refine.simplex import round_to_total
from privacy.statistics.table import NoisyCounts, common_total, refine_counts

WEIGHT = ValueLattice("w", Decimal(0), Decimal(9), Decimal("0.5"), False)
SIMPLEX = Refine.model_validate({"method": "simplex"})
SPARSER = Refine.model_validate({"method": "negative_l2", "lambda": "0.5"})


def counts(values: list[float], variance: float = 1.0, weight: ValueLattice | None = None) -> NoisyCounts:
    array = np.array(values)
    return NoisyCounts(array, variance, np.isnan(array), weight)


def test_the_total_is_the_average_of_the_sums_by_their_precision():
    """Excluded cells enter neither the sum nor the variance; a sum below 0 is none."""
    first, second = counts([60.0, 40.0, np.nan]), counts([130.0, 2.0, 1.0, 1.0], variance=3.0)
    assert common_total([first]) == 100
    assert common_total([first, second]) == round((100 / 2 + 134 / 12) / (1 / 2 + 1 / 12))
    assert common_total([counts([-5.0, 1.0])]) == 0
    assert common_total([counts([np.nan])]) == 0


@pytest.mark.stat
def test_the_common_total_errs_less_than_any_table():
    """stat: n = 4,000 releases of two tables. 0.5 is 13 deviations of the mean, 15 % are 6.7 of the variance: 1e-10.
    The variance of the average is 1 / (1/8 + 1/20) = 5.7, and of the better table 8. A weighting by the variances,
    which is wrong, gives 10.9, and would be found out."""
    random, found = np.random.default_rng(2), []
    for _ in range(4000):
        first = counts(list(100 + random.normal(0, 1, 8)), 1.0)
        second = counts(list(160 + random.normal(0, 2, 5)), 4.0)
        found.append(common_total([first, second]))
    assert abs(np.mean(found) - 800) < 0.5
    assert np.var(found) == pytest.approx(1 / (1 / 8 + 1 / 20), rel=0.15)


def test_refined_counts_are_whole_keep_the_total_and_have_no_negative_cell():
    tables = {
        "a": counts([60.3, -7.0, 0.4, 50.1]),
        "b": counts([30.0, 80.0]),
        "w": counts([7.0, 13.0], weight=WEIGHT),
    }
    for terms in (SIMPLEX, SPARSER):
        refined = refine_counts(tables, terms, public_total=None)
        assert refined["a"].dtype == refined["b"].dtype == np.int64
        assert refined["a"].sum() == refined["b"].sum()
        assert refined["w"].tolist() == [3.5, 6.5] or terms is SPARSER
        assert refined["w"].sum() == 10.0
        assert all((each >= 0).all() for each in refined.values())
    known = refine_counts(tables, SIMPLEX, public_total=105)
    assert (known["a"].sum(), known["b"].sum(), known["w"].sum()) == (105, 105, 10)


def test_excluded_cells_stay_empty_and_other_methods_are_refused():
    refined = refine_counts({"a": counts([9.0, np.nan, 1.0])}, SIMPLEX, public_total=None)
    assert refined["a"].tolist() == [9, 0, 1]
    with pytest.raises(ValueError, match="not refined by empirical_bayes"):
        refine_counts({}, Refine.model_validate({"method": "empirical_bayes"}), public_total=None)


@pytest.mark.parametrize("terms", [SIMPLEX, SPARSER], ids=["simplex", "negative_l2"])
@pytest.mark.parametrize("size", [1e9, 1e12, 1e13, 1e15, 8e15, 1e16, 1e18])
def test_counts_of_any_size_keep_the_total_of_their_weight(size: float, terms: Refine):
    """Sums are taken in whole steps: doubles of 53 bits hold each refined count exactly."""
    step = ValueLattice("w", Decimal(0), Decimal(9), Decimal(1), False)
    tables = {
        "a": counts([size, 2 * size + 0.25, -size / 1000, 5.5], size, step),
        "b": counts([3 * size, *[size / 7] * 3, -size / 3], size, step),
    }
    refined = refine_counts(tables, terms, public_total=None)
    first, second = (sum(map(int, refined[name].tolist())) for name in ("a", "b"))
    assert first == second == pytest.approx(common_total(list(tables.values())), rel=2.0**-50)
    assert all((each >= 0).all() for each in refined.values())
    taken = refined["a"][:2] - np.array([size, 2 * size])
    assert taken[0] == pytest.approx(taken[1], rel=1e-9, abs=2.0**-50 * size + 2) or terms is SPARSER


def test_a_public_total_is_kept_below_huge_noise():
    """The noisy counts have coarser grains then, and the total is still exact."""
    refined = refine_counts({"a": counts([5e15, 3.0, -7e15])}, SIMPLEX, public_total=1001)
    assert refined["a"].tolist() == [1001, 0, 0]


def test_tables_whose_noise_has_no_variance_in_doubles_have_a_total():
    assert common_total([counts([3.0, 4.0], 0.0), counts([9.0], 0.0)]) == 8


def test_small_counts_have_the_grain_of_a_1024th():
    """A second derivation: the projection of the noisy counts times 1024, up to 2^50 rows."""
    values = np.array([2.0**49, 2.0**48 + 0.125, 77.3, -3.0])
    grains = np.rint(values * 1024).astype(np.int64)
    total = round(float(values.sum()))
    direct = round_to_total(negative_l2(grains, total * 1024.0, lambda_=0.5) / 1024, total)
    assert refine_counts({"a": counts(values.tolist())}, SPARSER, public_total=None)["a"].tolist() == direct.tolist()
