"""Whole counts of places with public totals that differ in the cells in which anybody can be.

A place's counts are fixed before those of its parts. Let one part have 100 rows, all of which must be in one cell:
then the place needs 100 in that cell, whatever the noise says. So the counts of a place are made pattern by pattern.
The *pattern* of a place of the smallest level with public totals is the set of its possible cells. A larger place has
one share for each pattern of the places in it, and the total of a share is public: the sum of the totals of these
places. Inside a pattern all places have the same cells. So its shares are a tree of their own, in which whole counts
with both margins exist at every step. The counts of a larger place are the sums of its shares.

A share's estimate is the sum of those of its smallest places. What these say of impossible cells is noise, and would
be lost: so the shares of each larger place are first moved to its own estimate, the more the more places they hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.arrays import Floats
from privacy.refine.chunks import over_pieces
from privacy.refine.place_estimates import pieces
from privacy.refine.place_families import (
    GRID,
    WholeCounts,
    between_margins,
    on_grid,
    project_rows,
    two_margins,
    whole_rows,
)

_TURNS: Final = 60


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
