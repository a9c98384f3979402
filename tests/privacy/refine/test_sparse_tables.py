"""Refining the listed cells gives what refining the whole table gives; the threshold follows from what is listed."""

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from contracts.contract.cell_codes import ImpossibleCells
from contracts.release.tables.tables import Refine
from privacy.accounting.events import DiscreteLaplace
from privacy.noise.discrete_laplace import discrete_laplace
from privacy.noise.random_bytes import SeededBytes
from privacy.refine import sparse_depth
from privacy.refine import tables as sparse_tables
from privacy.refine.intervals import count_intervals, noise_intervals
from privacy.refine.sparse import SparseTable
from privacy.refine.sparse_depth import Depth, depth_of, expected_false_hits
from privacy.refine.tables import (
    ALL_ZERO,
    NO_SUM,
    NOTHING_LISTED,
    RESTRICTED,
    Refined,
    RefinedCells,
    refine_sparse_table,
    refine_table,
)

SHAPE = (40, 50)
ZEROS = ImpossibleCells(SHAPE, (((0, (3, 4)), (1, (0, 1, 2, 3))), ((1, (49,)),)), count=48)
NO_ZEROS = ImpossibleCells(SHAPE)
METHODS = [
    {"method": "simplex"},
    {"method": "simplex", "integers": False},
    {"method": "negative_l2", "lambda": "0.2"},
    {"method": "negative_l2", "lambda": "auto"},
    {"method": "negative_l2", "lambda": "auto", "integers": False},
    {"method": "none"},
]


def event(t: str) -> DiscreteLaplace:
    return DiscreteLaplace(Fraction(t), (1,))


def noisy_table(t: str, seed: int) -> NDArray[np.int64]:
    counts = np.zeros(2000, np.int64)
    counts[::37] = np.random.default_rng(seed).integers(1, 200, counts[::37].size)
    return counts + discrete_laplace(2000, inverse_scale=Fraction(t), source=SeededBytes(seed))


def drawn(noisy: NDArray[np.int64], depth: Depth) -> SparseTable:
    def at(threshold: int) -> SparseTable:
        codes = np.flatnonzero(noisy >= threshold)
        return SparseTable(codes, noisy[codes], threshold, noisy.size)

    table = at(depth.first)
    while (wanted := depth.next(table)) != table.threshold:
        table = at(wanted)
    return table


def both(
    noisy: NDArray[np.int64], terms: Refine, t: str, total: int, zeros: ImpossibleCells
) -> tuple[RefinedCells, Refined, SparseTable]:
    depth = depth_of(terms, cells=noisy.size, inverse_scale=Fraction(t), total=total, impossible=zeros)
    table = drawn(noisy, depth)
    sparse = refine_sparse_table(table, terms, impossible=zeros, total=total, event=event(t))
    mask = zeros.among(np.arange(noisy.size))
    dense = refine_table(noisy, terms, impossible=mask, total=total, event=event(t), ordered=())
    return sparse, dense, table


@pytest.mark.parametrize("zeros", [NO_ZEROS, ZEROS], ids=["no zeros", "zeros"])
@pytest.mark.parametrize("t", ["1/5", "1"])
@pytest.mark.parametrize("written", METHODS, ids=str)
def test_the_listed_cells_are_refined_as_the_whole_table(
    monkeypatch: pytest.MonkeyPatch, written: dict[str, object], t: str, zeros: ImpossibleCells
):
    """Starting where 5 empty cells are expected, and lowered as needed; values, λ and estimated error agree."""
    monkeypatch.setattr(sparse_depth, "FALSE_HITS", 5)
    terms = Refine.model_validate(written)
    for seed in range(8):
        noisy = noisy_table(t, seed)
        total = int(noisy.sum()) // 2
        sparse, dense, table = both(noisy, terms, t, total, zeros)
        spread = np.zeros(noisy.size, dense.values.dtype)
        spread[sparse.codes] = sparse.values
        if terms.method == "none":
            assert np.array_equal(spread, np.where(noisy >= table.threshold, dense.values, 0))
        else:
            assert RESTRICTED not in sparse.notes
            assert np.array_equal(spread, dense.values)
        assert (sparse.method, sparse.lambda_, sparse.chosen) == (dense.method, dense.lambda_, dense.chosen)
        assert sparse.estimated_rmse == pytest.approx(dense.estimated_rmse)
        assert (sparse.values > 0).all()


