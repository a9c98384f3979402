"""Whole, non-negative counts down a tree of places, from the estimates of all levels.

From the whole down, the parts of each place are moved to the nearest non-negative counts that add up to the place,
cell by cell, and rounded by largest remainders. Where each part has a public total as well, the counts of a family
are a table with two margins: they are moved to either margin in turns, and then rounded part after part, each within
what the parts before it have left. Public counts by some columns make one such table for each of their cells.

Estimates are first rounded to multiples of `GRID`, so that all sums that follow are exact in doubles: last bits of
the passes before cannot change a count, but where an estimate lies at the edge between two multiples.
Source: rounding from the top down as in `privacy.refine.hierarchy`; two margins by Dykstra 1983 (alternating
projections), rounding by parts is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.arrays import Floats
from privacy.refine.chunks import over_pieces
from privacy.refine.place_estimates import (
    MeasuredSpine,
    SpineEstimate,
    downwards,
    pieces,
    smallest,
)
from privacy.refine.public_margins import row_totals

GRID: Final = 2.0**-10
"""Estimates are multiples of it [rows]."""
_TURNS: Final = 60
_MOST_ROUNDS: Final = 4096
WholeCounts = NDArray[np.int64]


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
    cells, possible = prod(measured.shape), ~impossible[0].reshape(-1)
    top = estimate.upward[0] if estimate.upward else smallest(measured, 0, 1)
    values = top.reshape(1, cells)
    whole = max(0, round(float(values[:, possible].sum()))) if total is None else total
    margin = measured.margins.get(0, row_totals(np.array([whole]), len(measured.shape)))
    counts, groups = np.zeros((1, cells), dtype=np.int64), margin.groups(measured.shape)
    for group, reached in enumerate(margin.counts[0]):
        own = np.flatnonzero((groups == group) & possible)
        if own.size:
            counts[0, own] = whole_families(on_grid(values[:, own]).T, np.array([0]), np.array([[reached]]))[:, 0]
    yield 0, counts, values
    for level in range(1, len(measured.sizes)):
        last = level == len(measured.sizes) - 1
        counts, values = _level(estimate, level, counts, values, impossible[level], moved if last else None)
        yield level, counts, values


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
        counts[:, inside] = _two_margins(values[:, inside], starts, sums[:, inside], totals)
    return counts


def on_grid(values: Floats) -> Floats:
    """Round to multiples of `GRID`, so that all sums that follow are exact."""
    return np.asarray(np.rint(values / GRID) * GRID)


def _numbers(starts: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Return the number of the family of each part."""
    return np.repeat(np.arange(starts.size), np.diff(starts, append=size))


def project_families(
    values: Floats,
    starts: NDArray[np.int64],
    sums: NDArray[np.int64] | Floats,
    possible: NDArray[np.bool_] | None = None,
) -> Floats:
    """Return the nearest non-negative values, of which those of each family add up to given sums.

    Formula: max(0, value - threshold), the threshold of a family such that its sum is right; found by leaving out
        what falls below it until nothing more does (Michelot 1986).

    Args:
        values: shape (parts, cells).
        starts: where each family begins.
        sums: at least 0, shape (families, cells).
        possible: which values may be above 0, where not all; a family without any has the sum 0.
    """
    number, wanted = _numbers(starts, values.shape[0]), sums.astype(np.float64)
    # First with all parts of each family, then without those that fell below its threshold.
    if possible is None:
        share = (np.add.reduceat(values, starts, axis=0) - wanted) / np.bincount(number)[:, None]
        threshold = share[number]
        inside = values > threshold
        if inside.all():
            return np.asarray(values - threshold)
    else:
        inside = possible
    for _ in range(_MOST_ROUNDS):
        share = np.add.reduceat(np.where(inside, values, 0.0), starts, axis=0) - wanted
        share /= np.maximum(np.add.reduceat(inside, starts, axis=0, dtype=np.int32), 1)
        threshold = share[number]
        kept = inside & (values > threshold)
        if (kept == inside).all():
            break
        inside = kept
    return np.where(inside, values - threshold, 0.0)


def whole_families(
    values: Floats, starts: NDArray[np.int64], sums: WholeCounts, possible: NDArray[np.bool_] | None = None
) -> WholeCounts:
    """Return whole counts of each family that add up to `sums`, cell by cell; arguments as of `project_families`."""
    projected = project_families(values, starts, sums, possible)
    counts = np.floor(projected + GRID * GRID).astype(np.int64)
    lacking, rest = sums - np.add.reduceat(counts, starts, axis=0), projected - counts
    counts += _largest(rest if possible is None else np.where(possible, rest, -1.0), starts, lacking)
    return counts


