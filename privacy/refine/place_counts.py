"""Whole, non-negative counts down a tree of places, from the estimates of all levels.

From the whole down, the parts of each place are made whole within the counts of the place, with their public totals
where they have any (`whole_counts`). Public counts by some columns make one such table for each of their cells.
Where places with public totals differ in their possible cells, these levels are made by `whole_counts`.
Source: rounding from the top down as in `privacy.refine.hierarchy`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from math import prod

import numpy as np
from numpy.typing import NDArray

from contracts.release.spine.place_margins import differing_places
from privacy.arrays import Floats
from privacy.refine.estimates import MeasuredSpine, SpineEstimate, downwards, each_level, pieces, row_totals, smallest
from privacy.refine.simplex import over_pieces
from privacy.refine.whole_counts import WholeCounts, on_grid, two_margins, whole_families


def whole_counts(
    estimate: SpineEstimate,
    *,
    total: int | None,
    impossible: Sequence[NDArray[np.bool_]],
    moved: Callable[[Floats, Floats], Floats] | None = None,
) -> Iterator[tuple[int, WholeCounts, Floats]]:
    """Yield the counts of each level from the whole down, with the estimates that they are of.

    Args:
        estimate: the upward pass.
        total: the public number of rows; None to round the estimate of the whole [rows].
        impossible: by level, the cells that cannot hold anybody: shape (places, cells), or (1, cells) where they are
            the same in all places. A cell of a place is impossible where it is in all its parts.
        moved: given the estimates of the smallest places and of the level above, returns those that counts are made
            of; None for the estimates themselves.
    Yields:
        tuple: the number of the level; counts, int64, (places, cells), not negative, each the sum of its parts, and
            with the public margins of its level; the estimates of the same cells [rows].
    Privacy: post-processing; deterministic.
    """
    measured = estimate.measured
    deepest, done = max(measured.margins, default=0), 0
    if differing_places(impossible[deepest]).size:
        for done, (counts, values) in enumerate(_exact_levels(estimate, deepest, impossible[deepest], moved)):
            yield done, counts, values
    else:
        counts, values = _whole(estimate, total, ~impossible[0].reshape(-1))
        yield 0, counts, values
    for level in range(done + 1, len(measured.sizes)):
        last = level == len(measured.sizes) - 1
        counts, values = _level(estimate, level, counts, values, impossible[level], moved if last else None)
        yield level, counts, values


def _exact_levels(
    estimate: SpineEstimate,
    deepest: int,
    impossible: NDArray[np.bool_],
    moved: Callable[[Floats, Floats], Floats] | None,
) -> Iterator[tuple[WholeCounts, Floats]]:
    """Yield counts and estimates of the levels down to the smallest with public counts, whose cells differ."""
    from privacy.refine.whole_counts import patterned_counts  # few trees have them

    measured, cells = estimate.measured, prod(estimate.measured.shape)
    levels = [values.reshape(-1, cells) for values in islice(each_level(estimate), deepest + 1)]
    last = deepest == len(measured.sizes) - 1
    wanted = moved(levels[-1], levels[-2]) if moved is not None and last else levels[-1]
    margin = measured.margins[deepest]
    estimates, groups = [*levels[:-1], wanted], margin.groups(measured.shape)
    counts = patterned_counts(estimates, ~impossible, margin.counts, groups, measured.parents[:deepest])
    yield from zip(counts, levels, strict=True)


def _whole(estimate: SpineEstimate, total: int | None, possible: NDArray[np.bool_]) -> tuple[WholeCounts, Floats]:
    """Return the counts and the estimates of the whole."""
    measured = estimate.measured
    cells = prod(measured.shape)
    top = estimate.upward[0] if estimate.upward else smallest(measured, 0, 1)
    values = top.reshape(1, cells)
    whole = max(0, round(float(values[:, possible].sum()))) if total is None else total
    margin = measured.margins.get(0, row_totals(np.array([whole]), len(measured.shape)))
    counts, groups = np.zeros((1, cells), dtype=np.int64), margin.groups(measured.shape)
    for group, reached in enumerate(margin.counts[0]):
        own = np.flatnonzero((groups == group) & possible)
        if own.size:
            counts[0, own] = whole_families(on_grid(values[:, own]).T, np.array([0]), np.array([[reached]]))[:, 0]
    return counts, values


def _level(
    estimate: SpineEstimate,
    level: int,
    above: WholeCounts,
    values: Floats,
    impossible: NDArray[np.bool_],
    moved: Callable[[Floats, Floats], Floats] | None = None,
) -> tuple[WholeCounts, Floats]:
    """Return the counts and the estimates of a level, piece by piece."""
    measured = estimate.measured
    cells, starts = prod(measured.shape), measured.starts(level - 1)
    counts = np.empty((measured.sizes[level], cells), dtype=np.int64)
    found = np.empty((measured.sizes[level], cells))
    work = list(pieces(starts, cells))

    def estimated(families: tuple[int, int]) -> None:
        first, end = families
        shaped = values[first:end].reshape(-1, *measured.shape)
        low, high, parts = downwards(estimate, level, shaped, first, end)
        found[low:high] = parts.reshape(-1, cells)

    def rounded(families: tuple[int, int], of: Floats) -> None:
        first, end = families
        low, high = int(starts[first]), int(starts[end])
        own, begins = on_grid(of[low:high]), starts[first:end] - low
        # Cells that are impossible in all places are 0 above, and so in all parts.
        possible = None if impossible.shape[0] == 1 else ~impossible[low:high]
        counts[low:high] = _rounded(measured, level, (low, high), own, begins, above[first:end], possible)

    def both(families: tuple[int, int]) -> None:
        estimated(families)
        rounded(families, found)

    if moved is None:
        over_pieces(both, work)
        return counts, found
    over_pieces(estimated, work)
    wanted = moved(found, values)
    over_pieces(lambda families: rounded(families, wanted), work)
    return counts, found


def _rounded(
    measured: MeasuredSpine,
    level: int,
    places: tuple[int, int],
    values: Floats,
    starts: NDArray[np.int64],
    sums: WholeCounts,
    possible: NDArray[np.bool_] | None,
) -> WholeCounts:
    """Return whole counts of some families of a level, with their public margin where the level has one."""
    margin = measured.margins.get(level)
    if margin is None:
        return whole_families(values, starts, sums, possible)
    counts, groups = np.empty(values.shape, dtype=np.int64), margin.groups(measured.shape)
    for group, totals in enumerate(margin.counts[slice(*places)].T):
        inside = np.flatnonzero(groups == group)
        counts[:, inside] = two_margins(values[:, inside], starts, sums[:, inside], totals)
    return counts
