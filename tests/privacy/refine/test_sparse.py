"""The sparse refinement is the dense one's, cell by cell, whatever the threshold that it starts from."""

from fractions import Fraction
from math import exp

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from privacy.noise.discrete_laplace import discrete_laplace
from privacy.noise.random_bytes import SeededBytes
from privacy.noise.sparse_laplace import SparseLaplace
from privacy.refine.negative_l2 import negative_l2
from privacy.refine.simplex import project_simplex, round_to_total
from privacy.refine.simplex import threshold as theta_of
from privacy.refine.sparse import (
    SparseRefined,
    SparseTable,
    default_threshold,
    laplace_excess,
    next_threshold,
    sparse_negative_l2,
)

T = Fraction(1, 3)


class FullTable:
    """A noisy table that a test knows whole, shown from the top down; it counts how often it was asked."""

    def __init__(self, noisy: NDArray[np.int64]) -> None:
        self.noisy = noisy
        self.asked: list[int] = []

    def at(self, threshold: int) -> SparseTable:
        codes = np.flatnonzero(self.noisy >= threshold)
        return SparseTable(codes, self.noisy[codes], threshold, self.noisy.size)

    def lower(self, threshold: int) -> SparseTable:
        self.asked.append(threshold)
        return self.at(threshold)


def refine(
    full: FullTable, total: float, *, threshold: int, lambda_: float = 0.0, least: int = 1, t: Fraction = T
) -> SparseRefined:
    return sparse_negative_l2(
        full.at(threshold), total, lambda_=lambda_, lower=full.lower, excess=laplace_excess(t), least_threshold=least
    )


def spread(refined: SparseRefined, cells: int) -> NDArray[np.float64]:
    dense = np.zeros(cells)
    dense[refined.codes] = refined.values
    return dense


@pytest.mark.long
@settings(max_examples=400, deadline=None, derandomize=True)
@given(
    noisy=st.lists(st.integers(-9, 30), min_size=1, max_size=25),
    total=st.integers(1, 200),
    lambda_=st.sampled_from([0.0, 0.03, 0.5, 0.9]),
    threshold=st.integers(1, 40),
)
def test_the_result_is_the_dense_one_wherever_theta_is_not_below_zero(
    noisy: list[int], total: int, lambda_: float, threshold: int
):
    full = FullTable(np.array(noisy, np.int64))
    refined = refine(full, total, threshold=threshold, lambda_=lambda_)
    reaches = np.maximum(full.noisy, 0).sum() >= (1 - lambda_) * total - 1e-9
    assert full.asked == sorted(set(full.asked), reverse=True)
    assert all(1 <= asked < threshold for asked in full.asked)
    assert (refined.values > 0).all()
    assert refined.restricted == (not reaches)
    if reaches:
        dense = negative_l2(full.noisy, total, lambda_=lambda_)
        assert np.array_equal(spread(refined, len(noisy)), dense)
    elif (full.noisy >= 1).any():
        positive = full.noisy >= 1
        held = negative_l2(full.noisy[positive], total, lambda_=lambda_)
        assert np.allclose(spread(refined, len(noisy))[positive], held)
    else:
        assert refined.codes.size == 0


@pytest.mark.parametrize("t", [Fraction(1, 10), Fraction(1), Fraction(4)])
@pytest.mark.parametrize("lambda_", [0.0, 0.1])
def test_the_whole_table_is_refined_and_rounded_alike(t: Fraction, lambda_: float):
    """20,000 cells, 2 % populated, exact noise; thresholds from far too high to 1; bit for bit."""
    counts = np.zeros(20_000, np.int64)
    counts[::50] = 1 + np.arange(400) * 3
    noisy = counts + discrete_laplace(counts.size, inverse_scale=t, source=SeededBytes(1))
    total, full = int(counts.sum()), FullTable(noisy)
    dense = negative_l2(noisy, total, lambda_=lambda_)
    if not lambda_:
        assert np.array_equal(dense, project_simplex(noisy, total))
    whole = round_to_total(dense, total)
    for threshold in (10_000, 400, 30, 5, 1):
        refined = refine(full, total, threshold=threshold, lambda_=lambda_, t=t)
        assert not refined.restricted
        assert np.array_equal(spread(refined, noisy.size), dense)
        rounded = np.zeros(noisy.size, np.int64)
        rounded[refined.codes] = round_to_total(refined.values, total)
        assert np.array_equal(rounded, whole)


