"""Counts of groups at levels of their own, from two draws: whole, not negative, with 95 % intervals.

A group has a noisy total of variance u, which chose its level, and m noisy counts of variance v. Least squares puts
both together: each count gains (t - S) v / (u + m v), with t the noisy total and S the sum of the counts. Then the
estimated total is rounded, and the counts are moved to the nearest ones that are not negative and add up to it.

Intervals hold whatever the noisy total chose: `choice_reach` says how far they reach.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.arrays import Floats
from privacy.marginals.group_levels import level_starts
from privacy.refine.place_families import on_grid, whole_families
from privacy.refine.place_intervals import REACH, interval_ends
from privacy.table_plans.adaptive_plan import AdaptiveTablePlan, level_variances
from privacy.table_plans.choice_reach import LEAST, LevelError, uniform_reach

CONFIDENCE: Final = 0.95


@dataclass(frozen=True)
class DetailCounts:
    """The published numbers of a table.

    Args:
        plan: of the table.
        chosen: level of each group.
        starts: where the counts of each group begin, and where the last end.
        totals: of the groups, with the ends of their intervals, int64, shape (3, groups) [rows].
        counts: of the cells, group after group, with the ends of their intervals, int64, shape (3, numbers) [rows].
    """

    plan: AdaptiveTablePlan
    chosen: NDArray[np.int64]
    starts: NDArray[np.int64]
    totals: NDArray[np.int64]
    counts: NDArray[np.int64]


def detail_counts(
    plan: AdaptiveTablePlan, noisy_totals: NDArray[np.int64], noisy_counts: NDArray[np.int64]
) -> DetailCounts:
    """Return the counts that follow from both draws.

    Args:
        plan: gives levels, thresholds and noise.
        noisy_totals: of all groups [rows].
        noisy_counts: group after group, each in the cells of the level that its noisy total chose [rows].
    Privacy: post-processing; deterministic.
    """
    chosen = plan.chosen(noisy_totals)
    starts = level_starts(plan.sizes, chosen)
    possible = possible_cells(plan, chosen, starts)
    number = np.repeat(np.arange(chosen.size), np.diff(starts))
    cells = np.add.reduceat(possible.astype(np.int64), starts[:-1])
    drawn = np.where(possible, noisy_counts, 0).astype(np.float64)
    sums = np.add.reduceat(drawn, starts[:-1])
    first, second = plan.totals.variance, plan.counts.variance
    gain = (noisy_totals.reshape(-1) - sums) * second / (first + cells * second)
    values, totals = on_grid(drawn + gain[number]), on_grid(sums + cells * gain)
    whole = np.where(cells > 0, np.maximum(np.rint(totals), 0), 0).astype(np.int64)
    counts = _whole(values, possible, number, whole)
    cell, total = _variances(first, second, cells)
    reach = {of: _reach(plan, of) for of in ("cell", "total")}
    lower, upper = interval_ends(values, np.sqrt(cell)[number] * reach["cell"] / REACH, counts)
    low, high = interval_ends(totals, np.sqrt(total) * reach["total"] / REACH, whole)
    for ends, none in ((lower, ~possible), (upper, ~possible), (low, cells == 0), (high, cells == 0)):
        ends[none] = 0
    return DetailCounts(plan, chosen, starts, np.stack([whole, low, high]), np.stack([counts, lower, upper]))


def possible_cells(
    plan: AdaptiveTablePlan, chosen: NDArray[np.int64], starts: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return which numbers are of cells that can hold somebody, group after group."""
    possible = np.ones(int(starts[-1]), dtype=np.bool_)
    if plan.cells.possible is None:
        return possible
    for level, size in enumerate(plan.sizes):
        groups = np.flatnonzero(chosen == level)
        places = starts[groups][:, None] + np.arange(size)
        possible[places] = _possible_at(plan, level)[groups]
    return possible


def _possible_at(plan: AdaptiveTablePlan, level: int) -> NDArray[np.bool_]:
    """Return which cells of a level can hold somebody, shape (groups, cells)."""
    found = np.zeros((plan.sizes[level], plan.cells.groups), dtype=np.bool_)
    if plan.cells.possible is not None:
        np.logical_or.at(found, plan.cells.levels[level].cell_of, plan.cells.possible.T)
    return found.T


def _whole(
    values: Floats, possible: NDArray[np.bool_], number: NDArray[np.int64], totals: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return whole counts of possible cells that add up to the total of each group; 0 in the others."""
    own = number[possible]
    starts = np.flatnonzero(np.diff(own, prepend=-1))
    counts = np.zeros(values.size, dtype=np.int64)
    if own.size:
        sums = totals[own[starts]][:, None]
        counts[possible] = whole_families(values[possible][:, None], starts, sums)[:, 0]
    return counts


def _variances(first: float, second: float, cells: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Return the variances of a cell and of the total of each group; of one without cells none is asked for."""
    pairs = {number: level_variances(first, second, number) for number in np.unique(np.maximum(cells, 1)).tolist()}
    found = np.array([pairs[number] for number in np.maximum(cells, 1).tolist()])
    return found[:, 0], found[:, 1]


def expected_widths(plan: AdaptiveTablePlan) -> tuple[float, float]:
    """Return the longest half widths of the 95 % intervals of a cell and of a group's total, at any level [rows].

    Privacy: computed from the declared noise; reads no data.
    """
    errors = [level_variances(plan.totals.variance, plan.counts.variance, size) for size in plan.sizes]
    cell, total = (max(each) ** 0.5 for each in zip(*errors, strict=True))
    return _reach(plan, "cell") * cell + 0.5, _reach(plan, "total") * total + 0.5


def _reach(plan: AdaptiveTablePlan, of: str) -> float:
    """Return how many deviations the intervals of a table reach, for any level that any of its groups can get."""
    first, second = plan.totals.variance, plan.counts.variance
    sizes = np.array(plan.sizes)
    if plan.cells.possible is not None:
        sizes = np.unique([n for level in range(len(sizes)) for n in _possible_at(plan, level).sum(axis=1)])
    errors = tuple(_error(first, second, cells, of) for cells in sizes[sizes > 0].tolist())
    return max(LEAST[plan.noise], uniform_reach(errors, CONFIDENCE, plan.noise))


def _error(first: float, second: float, cells: int, of: str) -> LevelError:
    """Return what a cell, or the total, of a group with so many cells is off by."""
    share = second / (first + cells * second)
    cell, total = level_variances(first, second, cells)
    deviation, own = (cell if of == "cell" else total) ** 0.5, second**0.5
    part = share * (1 if of == "cell" else cells) * first**0.5 / deviation
    if of == "total":
        return LevelError(part, (((1 - cells * share) * own / deviation, cells),))
    return LevelError(part, (((1 - share) * own / deviation, 1), (share * own / deviation, cells - 1)))
