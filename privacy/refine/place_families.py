"""Whole, non-negative counts of families of places that add up to their place, and where asked to totals of parts.

The parts of each place are moved to the nearest non-negative counts that add up to the place, cell by cell, and
rounded by largest remainders. Where each part has a public total as well, the counts of a family are a table with two
margins: they are moved to either margin in turns, and then rounded part after part, each within what the parts before
it have left.

Estimates are first rounded to multiples of `GRID`, so that all sums that follow are exact in doubles: last bits of
the passes before cannot change a count, but where an estimate lies at the edge between two multiples.
Source: two margins by Dykstra 1983 (alternating projections), rounding by parts is ours.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.arrays import Floats

GRID: Final = 2.0**-10
"""Estimates are multiples of it [rows]."""
_TURNS: Final = 60
_MOST_ROUNDS: Final = 4096
WholeCounts = NDArray[np.int64]


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


def two_margins(
    values: Floats, starts: NDArray[np.int64], sums: WholeCounts, totals: NDArray[np.int64]
) -> WholeCounts:
    """Return whole counts whose families add up to `sums` by cell, and whose parts have their totals.

    Args:
        values: shape (parts, cells).
        starts: where each family begins.
        sums: at least 0, shape (families, cells).
        totals: of each part; those of a family add up to its sums.
    """
    nearest = between_margins(values, starts, sums, totals)
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


def between_margins(
    values: Floats,
    starts: NDArray[np.int64],
    sums: WholeCounts | Floats,
    totals: NDArray[np.int64],
    possible: NDArray[np.bool_] | None = None,
) -> Floats:
    """Move values to non-negative ones with both margins: to either in turns, each time from where the last left.

    Args:
        values: shape (parts, cells).
        starts: where each family begins.
        sums: of the families by cell, at least 0. Where no values have both margins, the totals are met.
        totals: of each part; 0 where no cell is possible.
        possible: which values may be above 0, where not all.
    """
    found, moved_first, moved_second = values, np.zeros_like(values), np.zeros_like(values)
    for _ in range(_TURNS):
        first = project_families(found + moved_first, starts, sums, possible)
        moved_first = found + moved_first - first
        second = project_rows(first + moved_second, totals, possible)
        moved_second = first + moved_second - second
        if np.abs(second - found).max(initial=0.0) < GRID:
            return second
        found = second
    return found


def whole_rows(values: Floats, totals: NDArray[np.int64], possible: NDArray[np.bool_]) -> WholeCounts:
    """Return whole counts near some values, of which each row adds up to its total.

    What rounding takes from the rows before is owed to the next ones, so that sums over rows stay near.

    Args:
        values: not negative, shape (rows, cells).
        totals: of each row; 0 where no cell is possible.
        possible: which cells may be above 0, same shape as the values.
    """
    counts, owed = np.zeros(values.shape, dtype=np.int64), np.zeros(values.shape[1])
    for row in range(values.shape[0]):
        here = slice(row, row + 1)
        most = np.where(possible[here], totals[here, None], 0)
        counts[here] = _within(on_grid(np.clip(values[here] + owed, 0, most)), most, totals[here])
        owed += values[row] - counts[row]
    return counts


def project_rows(values: Floats, totals: NDArray[np.int64], possible: NDArray[np.bool_] | None = None) -> Floats:
    """Return the nearest non-negative values of which each row adds up to its total; arguments as above."""
    if possible is not None:
        # So far below the others that no share of a total reaches them.
        outside = values.min(initial=0.0) - float(totals.max(initial=0)) - 1.0
        values = np.where(possible, values, outside)
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
