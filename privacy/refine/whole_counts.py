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

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.arrays import Floats
from privacy.refine.estimates import pieces
from privacy.refine.margin_spaces import cell_shares
from privacy.refine.simplex import over_pieces

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


# --- Whole counts of places with public totals that differ in the cells in which anybody can be.


@dataclass(frozen=True, eq=False)
class _Shares:
    """The shares of the places of a level, ordered by pattern and place.

    Args:
        place: of each share.
        pattern: of each share.
        places: of the smallest level, how many each share holds.
        starts: where the shares of the level below begin that are in each share, and the end of the last; empty for
            the smallest level.
        values: estimates, shape (shares, cells) [rows].
        totals: public, of each share [rows].
    """

    place: NDArray[np.int64]
    pattern: NDArray[np.int64]
    places: NDArray[np.int64]
    starts: NDArray[np.int64]
    values: Floats
    totals: NDArray[np.int64]


def patterned_counts(
    estimates: Sequence[Floats],
    possible: NDArray[np.bool_],
    totals: WholeCounts,
    groups: NDArray[np.int64],
    parents: Sequence[NDArray[np.int64]],
) -> list[WholeCounts]:
    """Return whole counts of each level from the whole down to the smallest one with public totals.

    Args:
        estimates: by level, shape (places, cells) [rows].
        possible: which cells may be above 0 in the places of the last of these levels, shape (places, cells).
        totals: public counts of these places, shape (places, groups); 0 where a group has no possible cell [rows].
        groups: in which group each cell lies, shape (cells,).
        parents: of each level from the second on, the number of the place above each place.
    Returns:
        By level, int64, shape (places, cells): not negative, 0 where not possible, each place the sum of its parts,
        and with the public totals of the last level.
    Privacy: post-processing; deterministic.
    """
    found = [np.zeros(each.shape, dtype=np.int64) for each in estimates]
    for group in range(totals.shape[1]):
        inside = np.flatnonzero(groups == group)
        own = [on_grid(each[:, inside]) for each in estimates]
        for level, counts in enumerate(_group_counts(own, possible[:, inside], totals[:, group], parents)):
            found[level][:, inside] = counts
    return found


def _group_counts(
    estimates: Sequence[Floats],
    possible: NDArray[np.bool_],
    totals: NDArray[np.int64],
    parents: Sequence[NDArray[np.int64]],
) -> list[WholeCounts]:
    """Return the counts of the cells of one group; arguments as of `patterned_counts`."""
    packed = np.packbits(possible, axis=1)
    _, first, pattern = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    levels, cells = _shares(pattern.reshape(-1), estimates[-1], totals, parents), possible[first]
    wanted = [_reconciled(own, values, cells) for own, values in zip(levels, estimates, strict=True)]
    counts = whole_rows(wanted[0], levels[0].totals, cells[levels[0].pattern])
    found = [_added(counts, levels[0].place, 1)]
    for (above, own), values, level in zip(pairwise(levels), wanted[1:], estimates[1:], strict=True):
        counts = _parts(values, above.starts, counts, own.totals)
        found.append(_added(counts, own.place, level.shape[0]))
    return found


def _shares(
    pattern: NDArray[np.int64], values: Floats, totals: NDArray[np.int64], parents: Sequence[NDArray[np.int64]]
) -> list[_Shares]:
    """Return the shares of each level, from the whole down."""
    order = np.lexsort((np.arange(pattern.size), pattern))
    alone, nothing = np.ones(order.size, dtype=np.int64), np.empty(0, dtype=np.int64)
    levels = [_Shares(order, pattern[order], alone, nothing, values[order], totals[order])]
    for parent in reversed(parents):
        below = levels[0]
        place = parent[below.place]
        # Places are in the order of their parents: so are the shares of a pattern.
        new = (np.diff(place, prepend=-1) != 0) | (np.diff(below.pattern, prepend=-1) != 0)
        starts = np.flatnonzero(new)
        places, sums, added = (
            np.add.reduceat(each, starts, axis=0) for each in (below.places, below.values, below.totals)
        )
        ends = np.append(starts, place.size)
        levels.insert(0, _Shares(place[starts], below.pattern[starts], places, ends, sums, added))
    return levels