def _largest(rest: Floats, starts: NDArray[np.int64], lacking: WholeCounts) -> NDArray[np.bool_]:
    """Mark the largest remainders of each family and cell, as many as it lacks; the first of equal ones."""
    ends = np.append(starts[1:], rest.shape[0])
    lengths = ends - starts
    marked = np.zeros(rest.shape, dtype=np.bool_)
    for length in np.unique(lengths):
        alike = np.flatnonzero(lengths == length)
        rows = starts[alike][:, None] + np.arange(length)
        if length == 1:
            marked[rows[:, 0]] = lacking[alike] > 0
            continue
        order = np.argsort(-rest[rows], axis=1, kind="stable")
        ranks = np.empty_like(order)
        places = np.broadcast_to(np.arange(length)[None, :, None], order.shape)
        np.put_along_axis(ranks, order, places, axis=1)
        marked[rows] = ranks < lacking[alike][:, None, :]
    return marked


def _two_margins(
    values: Floats, starts: NDArray[np.int64], sums: WholeCounts, totals: NDArray[np.int64]
) -> WholeCounts:
    """Return whole counts whose families add up to `sums` by cell, and whose parts have their totals."""
    nearest = _between_margins(values, starts, sums, totals)
    ends = np.append(starts[1:], values.shape[0])
    counts = np.empty(values.shape, dtype=np.int64)
    left, owed = sums.copy(), np.zeros(sums.shape)
    for place in range(int((ends - starts).max())):
        here = np.flatnonzero(ends - starts > place)
        rows = starts[here] + place
        # What rounding took from the parts before this one is owed to it.
        wanted = np.clip(nearest[rows] + owed[here], 0, left[here])
        counts[rows] = _within(on_grid(wanted), left[here], totals[rows])
        owed[here] += nearest[rows] - counts[rows]
        left[here] -= counts[rows]
    return counts


def _between_margins(
    values: Floats, starts: NDArray[np.int64], sums: WholeCounts, totals: NDArray[np.int64]
) -> Floats:
    """Move values to non-negative ones with both margins: to either in turns, each time from where the last left."""
    found, moved_first, moved_second = values, np.zeros_like(values), np.zeros_like(values)
    for _ in range(_TURNS):
        first = project_families(found + moved_first, starts, sums)
        moved_first = found + moved_first - first
        second = _project_rows(first + moved_second, totals)
        moved_second = first + moved_second - second
        if np.abs(second - found).max(initial=0.0) < GRID:
            return second
        found = second
    return found


def _project_rows(values: Floats, totals: NDArray[np.int64]) -> Floats:
    """Return the nearest non-negative values of which each row adds up to its total."""
    ordered = -np.sort(-values, axis=1)
    over = (np.cumsum(ordered, axis=1) - totals[:, None]) / np.arange(1, values.shape[1] + 1)
    last = np.maximum((ordered > over).sum(axis=1) - 1, 0)
    return np.asarray(np.maximum(values - over[np.arange(values.shape[0]), last][:, None], 0.0))


def _within(wanted: Floats, most: WholeCounts, totals: NDArray[np.int64]) -> WholeCounts:
    """Return whole counts from 0 to `most` near what is wanted, of which each row adds up to its total."""
    counts = np.floor(wanted).astype(np.int64)
    for _ in range(_MOST_ROUNDS):
        lacking = totals - counts.sum(axis=1)
        if not lacking.any():
            return counts
        rest = wanted - counts
        counts += _raised(rest, most - counts, np.maximum(lacking, 0))
        counts -= _raised(-rest, counts, np.maximum(-lacking, 0))
    raise ArithmeticError("counts within the margins of a family were not found")


def _raised(rest: Floats, room: WholeCounts, lacking: NDArray[np.int64]) -> WholeCounts:
    """Give one more to the cells with the largest remainders that have room, as many as a row lacks."""
    open_cells = room > 0
    number = open_cells.sum(axis=1)
    # Rows that lack more than they have cells get several at once, so that the number of rounds stays small.
    each = np.where(lacking > number, np.minimum(lacking // np.maximum(number, 1), _least_room(room)), 1)
    order = np.argsort(np.where(open_cells, -rest, np.inf), axis=1, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.broadcast_to(np.arange(rest.shape[1]), order.shape), axis=1)
    chosen = open_cells & (ranks < np.minimum(lacking, number)[:, None])
    return np.where(chosen, np.maximum(each, 1)[:, None], 0)


def _least_room(room: WholeCounts) -> NDArray[np.int64]:
    """Return the smallest room above 0 of each row."""
    return np.asarray(np.where(room > 0, room, np.iinfo(np.int64).max).min(axis=1))
