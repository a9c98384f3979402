"""The tables that follow from what was measured down a tree of places: counts and their intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.release.spine.place_zeros import impossible_cells
from contracts.release.spine.places import PlaceTree
from privacy.arrays import Floats
from privacy.refine.chunks import over_pieces
from privacy.refine.place_counts import whole_counts
from privacy.refine.place_estimates import (
    PIECE_CELLS,
    LevelTable,
    MeasuredSpine,
    estimate_upwards,
    final_variances,
)
from privacy.refine.place_intervals import interval_ends, margin_deviations
from privacy.refine.public_margins import PublicMargin, implied_margins, row_totals
from privacy.table_plans.spine_plan import PlaceDraw, SpinePlan

PlaceColumns = Mapping[str, NDArray[np.int64]]


def measured_spine(plan: SpinePlan, tree: PlaceTree, noisy: Mapping[str, NDArray[np.int64]]) -> MeasuredSpine:
    """Put together what was measured.

    Args:
        plan: gives the noise of each draw.
        tree: the places.
        noisy: noisy counts by key of the draw, shape (places, cells ...).
    """
    at = {level: number for number, level in enumerate(tree.levels)}
    tables: list[list[LevelTable]] = [[] for _ in tree.levels]
    for draw in plan.draws:
        tables[at[draw.level]].append(LevelTable(noisy[draw.key], kept_columns(plan, draw), draw.variance))
    known = {
        at[level]: PublicMargin(tuple(name in own.columns for name in plan.columns), own.counts)
        for level, own in tree.public.items()
    }
    if plan.public_total is not None and not known:
        known[0] = row_totals(np.array([plan.public_total], dtype=np.int64), len(plan.columns))
    margins = implied_margins(known, tree.parents)
    return MeasuredSpine(plan.shape, tree.parents, tree.sizes, tuple(map(tuple, tables)), margins)


def kept_columns(plan: SpinePlan, draw: PlaceDraw) -> tuple[bool, ...]:
    """Return which of all columns a draw has."""
    return tuple(name in draw.clique[1:] for name in plan.columns)


@dataclass(frozen=True)
class SpineCounts:
    """Counts and estimates of all levels.

    Args:
        plan: what was drawn.
        impossible: by level, the cells that cannot hold anybody (`impossible_cells`).
        variances: of the estimates, by level, place and set of columns [rows²].
        counts: by level, whole, shape (places, cells) [rows].
        values: by level, the estimates before they were made whole [rows].
    """

    plan: SpinePlan
    impossible: tuple[NDArray[np.bool_], ...]
    variances: tuple[Floats, ...]
    counts: tuple[NDArray[np.int64], ...]
    values: tuple[Floats, ...]

    def table(self, draw: PlaceDraw, level: int) -> PlaceColumns:
        """Return the published columns of a table at a level: counts and the ends of their intervals."""
        kept, shape = kept_columns(self.plan, draw), self.plan.shape
        left_out = tuple(axis for axis, own in enumerate(kept, start=1) if not own)
        nobody, places = self.impossible[level], draw.shape[0]
        deviations = margin_deviations(self.variances[level], shape, kept).reshape(-1, *[1] * (len(draw.shape) - 1))
        # The table of all columns is what was counted: no second copy of it is made.
        counts = self.counts[level].reshape(draw.shape) if all(kept) else np.empty(draw.shape, dtype=np.int64)
        lower, upper = (np.empty(draw.shape, dtype=np.int64) for _ in range(2))
        step = max(1, PIECE_CELLS // prod(shape))

        def fill(low: int) -> None:
            here = slice(low, low + step)
            if left_out:
                counts[here] = self.counts[level][here].reshape(-1, *shape).sum(axis=left_out)
            values = self.values[level][here].reshape(-1, *shape).sum(axis=left_out)
            lower[here], upper[here] = interval_ends(values, deviations[here], counts[here])
            own = nobody if nobody.shape[0] == 1 else nobody[here]
            empty = np.broadcast_to(own.reshape(-1, *shape).all(axis=left_out), lower[here].shape)
            lower[here][empty], upper[here][empty] = 0, 0

        over_pieces(fill, range(0, places, step))
        return {"count": counts, "lower": lower, "upper": upper}


def spine_counts(
    plan: SpinePlan, tree: PlaceTree, contract: Contract, noisy: Mapping[str, NDArray[np.int64]]
) -> SpineCounts:
    """Estimate all levels, and make whole counts of them. Post-processing; arguments as for `measured_spine`."""
    estimate = estimate_upwards(measured_spine(plan, tree, noisy))
    impossible = impossible_cells(contract, plan.draws[0].clique[0], plan.columns, tree)
    levels = list(whole_counts(estimate, total=plan.public_total, impossible=impossible))
    counts, values = tuple(each for _, each, _ in levels), tuple(each for _, _, each in levels)
    return SpineCounts(plan, impossible, final_variances(estimate), counts, values)
