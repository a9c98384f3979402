"""Places that differ in their possible cells, and two trees over the same places: sums met, intervals that hold."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from privacy.arrays import Floats
from privacy.refine.estimates import (
    CrossingTree,
    LevelTable,
    MeasuredSpine,
    PublicMargin,
    SpineEstimate,
    crossed,
    each_level,
    estimate_upwards,
    final_variances,
    implied_margins,
)
from privacy.refine.place_counts import whole_counts
from privacy.refine.whole_counts import interval_ends, margin_deviations, patterned_counts

SHAPE = (2, 3)
CELLS = 6


class Tree:
    """A made-up tree of three levels below the whole: its exact counts, and the possible cells of each place."""

    def __init__(self, seed: int, *, most: int = 60) -> None:
        self.random = np.random.default_rng(seed)
        parents, size = [], 1
        for _ in range(3):
            lengths = self.random.integers(1, 4, size)
            parents.append(np.repeat(np.arange(size), lengths))
            size = int(lengths.sum())
        self.parents = tuple(parents)
        self.sizes = (1, *(each.size for each in parents))
        smallest = self.random.random((size, CELLS)) < self.random.choice([0.3, 0.6, 0.95])
        self.possible = self.upwards(smallest, np.logical_or)
        self.exact = self.upwards(self.random.integers(0, most, (size, CELLS)) * smallest, np.add)

    def upwards(self, values: NDArray[np.generic], by: np.ufunc) -> list[NDArray[np.generic]]:
        found = [values]
        for parent in reversed(self.parents):
            found.insert(0, by.reduceat(found[0], np.flatnonzero(np.diff(parent, prepend=-1)), axis=0))
        return found

    def margin(self, level: int, kept: tuple[bool, ...]) -> PublicMargin:
        left_out = tuple(axis for axis, own in enumerate(kept, start=1) if not own)
        counts = self.exact[level].reshape(-1, *SHAPE).sum(axis=left_out)
        return PublicMargin(kept, counts.reshape(counts.shape[0], -1))

    def measured(self, margins: dict[int, PublicMargin], *, variance: float) -> MeasuredSpine:
        tables = []
        for exact in self.exact:
            noisy = np.rint(exact + self.random.normal(0, variance**0.5, exact.shape)).astype(np.int64)
            tables.append((LevelTable(noisy.reshape(-1, *SHAPE), (True, True), variance),))
        known = implied_margins(margins, self.parents)
        return MeasuredSpine(SHAPE, self.parents, self.sizes, tuple(tables), known)


@pytest.mark.parametrize("kept", [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("deepest", [1, 2, 3])
def test_exact_counts_and_zeros_that_differ_hold_together(deepest: int, kept: tuple[bool, ...]):
    """In forty trees with much noise: no negative count, no impossible one, all adds up, every public count is exact.
    Counts above the smallest level with public ones may have fewer columns."""
    for seed in range(40):
        tree = Tree(seed)
        margins = {deepest: tree.margin(deepest, kept), deepest - 1: tree.margin(deepest - 1, (False, False))}
        estimate = estimate_upwards(tree.measured(margins, variance=900.0))
        masks = [~each.astype(np.bool_) for each in tree.possible]
        levels = [counts for _, counts, _ in whole_counts(estimate, total=None, impossible=masks)]
        assert [each.shape[0] for each in levels] == list(tree.sizes)
        for level, counts in enumerate(levels):
            assert counts.min() >= 0
            assert not counts[masks[level]].any()
            if level <= deepest:
                own = tree.margin(level, kept)
                groups = own.groups(SHAPE)
                sums = [counts[:, groups == group].sum(axis=1) for group in range(own.counts.shape[1])]
                assert (np.stack(sums, axis=1) == own.counts).all()
            if level:
                starts = np.flatnonzero(np.diff(tree.parents[level - 1], prepend=-1))
                assert (np.add.reduceat(counts, starts, axis=0) == levels[level - 1]).all()


def test_counts_without_noise_are_the_exact_ones():
    """Estimates that are whole and possible are not changed, in any order of the patterns."""
    for seed in range(40):
        tree = Tree(seed)
        totals, groups = tree.margin(2, (True, False)).counts, np.repeat([0, 1], 3)
        found = patterned_counts(
            [each.astype(np.float64) for each in tree.exact[:3]],
            tree.possible[2].astype(np.bool_),
            totals,
            groups,
            tree.parents[:2],
        )
        for level, counts in enumerate(found):
            assert (counts == tree.exact[level]).all()


@given(st.integers(0, 2**32 - 1), st.floats(-1e6, 1e6))
def test_any_estimates_have_counts(seed: int, away: float):
    """However far the estimates are from the public totals: the counts exist."""
    tree = Tree(seed % 1000)
    random = np.random.default_rng(seed)
    values: list[Floats] = [random.normal(away, 1 + abs(away), each.shape) for each in tree.exact[:3]]
    possible = tree.possible[2].astype(np.bool_)
    totals = tree.margin(2, (False, False)).counts
    found = patterned_counts(values, possible, totals, np.zeros(CELLS, dtype=np.int64), tree.parents[:2])
    assert found[2].min() >= 0
    assert not found[2][~possible].any()
    assert (found[2].sum(axis=1, keepdims=True) == totals).all()


def test_counts_of_large_places_are_as_near_as_their_estimates():
    """Mean squared error of the whole over 60 releases: within 2 % of its estimate's. 60 places of three patterns:
    sums over them alone would err by sqrt(61) times as much, since noise in impossible cells would be lost."""
    parents = (np.zeros(60, dtype=np.int64),)
    before, after = 0.0, 0.0
    for seed in range(60):
        random = np.random.default_rng(seed)
        cells = np.array([[1, 1, 0, 1, 0, 1], [1, 0, 1, 1, 1, 0], [1, 1, 1, 0, 0, 1]], dtype=np.bool_)
        possible = cells[random.integers(0, 3, 60)]
        exact = random.poisson(100, (60, CELLS)) * possible
        places = exact + random.normal(0, 20, exact.shape)
        whole = exact.sum(axis=0, keepdims=True) + random.normal(0, 20, (1, CELLS))
        lacking = (whole - places.sum(axis=0)) / 61
        estimates = [whole - lacking, places + lacking]
        groups, totals = np.zeros(CELLS, dtype=np.int64), exact.sum(axis=1, keepdims=True)
        [top, _] = patterned_counts(estimates, possible, totals, groups, parents)
        before += float(((estimates[0] - exact.sum(axis=0)) ** 2).mean())
        after += float(((top - exact.sum(axis=0)) ** 2).mean())
    assert after < 1.02 * before


TREE_SHAPE, TREE_CELLS, LEAVES = (3,), 3, 24
VARIANCES = (4.0, 6.0, 9.0)
"""Of the whole, of the level between, of the smallest places."""
ORDER = np.argsort(np.arange(LEAVES) % 4, kind="stable")
"""Regions are runs of six places; teams are every fourth place."""
NOBODY = [np.zeros((1, TREE_CELLS), dtype=np.bool_)] * 3


def tree(between: int, tables: dict[int, LevelTable]) -> MeasuredSpine:
    """A tree of families of equal size over places in its order, with what was measured of it."""
    parents = np.zeros(between, dtype=np.int64), np.repeat(np.arange(between), LEAVES // between)
    levels = tuple((tables[level],) for level in range(3))
    return MeasuredSpine(TREE_SHAPE, parents, (1, between, LEAVES), levels, {})


def drawn(seed: int) -> tuple[SpineEstimate, CrossingTree, NDArray[np.int64]]:
    """Measure the whole, four regions, four teams and all smallest places, each once."""
    random = np.random.default_rng(seed)
    exact = np.random.default_rng(1).integers(0, 40, (LEAVES, TREE_CELLS))

    def noisy(counts: NDArray[np.int64], variance: float) -> LevelTable:
        noise = np.rint(random.normal(0, variance**0.5, counts.shape)).astype(np.int64)
        return LevelTable(counts + noise, (True,), variance)

    whole, leaves = noisy(exact.sum(axis=0, keepdims=True), VARIANCES[0]), noisy(exact, VARIANCES[2])
    regions = noisy(exact.reshape(4, 6, TREE_CELLS).sum(axis=1), VARIANCES[1])
    teams = noisy(exact[ORDER].reshape(4, 6, TREE_CELLS).sum(axis=1), VARIANCES[1])
    turned = LevelTable(leaves.noisy[ORDER], leaves.kept, leaves.variance)
    first = estimate_upwards(tree(4, {0: whole, 1: regions, 2: leaves}))
    other = estimate_upwards(tree(4, {0: whole, 1: teams, 2: turned}))
    return first, CrossingTree(other, ORDER), exact


def levels_of(estimate: SpineEstimate) -> list[Floats]:
    return [values.reshape(values.shape[0], -1) for values in each_level(estimate)]


def by_team(values: Floats) -> Floats:
    return np.asarray(values[ORDER].reshape(4, 6, TREE_CELLS).sum(axis=1))


def test_sums_of_both_trees_are_met_where_these_leave_it_free():
    """Regions exactly; teams under the whole of the first tree, to a thousandth."""
    first, other, _ = drawn(3)
    _, regions, leaves = levels_of(first)
    whole = levels_of(first)[0]
    found = crossed(first, [other], leaves, regions)
    assert np.allclose(found.reshape(4, 6, TREE_CELLS).sum(axis=1), regions, atol=1e-9)
    teams = levels_of(other.estimate)[1]
    wanted = teams + (whole - levels_of(other.estimate)[0]) / 4
    assert np.abs(by_team(found) - wanted).max() < 2e-3


def test_places_that_need_no_move_stay():
    """Estimates that are the exact counts in both trees."""
    exact = np.random.default_rng(1).integers(0, 40, (LEAVES, TREE_CELLS))

    def certain(counts: NDArray[np.int64]) -> LevelTable:
        return LevelTable(counts, (True,), 1.0)

    sums = {0: certain(exact.sum(axis=0, keepdims=True)), 2: certain(exact)}
    regions = exact.reshape(4, 6, TREE_CELLS).sum(axis=1)
    first = estimate_upwards(tree(4, {**sums, 1: certain(regions)}))
    turned = {**sums, 1: certain(by_team(exact).astype(np.int64)), 2: certain(exact[ORDER])}
    other = CrossingTree(estimate_upwards(tree(4, turned)), ORDER)
    assert np.allclose(crossed(first, [other], exact.astype(float), regions.astype(float)), exact)


def test_counts_of_crossing_places_are_nearer_than_without_their_own_measurements():
    """300 releases of fixed seeds: squared errors of teams, at most 0.6 times those of the first tree alone."""
    errors = {True: 0.0, False: 0.0}
    for seed in range(300):
        first, other, exact = drawn(seed)
        for both in errors:
            moved = (lambda own, above: crossed(first, [other], own, above)) if both else None  # noqa: B023
            *_, (_, counts, _) = whole_counts(first, total=None, impossible=NOBODY, moved=moved)
            assert counts.min() >= 0
            errors[both] += float(((by_team(counts) - by_team(exact)) ** 2).sum())
    assert errors[True] < 0.6 * errors[False]


@pytest.mark.long
@pytest.mark.stat
def test_intervals_of_both_trees_hold_their_rate_and_shorter_ones_are_found_out():
    """n = 3,000 releases, a team, a region and a smallest place each: more than 92.5 % hold each. With 95 % or more,
    at most 92.5 % hold with probability exp(-3000 KL(0.925, 0.95)) < 4e-8 (Chernoff), for three cells below 1.2e-7.
    Intervals of 0.6 times the deviation hold about 85 %, and are found out."""
    held = dict.fromkeys(((at, factor) for at in ("team", "region", "place") for factor in (1.0, 0.6)), 0)
    for seed in range(3000):
        first, other, exact = drawn(seed)
        _, regions, leaves = levels_of(first)
        teams = levels_of(other.estimate)[1]
        own, further = final_variances(first), final_variances(other.estimate)
        for at, value, variances, truth in (
            ("team", teams[2, 1], further[1], by_team(exact)[2, 1]),
            ("region", regions[1, 0], own[1], exact[6:12, 0].sum()),
            ("place", leaves[7, 2], own[2], exact[7, 2]),
        ):
            deviation = margin_deviations(variances, TREE_SHAPE, (True,))[0]
            count = np.maximum(np.rint(value), 0).astype(np.int64)
            for factor in (1.0, 0.6):
                lower, upper = interval_ends(value, factor * deviation, count)
                held[at, factor] += int(lower <= truth <= upper)
    for at in ("team", "region", "place"):
        assert held[at, 1.0] > 0.925 * 3000
        assert held[at, 0.6] < 0.90 * 3000
