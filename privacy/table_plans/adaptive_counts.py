"""Counts of groups at levels of their own, from two draws: whole, not negative, with 95 % intervals.

A group has a noisy total of variance u, which chose its level, and m noisy counts of variance v. Least squares puts
both together: each count gains (t - S) v / (u + m v), with t the noisy total and S the sum of the counts. Then the
estimated total is rounded, and the counts are moved to the nearest ones that are not negative and add up to it.

Intervals hold whatever the noisy total chose. With U the noise of the total in its deviations and r the part of it in
an estimate, the estimate is off by s (r U + sqrt(1 - r^2) G), G independent and normal. The level follows from U
alone, so that the chance of a miss is at most E max over the levels of P(|r U + sqrt(1 - r^2) G| > z given U).
`uniform_reach` finds the z at which this is 5 %.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.arrays import Floats
from privacy.marginals.group_levels import level_starts
from privacy.refine.place_counts import on_grid, whole_families
from privacy.refine.place_intervals import REACH, interval_ends
from privacy.table_plans.adaptive_plan import AdaptiveTablePlan, level_variances

CONFIDENCE: Final = 0.95
_NODES: Final = 4096
_STEPS: Final = 40
_GRID: Final = 1024
_LONGEST: Final = 4.0
"""Deviations; no reach at 95 % is longer: two levels can at most add up their misses."""


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
    parts = []
    for cells in sizes[sizes > 0].tolist():
        cell, total = level_variances(first, second, cells)
        weight = second / (first + cells * second) * (1 if of == "cell" else cells)
        parts.append(weight * first**0.5 / (cell if of == "cell" else total) ** 0.5)
    return max(REACH, uniform_reach(tuple(parts), CONFIDENCE))


@lru_cache(maxsize=64)
def uniform_reach(parts: tuple[float, ...], confidence: float) -> float:
    """Return a z with E max_r P(|r U + sqrt(1 - r^2) G| > z given U) at most 1 - confidence; U, G standard normal.

    Args:
        parts: the r of each level, in [0, 1].
        confidence: in (0, 1).
    Returns:
        float: in deviations, rounded up to 1/1,024.
    Privacy: computed from the declared noise; reads no data.
    """
    from scipy.special import ndtr, ndtri  # here, so that a plan does not load it

    nodes = ndtri((np.arange(_NODES) + 0.5) / _NODES)
    low, high = 0.0, _LONGEST
    for _ in range(_STEPS):
        z, most = (low + high) / 2, np.zeros(_NODES)
        for part in parts:
            rest = max(1 - part * part, 1e-12) ** 0.5
            most = np.maximum(most, ndtr((-z - part * nodes) / rest) + ndtr((-z + part * nodes) / rest))
        low, high = (z, high) if most.mean() > 1 - confidence else (low, z)
    return float(np.ceil(high * _GRID) / _GRID)