def _reconciled(own: _Shares, values: Floats, patterns: NDArray[np.bool_]) -> Floats:
    """Move the shares of each place of a level to values that keep their totals and add up to the place, or nearly.

    Args:
        own: the shares.
        values: estimates of the places.
        patterns: the possible cells of each pattern.
    """
    if not own.starts.size:
        return own.values
    order = np.lexsort((own.pattern, own.place))
    starts = np.flatnonzero(np.diff(own.place[order], prepend=-1))
    number, cells, totals = own.place[order], patterns[own.pattern[order]], own.totals[order]
    here = np.logical_or.reduceat(cells, starts, axis=0)
    sums = project_rows(values, np.add.reduceat(totals, starts), here)
    # Sums over many places have much noise: they take most of what is lacking.
    weights = np.where(cells, own.places[order][:, None], 0).astype(np.float64)
    weights /= np.maximum(np.add.reduceat(weights, starts, axis=0), 1)[number]
    alike = cells / np.maximum(cells.sum(axis=1, keepdims=True), 1)
    found = np.where(cells, own.values[order], 0.0)
    for _ in range(_TURNS):
        before = found
        found = found + weights * (sums - np.add.reduceat(found, starts, axis=0))[number]
        found = found + alike * (totals - found.sum(axis=1))[:, None]
        if np.abs(found - before).max() < GRID:
            break
    wanted = np.empty_like(found)
    wanted[order] = between_margins(found, starts, sums, totals, cells)
    return wanted


def _parts(values: Floats, starts: NDArray[np.int64], above: WholeCounts, totals: NDArray[np.int64]) -> WholeCounts:
    """Return the counts of the shares of a level within those of the level above, piece by piece."""
    counts = np.empty(values.shape, dtype=np.int64)

    def fill(families: tuple[int, int]) -> None:
        first, end = families
        low, high = int(starts[first]), int(starts[end])
        own = values[low:high], starts[first:end] - low, above[first:end], totals[low:high]
        counts[low:high] = two_margins(*own)

    over_pieces(fill, list(pieces(starts, values.shape[1])))
    return counts


def _added(counts: WholeCounts, place: NDArray[np.int64], places: int) -> WholeCounts:
    """Add up the shares of each place."""
    found = np.zeros((places, counts.shape[1]), dtype=np.int64)
    np.add.at(found, place, counts)
    return found


# --- 95 % intervals of exact counts down a tree of places, from all measurements together.


REACH: Final = 2.0
"""Deviations of a normal variable: 95.4 % of it lies within two."""


def interval_ends(
    estimates: Floats, deviations: Floats, published: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return both ends of each interval, whole numbers at least 0, int64 [rows].

    Args:
        estimates: before they were made whole; any shape [rows].
        deviations: of each, of a shape that broadcasts to it [rows].
        published: the counts that are published.
    Privacy: post-processing.
    """
    # On a grid, so that last bits of sums do not move an end.
    middle = np.rint(estimates / GRID) * GRID
    reach = np.ceil(REACH * deviations / GRID) * GRID + 0.5
    lower = np.maximum(np.ceil(middle - reach), 0).astype(np.int64)
    upper = np.floor(np.maximum(middle, 0) + reach).astype(np.int64)
    return np.minimum(lower, published), np.maximum(upper, published)


def deviations_of(variances: Floats, shape: Sequence[int], cells: Sequence[NDArray[np.bool_]]) -> Floats:
    """Return the deviation of the sum over some cells of each place.

    Args:
        variances: by place and set of columns, shape (places, 2^d) [rows^2].
        shape: cells of each column.
        cells: for each column which of its labels are added up (`cell_shares`).
    """
    return np.asarray(np.sqrt(np.maximum(variances @ cell_shares(shape, cells), 0)))


def margin_deviations(variances: Floats, shape: Sequence[int], kept: Sequence[bool]) -> Floats:
    """Return the deviation of a cell of the margin that keeps some columns, for each place."""
    marked = [
        np.arange(size) == 0 if own else np.ones(size, dtype=np.bool_) for size, own in zip(shape, kept, strict=True)
    ]
    return deviations_of(variances, shape, marked)