def test_the_sparse_draw_is_refined_as_any_table_that_agrees_with_it():
    """What is absent reads "< tau": filled in at will, the dense refinement stays the same; 10^6 cells."""
    cells, t = 10**6, Fraction(1, 2)
    codes = np.arange(0, cells, 997)
    counts = np.arange(codes.size) % 300
    source = SeededBytes(2)
    drawn = SparseLaplace(codes, counts, cells=cells, inverse_scale=t, threshold=40, source=source)

    def lower(threshold: int) -> SparseTable:
        return SparseTable(*drawn.lower(threshold), threshold, cells)

    first = SparseTable(*drawn.drawn(), drawn.threshold, cells)
    refined = sparse_negative_l2(
        first, counts.sum(), lambda_=0.0, lower=lower, excess=laplace_excess(t), least_threshold=1
    )
    assert drawn.threshold < 40
    assert refined.measured.threshold == drawn.threshold
    for absent in (drawn.threshold - 1, 0, -50):
        noisy = np.full(cells, absent)
        noisy[drawn.drawn()[0]] = drawn.drawn()[1]
        assert np.array_equal(spread(refined, cells), project_simplex(noisy, int(counts.sum())))


def test_too_high_a_threshold_without_asking_for_more_is_caught():
    """The wrong case: theta found from what is drawn alone, though it lies under tau - 1."""
    full = FullTable(np.array([9, 5, 5, 4, 3, 0, -2]))
    alone = refine(full, 12, threshold=9, least=9)
    assert alone.restricted
    assert not np.allclose(spread(alone, 7), project_simplex(full.noisy, 12))
    assert np.allclose(spread(refine(full, 12, threshold=9), 7), project_simplex(full.noisy, 12))


def test_a_theta_on_the_edge_needs_nothing_below_and_one_under_it_does():
    """tau = 4. theta = tau - 1 exactly: a cell of 3 becomes 0. One unit more: theta < 3, and that cell counts."""
    full = FullTable(np.array([10, 6, 3, 1]))
    on = refine(full, 10, threshold=4)
    assert (spread(on, 4).tolist(), full.asked, on.restricted) == ([7.0, 3.0, 0.0, 0.0], [], False)
    under = refine(full, 11, threshold=4)
    assert full.asked
    assert np.allclose(spread(under, 4), project_simplex(full.noisy, 11))
    assert spread(under, 4)[2] > 0


@pytest.mark.parametrize("t", [Fraction(1, 10), Fraction(1, 2), Fraction(2)])
def test_the_guess_lands_on_the_threshold_that_is_needed_and_seldom_asks_twice(t: Fraction):
    """100,000 cells, 1 % populated; starting ten scales too high, at most two rounds, never far under the need."""
    counts = np.zeros(100_000, np.int64)
    counts[::100] = 400
    noisy = counts + discrete_laplace(counts.size, inverse_scale=t, source=SeededBytes(3))
    full = FullTable(noisy)
    refined = refine(full, int(counts.sum()), threshold=300, t=t)
    assert len(full.asked) <= 2
    theta = theta_of(noisy, int(counts.sum()))
    assert 0 <= theta - (refined.measured.threshold - 1) <= max(1, int(1 / (2 * t)))


