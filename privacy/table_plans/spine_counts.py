"""The tables that follow from what was measured down a tree of places: counts and their intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from math import prod

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.release.spine.place_zeros import impossible_cells
from contracts.release.spine.places import PlaceTree
from privacy.arrays import Floats
from privacy.refine.chunks import over_pieces
from privacy.refine.crossing_trees import CrossingTree, crossed
from privacy.refine.place_counts import whole_counts
from privacy.refine.place_estimates import (
    PIECE_CELLS,
    LevelTable,
    MeasuredSpine,
    each_level,
    estimate_upwards,
    final_variances,
)
from privacy.refine.place_intervals import interval_ends, margin_deviations
from privacy.refine.public_margins import PublicMargin, implied_margins, row_totals
from privacy.table_plans.spine_plan import PlaceDraw, SpinePlan

PlaceColumns = Mapping[str, NDArray[np.int64]]


def measured_spine(plan: SpinePlan, tree: PlaceTree, noisy: Mapping[str, NDArray[np.int64]]) -> MeasuredSpine:
    """Put together what was measured at the levels of one tree.

    Args:
        plan: gives the noise of each draw.
        tree: the places.
        noisy: noisy counts by key of the draw, shape (places, cells ...), in the order of this tree.
    """
    at = {level: number for number, level in enumerate(tree.levels)}
    tables: list[list[LevelTable]] = [[] for _ in tree.levels]
    for draw in plan.draws:
        if draw.level in at:
            tables[at[draw.level]].append(LevelTable(noisy[draw.key], kept_columns(plan, draw), draw.variance))
    known = {
        at[level]: PublicMargin(tuple(name in own.columns for name in plan.columns), own.counts)
        for level, own in tree.public.items()
    }
    if plan.public_total is not None and not known:
        known[0] = row_totals(np.array([plan.public_total], dtype=np.int64), len(plan.columns))
    margins = implied_margins(known, tree.parents)
    return MeasuredSpine(plan.shape, tree.parents, tree.sizes, tuple(map(tuple, tables)), margins)


def crossing_tree(
    plan: SpinePlan, first: PlaceTree, tree: PlaceTree, noisy: Mapping[str, NDArray[np.int64]]
) -> CrossingTree:
    """Estimate a further tree upwards, from its own levels, the whole and the smallest places.

    Args:
        plan: gives the noise of each draw.
        first, tree: the first tree and the further one.
        noisy: as of `measured_spine`, of the first tree.
    """
    place = np.empty(first.sizes[-1], dtype=np.int64)
    place[first.codes] = np.arange(first.sizes[-1])
    order = place[tree.codes]
    last = {draw.key for draw in plan.draws if draw.level == tree.levels[-1]}
    own = {key: values[order] if key in last else values for key, values in noisy.items()}
    return CrossingTree(estimate_upwards(measured_spine(plan, tree, own)), order)


def kept_columns(plan: SpinePlan, draw: PlaceDraw) -> tuple[bool, ...]:
    """Return which of all columns a draw has."""
    return tuple(name in draw.clique[1:] for name in plan.columns)


@dataclass(frozen=True, eq=False)
class LevelCounts:
    """Counts and estimates of the places of a level.

    Args:
        counts: whole, shape (places, cells) [rows].
        values: the estimates before they were made whole [rows].
        variances: of the estimates, by place and set of columns [rows²].
        impossible: the cells that cannot hold anybody (`impossible_cells`).
    """

    counts: NDArray[np.int64]
    values: Floats
    variances: Floats
    impossible: NDArray[np.bool_]


@dataclass(frozen=True)
class SpineCounts:
    """Counts and estimates of all levels.

    Args:
        plan: what was drawn.
        levels: of all trees, by name.
    """

    plan: SpinePlan
    levels: Mapping[str, LevelCounts]

    def table(self, draw: PlaceDraw) -> PlaceColumns:
        """Return the published columns of a table at its level: counts and the ends of their intervals."""
        kept, shape, level = kept_columns(self.plan, draw), self.plan.shape, self.levels[draw.level]
        left_out = tuple(axis for axis, own in enumerate(kept, start=1) if not own)
        nobody, places = level.impossible, draw.shape[0]
        deviations = margin_deviations(level.variances, shape, kept).reshape(-1, *[1] * (len(draw.shape) - 1))
        # The table of all columns is what was counted: no second copy of it is made.
        counts = level.counts.reshape(draw.shape) if all(kept) else np.empty(draw.shape, dtype=np.int64)
        lower, upper = (np.empty(draw.shape, dtype=np.int64) for _ in range(2))
        step = max(1, PIECE_CELLS // prod(shape))

        def fill(low: int) -> None:
            here = slice(low, low + step)
            if left_out:
                counts[here] = level.counts[here].reshape(-1, *shape).sum(axis=left_out)
            values = level.values[here].reshape(-1, *shape).sum(axis=left_out)
            lower[here], upper[here] = interval_ends(values, deviations[here], counts[here])
            own = nobody if nobody.shape[0] == 1 else nobody[here]
            empty = np.broadcast_to(own.reshape(-1, *shape).all(axis=left_out), lower[here].shape)
            lower[here][empty], upper[here][empty] = 0, 0

        over_pieces(fill, range(0, places, step))
        return {"count": counts, "lower": lower, "upper": upper}


def spine_counts(
    plan: SpinePlan, tree: PlaceTree, contract: Contract, noisy: Mapping[str, NDArray[np.int64]]
) -> SpineCounts:
    """Estimate all levels of all trees, and make whole counts of them. Post-processing; as for `measured_spine`."""
    estimate, column = estimate_upwards(measured_spine(plan, tree, noisy)), plan.draws[0].clique[0]
    others = [crossing_tree(plan, tree, each, noisy) for each in tree.others]
    moved = partial(crossed, estimate, others) if others else None
    impossible, variances = impossible_cells(contract, column, plan.columns, tree), final_variances(estimate)
    levels = {}
    for number, counts, values in whole_counts(estimate, total=plan.public_total, impossible=impossible, moved=moved):
        levels[tree.levels[number]] = LevelCounts(counts, values, variances[number], impossible[number])
    for each, crossing in zip(tree.others, others, strict=True):
        smallest = levels[tree.levels[-1]].counts[crossing.order]
        levels |= _further_levels(each, crossing, smallest, impossible_cells(contract, column, plan.columns, each))
    return SpineCounts(plan, levels)


def _further_levels(
    tree: PlaceTree,
    crossing: CrossingTree,
    smallest: NDArray[np.int64],
    impossible: tuple[NDArray[np.bool_], ...],
) -> dict[str, LevelCounts]:
    """Return the levels between whole and smallest places of a further tree: sums of the same smallest places."""
    counts, variances = [smallest], final_variances(crossing.estimate)
    for level in range(len(tree.levels) - 2, 0, -1):
        starts = crossing.estimate.measured.starts(level)[:-1]
        counts.insert(0, np.add.reduceat(counts[0], starts, axis=0))
    found = {}
    for level, values in enumerate(each_level(crossing.estimate)):
        if 0 < level < len(tree.levels) - 1:
            flat = values.reshape(values.shape[0], -1)
            found[tree.levels[level]] = LevelCounts(counts[level - 1], flat, variances[level], impossible[level])
    return found
