"""Counts at several resolutions: split, weighted least squares on the tree, whole numbers from the top down."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from privacy.refine.hierarchy import (
    check_tree,
    consistent_variances,
    make_consistent,
    quadtree,
    round_tree,
    split_budget,
)

PARENTS = (np.array([0, 0, 1]), np.array([0, 0, 1, 2, 2, 2, 2]))
SIZES = [2, 3, 7]


def aggregation(parents: tuple[NDArray[np.int64], ...]) -> list[NDArray[np.float64]]:
    matrices = [np.eye(parents[-1].size)]
    for parent in reversed(parents):
        sums = np.zeros((parent.max() + 1, parent.size))
        sums[parent, np.arange(parent.size)] = 1
        matrices.insert(0, sums @ matrices[0])
    return matrices


@settings(max_examples=30)
@given(st.integers(0, 2**32), st.sampled_from([None, 40]))
def test_the_two_passes_are_weighted_least_squares(seed: int, total: int | None):
    """Against the dense normal equations, with a known total as an observation of almost no variance."""
    rng = np.random.default_rng(seed)
    noisy = [rng.integers(-20, 60, size) for size in SIZES]
    variances = [2.0, 7.5, 0.4]
    matrices = aggregation(PARENTS)
    rows, seen = np.vstack(matrices), np.concatenate(noisy).astype(float)
    weight = np.repeat(1 / np.array(variances), SIZES)
    if total is not None:
        rows, seen, weight = np.vstack([rows, np.ones(7)]), np.append(seen, total), np.append(weight, 1e9)
    leaves = np.linalg.solve((rows.T * weight) @ rows, (rows.T * weight) @ seen)
    for matrix, level in zip(matrices, make_consistent(noisy, variances, PARENTS, total=total), strict=True):
        np.testing.assert_allclose(level, matrix @ leaves, atol=1e-5)


@given(st.integers(0, 2**32), st.integers(0, 300))
def test_whole_counts_add_up_and_are_not_negative(seed: int, total: int):
    rng = np.random.default_rng(seed)
    levels = round_tree([rng.normal(10, 20, size) for size in SIZES], PARENTS, total=total)
    assert levels[0].sum() == total
    for parent, above, below in zip(PARENTS, levels, levels[1:], strict=False):
        np.testing.assert_array_equal(np.bincount(parent, weights=below), above)
    assert min(level.min() for level in levels) >= 0


def test_whole_consistent_counts_stay_as_they_are():
    leaves = np.array([4, 0, 9, 1, 2, 3, 4])
    levels = [matrix @ leaves for matrix in aggregation(PARENTS)]
    for before, after in zip(levels, round_tree(levels, PARENTS, total=23), strict=True):
        np.testing.assert_array_equal(before, after)


def test_the_variance_after_consistency_is_that_of_the_normal_equations():
    parents = (np.repeat(np.arange(2), 3), np.repeat(np.arange(6), 2))
    matrices = aggregation(parents)
    variances = np.array([3.0, 1.0, 0.5])
    rows = np.vstack(matrices)
    weight = np.repeat(1 / variances, [2, 6, 12])
    spread = np.linalg.inv((rows.T * weight) @ rows)
    exact = [float((matrix @ spread @ matrix.T)[0, 0]) for matrix in matrices]
    np.testing.assert_allclose(consistent_variances([2, 6, 12], variances, False), exact)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_the_split_beats_an_even_one_and_spends_no_more_than_everything(noise: str):
    sizes, weights = [1, 12, 144, 3000], [1.0, 1.0, 1.0, 1.0]
    shares = split_budget(sizes, weights=weights, noise=noise, total_known=False)  # type: ignore[arg-type]
    power = 2 if noise == "laplace" else 1
    assert min(shares) > 0
    assert sum(shares) <= 1

    def loss(split: NDArray[np.float64]) -> float:
        return float(consistent_variances(sizes, split**-power, False) @ weights)

    best = loss(np.array([float(share) for share in shares]))
    assert best < loss(np.full(4, 0.25))
    for seed in range(50):
        assert best <= loss(np.random.default_rng(seed).dirichlet(np.full(4, 5.0))) * (1 + 1e-4)


def test_a_single_level_gets_everything():
    assert split_budget([9], weights=[1.0], noise="laplace", total_known=False)[0] >= Fraction(999_999, 10**6)


@pytest.mark.parametrize(("rows", "columns", "depth"), [(8, 8, 3), (5, 7, 2), (1, 1, 0), (3, 9, 4)])
def test_a_quadtree_partitions_any_mesh(rows: int, columns: int, depth: int):
    parents = quadtree(rows, columns, depth)
    sizes = [-(-rows >> level) * -(-columns >> level) for level in range(depth, -1, -1)]
    check_tree(sizes, parents)


def test_a_quadtree_of_four_by_four_has_the_known_blocks():
    (parent,) = quadtree(4, 4, 1)
    assert parent.reshape(4, 4).tolist() == [[0, 0, 1, 1], [0, 0, 1, 1], [2, 2, 3, 3], [2, 2, 3, 3]]


@pytest.mark.parametrize(
    "parents",
    [
        (np.array([0, 0]), PARENTS[1]),
        (np.array([0, 0, 2]), PARENTS[1]),
        (np.array([-1, 0, 1]), PARENTS[1]),
        (np.array([0, 0, 0]), PARENTS[1]),
        (np.array([0.0, 0.0, 1.0]), PARENTS[1]),
        (PARENTS[1],),
    ],
)
def test_children_that_do_not_partition_their_parents_are_refused(parents: tuple[NDArray[np.int64], ...]):
    with pytest.raises(ValueError, match="parents"):
        make_consistent([np.zeros(size, np.int64) for size in SIZES], [1, 1, 1], parents, total=None)
    with pytest.raises(ValueError, match="parents"):
        round_tree([np.zeros(size) for size in SIZES], parents, total=0)


def test_other_arguments_out_of_range_are_refused_by_name():
    zeros = [np.zeros(size, np.int64) for size in SIZES]
    with pytest.raises(ValueError, match="variances"):
        make_consistent(zeros, [1, 0, 1], PARENTS, total=None)
    with pytest.raises(ValueError, match="total"):
        make_consistent(zeros, [1, 1, 1], PARENTS, total=-1)
    with pytest.raises(ValueError, match="noisy"):
        make_consistent([*zeros[:2], np.full(7, np.nan)], [1, 1, 1], PARENTS, total=None)
    with pytest.raises(ValueError, match="total"):
        round_tree(zeros, PARENTS, total=-1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="weights"):
        split_budget(SIZES, weights=[0, 0, 0], noise="laplace", total_known=False)
    with pytest.raises(ValueError, match="sizes"):
        split_budget([3, 2], weights=[1, 1], noise="laplace", total_known=False)
    with pytest.raises(ValueError, match="rows"):
        quadtree(0, 3, 1)