def test_nothing_drawn_and_nothing_reached_are_told():
    nothing = refine(FullTable(np.array([-3, 0, -1])), 5, threshold=3)
    assert nothing.restricted
    assert nothing.codes.size == nothing.values.size == 0
    zero = refine(FullTable(np.array([4, 0])), 0, threshold=3)
    assert zero.codes.size == 0
    assert not zero.restricted


def test_the_next_threshold_always_goes_down_and_never_under_its_limit():
    table = FullTable(np.array([50, 40, 2])).at(30)
    for least in (1, 10, 29):
        for target in (Fraction(321, 10), Fraction(65), Fraction(90), Fraction(10**6)):
            lower = next_threshold(table, target, excess=laplace_excess(T), least_threshold=least)
            assert least <= lower < 30
            assert lower >= (90 - target) / 2  # theta_S
    assert next_threshold(table, Fraction(32), excess=laplace_excess(T), least_threshold=1) == 30
    assert next_threshold(table, Fraction(80), excess=laplace_excess(T), least_threshold=30) == 30


def test_sums_beyond_64_bits_are_exact():
    """Four cells of 2^62 - 1 and their projection: theta_S from a wrapped sum would be negative."""
    full = FullTable(np.array([2**62 - 1] * 4 + [0] * 96))
    refined = refine(full, 2**40, threshold=2)
    assert full.asked == []
    assert refined.values.tolist() == [2.0**38] * 4


@pytest.mark.parametrize("t", [Fraction(1, 100), Fraction(1), Fraction(5)])
def test_the_expected_excess_is_the_sum(t: Fraction):
    r = exp(-float(t))
    x = np.arange(0, 20_000)
    mass = (1 - r) / (1 + r) * r**x
    for m in (0, 1, 7, 300):
        assert np.isclose(laplace_excess(t)(m), (np.maximum(x - m, 0) * mass).sum(), rtol=1e-9)
        if m:
            hit = laplace_excess(t)(m - 1) - laplace_excess(t)(m)
            assert np.isclose(hit, r**m / (1 + r), rtol=1e-9)


@pytest.mark.parametrize(
    ("cells", "t", "tau"), [(10**12, Fraction(1), 14), (4096**2, Fraction(1, 10), 22), (100, T, 1)]
)
def test_the_default_threshold_is_the_smallest_with_few_false_hits(cells: int, t: Fraction, tau: int):
    """10^12 e^-14 / (1 + 1/e) = 607,896 <= 10^6 < 1,652,434 at 13."""
    assert default_threshold(cells, t) == tau
    r = exp(-float(t))
    for false_hits in (1, 1000, 10**6):
        found = default_threshold(cells, t, false_hits=false_hits)
        assert cells * r**found / (1 + r) <= false_hits * (1 + 1e-9)
        assert found == 1 or cells * r ** (found - 1) / (1 + r) > false_hits * (1 - 1e-9)


@pytest.mark.parametrize(
    ("given", "argument"),
    [
        ({"total": -1.0}, "total"),
        ({"total": float("nan")}, "total"),
        ({"total": float("inf")}, "total"),
        ({"lambda_": 1.0}, "lambda"),
        ({"lambda_": -0.1}, "lambda"),
        ({"lambda_": float("nan")}, "lambda"),
        ({"least": 0}, "least_threshold"),
    ],
)
def test_bad_input_is_refused_by_name(given: dict[str, float], argument: str):
    asked: dict[str, float] = {"total": 5.0, "threshold": 1, **given}
    with pytest.raises(ValueError, match=argument):
        refine(FullTable(np.array([3, 4])), **asked)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cells", "t", "hits", "argument"),
    [(0, T, 1, "cells"), (2**63, T, 1, "cells"), (5, Fraction(0), 1, "inverse_scale"), (5, T, 0, "false_hits")],
)
def test_public_parameters_out_of_their_limits_are_refused(cells: int, t: Fraction, hits: int, argument: str):
    with pytest.raises(ValueError, match=argument):
        default_threshold(cells, t, false_hits=hits)