def test_lambda_auto_counts_the_cells_that_are_not_listed(monkeypatch: pytest.MonkeyPatch):
    """The wrong case: without the absent cells another λ is chosen, and the error is another one."""
    from privacy.refine.lambda_choice import choose_lambda_auto

    monkeypatch.setattr(sparse_depth, "FALSE_HITS", 5)
    noisy = noisy_table("1/5", 1)
    terms = Refine.model_validate({"method": "negative_l2", "lambda": "auto"})
    sparse, _, table = both(noisy, terms, "1/5", int(noisy.sum()) // 2, NO_ZEROS)
    alone = choose_lambda_auto(table.values, int(noisy.sum()) // 2, event=event("1/5"), integers=True)
    assert sparse.lambda_ is not None
    assert float(sparse.lambda_) != alone.lambda_
    assert sparse.estimated_rmse["negative_l2"] != pytest.approx(alone.expected_rmse, rel=0.1)


@pytest.mark.parametrize("written", METHODS[:4], ids=str)
def test_a_threshold_follows_from_the_listed_cells_and_another_one_is_refused(
    monkeypatch: pytest.MonkeyPatch, written: dict[str, object]
):
    """Neither a higher nor a lower one passes, with the cells that such a threshold would list."""
    monkeypatch.setattr(sparse_depth, "FALSE_HITS", 5)
    terms, t = Refine.model_validate(written), "1/5"
    noisy = noisy_table(t, 3)
    total = int(np.maximum(noisy - 6, 0).sum())
    depth = depth_of(terms, cells=noisy.size, inverse_scale=Fraction(t), total=total, impossible=NO_ZEROS)
    table = drawn(noisy, depth)
    assert depth.first > table.threshold > 1
    assert depth.follow(table) == table.threshold
    for other in (table.threshold - 1, table.threshold + 1, depth.first):
        codes = np.flatnonzero(noisy >= other)
        forged = SparseTable(codes, noisy[codes], other, noisy.size)
        with pytest.raises(ValueError, match="threshold must be where the draw of these cells ends"):
            refine_sparse_table(forged, terms, impossible=NO_ZEROS, total=total, event=event(t))


def test_totals_of_zero_and_below_leave_nothing_and_ask_for_nothing():
    noisy = noisy_table("1", 2)
    for total, notes in ((0, (ALL_ZERO,)), (-3, (NO_SUM, ALL_ZERO))):
        sparse, dense, table = both(noisy, Refine.model_validate(METHODS[3]), "1", total, NO_ZEROS)
        assert (sparse.codes.size, sparse.total, sparse.notes) == (0, 0, notes)
        assert dense.notes == notes
        assert table.threshold == 1


def test_a_total_that_is_out_of_reach_is_reached_by_the_listed_cells_and_told(monkeypatch: pytest.MonkeyPatch):
    """Nothing is drawn below the least threshold, whatever the total asks for."""
    monkeypatch.setattr(sparse_depth, "FALSE_HITS", 5)
    monkeypatch.setattr(sparse_depth, "MOST_FALSE_HITS", 40)
    noisy = noisy_table("1/5", 4)
    terms = Refine(method="simplex")
    depth = depth_of(terms, cells=2000, inverse_scale=Fraction(1, 5), total=10**6, impossible=NO_ZEROS)
    sparse, _, table = both(noisy, terms, "1/5", 10**6, NO_ZEROS)
    assert table.threshold == depth.least > 1
    assert sparse.values.sum() == 10**6
    assert sparse.notes == (RESTRICTED,)


def test_no_listed_cell_leaves_zeros_and_says_so():
    nothing = SparseTable(np.empty(0, np.int64), np.empty(0, np.int64), 1, 2000)
    for written in METHODS[:4]:
        terms = Refine.model_validate(written)
        made = refine_sparse_table(nothing, terms, impossible=NO_ZEROS, total=7, event=event("1"))
        assert (made.codes.size, made.total, made.notes) == (0, 0, (NOTHING_LISTED,))


@pytest.mark.parametrize("written", [{"method": "empirical_bayes"}, {"method": "negative_l2", "sparsity": "0.1"}])
def test_other_methods_are_refused(written: dict[str, object]):
    table = SparseTable(np.array([3]), np.array([9]), 1, 2000)
    with pytest.raises(ValueError, match="none, simplex, negative_l2"):
        refine_sparse_table(table, Refine.model_validate(written), impossible=NO_ZEROS, total=7, event=event("1"))


def test_thresholds_come_from_the_size_of_the_domain_and_the_noise_alone():
    """10^9 cells, t = 1: at the first threshold at most 100,000 empty cells are expected, one lower more."""
    terms = Refine(method="none")
    depth = depth_of(terms, cells=10**9, inverse_scale=Fraction(1), total=None, impossible=NO_ZEROS)
    assert (depth.first, depth.least) == (9, 5)
    for threshold, most in ((depth.first, 100_000), (depth.least, 2**23)):
        assert expected_false_hits(10**9, Fraction(1), threshold) <= most
        assert expected_false_hits(10**9, Fraction(1), threshold - 1) > most
    with pytest.raises(ValueError, match="needs a total"):
        depth_of(Refine(method="simplex"), cells=9, inverse_scale=Fraction(1), total=None, impossible=NO_ZEROS)


@pytest.mark.parametrize("t", ["1/5", "1", "3"])
@pytest.mark.parametrize("method", ["none", "simplex"])
def test_the_interval_of_an_unlisted_cell_holds_that_of_whatever_it_shows(t: str, method: str):
    """Every noisy value below the threshold has its dense interval, cut off at 0, inside of 0 to absent_upper."""
    terms = Refine.model_validate({"method": method})
    depth = Depth(Fraction(t), 12, 12, None, NO_ZEROS)
    listed = SparseTable(np.array([7]), np.array([90]), 12, 2000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse_tables, "depth_of", lambda *_, **__: depth)
        made = refine_sparse_table(listed, terms, impossible=NO_ZEROS, total=90, event=event(t))
    below = np.arange(-200, 12)
    dense = (noise_intervals if method == "none" else count_intervals)(below, event(t))
    assert dense.upper.max() == made.absent_upper
    assert np.array_equal(np.maximum.accumulate(dense.upper), dense.upper)
    assert made.intervals.lower[0] <= 90 <= made.intervals.upper[0]
