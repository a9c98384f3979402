"""Two trees over the same smallest places: sums of both are met, intervals of both hold, sums get nearer."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from privacy.arrays import Floats
from privacy.refine.estimates import (
    CrossingTree,
    LevelTable,
    MeasuredSpine,
    SpineEstimate,
    crossed,
    each_level,
    estimate_upwards,
    final_variances,
)
from privacy.refine.place_counts import whole_counts
from privacy.refine.whole_counts import interval_ends, margin_deviations

SHAPE, CELLS, LEAVES = (3,), 3, 24
VARIANCES = (4.0, 6.0, 9.0)
"""Of the whole, of the level between, of the smallest places."""
ORDER = np.argsort(np.arange(LEAVES) % 4, kind="stable")
"""Regions are runs of six places; teams are every fourth place."""
NOBODY = [np.zeros((1, CELLS), dtype=np.bool_)] * 3


def tree(between: int, tables: dict[int, LevelTable]) -> MeasuredSpine:
    """A tree of families of equal size over places in its order, with what was measured of it."""
    parents = np.zeros(between, dtype=np.int64), np.repeat(np.arange(between), LEAVES // between)
    levels = tuple((tables[level],) for level in range(3))
    return MeasuredSpine(SHAPE, parents, (1, between, LEAVES), levels, {})


def drawn(seed: int) -> tuple[SpineEstimate, CrossingTree, NDArray[np.int64]]:
    """Measure the whole, four regions, four teams and all smallest places, each once."""
    random = np.random.default_rng(seed)
    exact = np.random.default_rng(1).integers(0, 40, (LEAVES, CELLS))

    def noisy(counts: NDArray[np.int64], variance: float) -> LevelTable:
        noise = np.rint(random.normal(0, variance**0.5, counts.shape)).astype(np.int64)
        return LevelTable(counts + noise, (True,), variance)

    whole, leaves = noisy(exact.sum(axis=0, keepdims=True), VARIANCES[0]), noisy(exact, VARIANCES[2])
    regions = noisy(exact.reshape(4, 6, CELLS).sum(axis=1), VARIANCES[1])
    teams = noisy(exact[ORDER].reshape(4, 6, CELLS).sum(axis=1), VARIANCES[1])
    turned = LevelTable(leaves.noisy[ORDER], leaves.kept, leaves.variance)
    first = estimate_upwards(tree(4, {0: whole, 1: regions, 2: leaves}))
    other = estimate_upwards(tree(4, {0: whole, 1: teams, 2: turned}))
    return first, CrossingTree(other, ORDER), exact


def levels_of(estimate: SpineEstimate) -> list[Floats]:
    return [values.reshape(values.shape[0], -1) for values in each_level(estimate)]


def by_team(values: Floats) -> Floats:
    return np.asarray(values[ORDER].reshape(4, 6, CELLS).sum(axis=1))


def test_sums_of_both_trees_are_met_where_these_leave_it_free() -> None:
    """Regions exactly; teams under the whole of the first tree, to a thousandth."""
    first, other, _ = drawn(3)
    _, regions, leaves = levels_of(first)
    whole = levels_of(first)[0]
    found = crossed(first, [other], leaves, regions)
    assert np.allclose(found.reshape(4, 6, CELLS).sum(axis=1), regions, atol=1e-9)
    teams = levels_of(other.estimate)[1]
    wanted = teams + (whole - levels_of(other.estimate)[0]) / 4
    assert np.abs(by_team(found) - wanted).max() < 2e-3


def test_places_that_need_no_move_stay() -> None:
    """Estimates that are the exact counts in both trees."""
    exact = np.random.default_rng(1).integers(0, 40, (LEAVES, CELLS))

    def certain(counts: NDArray[np.int64]) -> LevelTable:
        return LevelTable(counts, (True,), 1.0)

    sums = {0: certain(exact.sum(axis=0, keepdims=True)), 2: certain(exact)}
    regions = exact.reshape(4, 6, CELLS).sum(axis=1)
    first = estimate_upwards(tree(4, {**sums, 1: certain(regions)}))
    turned = {**sums, 1: certain(by_team(exact).astype(np.int64)), 2: certain(exact[ORDER])}
    other = CrossingTree(estimate_upwards(tree(4, turned)), ORDER)
    assert np.allclose(crossed(first, [other], exact.astype(float), regions.astype(float)), exact)


def test_counts_of_crossing_places_are_nearer_than_without_their_own_measurements() -> None:
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
def test_intervals_of_both_trees_hold_their_rate_and_shorter_ones_are_found_out() -> None:
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
            deviation = margin_deviations(variances, SHAPE, (True,))[0]
            count = np.maximum(np.rint(value), 0).astype(np.int64)
            for factor in (1.0, 0.6):
                lower, upper = interval_ends(value, factor * deviation, count)
                held[at, factor] += int(lower <= truth <= upper)
    for at in ("team", "region", "place"):
        assert held[at, 1.0] > 0.925 * 3000
        assert held[at, 0.6] < 0.90 * 3000
