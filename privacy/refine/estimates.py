"""Generalised least squares over a tree of places, in two passes: all measurements of all levels, and invariants.

Upwards each place combines what was measured of it with the sum of its parts; downwards what the parts lack of their
place is shared out in proportion to their variances. The variances are one number for each place and each set S of
columns (`margin_spaces`), so that both passes take time linear in the number of cells. The largest level is never
held but for its estimates: it is worked on family by family, in pieces.

Public margins of a level fix all S within their columns, of each of its places: variance 0.
Source: Hay, Rastogi, Miklau and Suciu 2010, section 4; generalised to several tables a place (`margin_spaces`), to
unequal families and to exact totals. On a tree the passes are weighted least squares exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.arrays import Floats
from privacy.refine.margin_spaces import bits_of, precisions, spread
from privacy.refine.simplex import over_pieces

# --- Counts of places that are public.


@dataclass(frozen=True, eq=False)
class PublicMargin:
    """Public counts of the places of a level.

    Args:
        kept: which of all columns the margin has; none of them for the number of rows.
        counts: shape (places, cells of the margin), int64 [rows].
    """

    kept: tuple[bool, ...]
    counts: NDArray[np.int64]

    def fixed(self) -> NDArray[np.int64]:
        """Return the sets S of columns, as bits, of which nothing is left to estimate."""
        own = bits_of(self.kept)
        return np.array([part for part in range(1 << len(self.kept)) if part & own == part], dtype=np.int64)

    def groups(self, shape: Sequence[int]) -> NDArray[np.int64]:
        """Return the cell of the margin in which each cell of a place lies, shape (cells,)."""
        own = tuple(size if has else 1 for size, has in zip(shape, self.kept, strict=True))
        return np.broadcast_to(np.arange(prod(own)).reshape(own), tuple(shape)).reshape(-1)

    def shifted(self, values: Floats, low: int, high: int) -> Floats:
        """Shift the counts of some places alike within each group, so that it adds up to its public count.

        Args:
            values: of the places low to high, shape (high - low, *cells of a place) [rows].
        """
        left_out = tuple(axis for axis, has in enumerate(self.kept, start=1) if not has)
        outside = prod(values.shape[axis] for axis in left_out)
        found = values.sum(axis=left_out, keepdims=True)
        lacking = self.counts[low:high].reshape(found.shape) - found
        return np.asarray(values + lacking / outside)


def row_totals(counts: NDArray[np.int64], columns: int) -> PublicMargin:
    """Return public numbers of rows of the places of a level, shape (places,), as a margin of no columns."""
    return PublicMargin((False,) * columns, counts.reshape(-1, 1))


def implied_margins(
    margins: Mapping[int, PublicMargin], parents: Sequence[NDArray[np.int64]]
) -> dict[int, PublicMargin]:
    """Return public margins with those that follow from them: of all places above the smallest level that has any.

    Args:
        margins: by number of the level, agreeing with each other; of two levels one has the columns of the other.
        parents: for each level but the first, the number of the place above each place; never falls.
    Returns:
        By number of the level; where a level has its own and one that follows, that with more columns.
    Raises:
        ValueError: the margins of two levels have columns that the other one lacks.
    """
    found = dict(margins)
    for level in range(max(margins, default=0), 0, -1):
        starts = np.flatnonzero(np.diff(parents[level - 1], prepend=-1))
        below, own = found[level], found.get(level - 1)
        if own is not None:
            both = bits_of(own.kept) | bits_of(below.kept)
            if both not in (bits_of(own.kept), bits_of(below.kept)):
                raise ValueError("margins of two levels have columns that the other one lacks")
            if both == bits_of(own.kept):
                continue
        found[level - 1] = PublicMargin(below.kept, np.add.reduceat(below.counts, starts, axis=0))
    return found


PIECE_CELLS: Final = 1 << 18
"""Cells that are worked on at a time: a few arrays of them stay in a core's cache between two steps."""


@dataclass(frozen=True)
class LevelTable:
    """A table as it was measured at one level.

    Args:
        noisy: noisy counts, shape (places, cells of its columns ...), int64 [rows].
        kept: which of all columns it has.
        variance: of the noise [rows^2].
    """

    noisy: NDArray[np.int64]
    kept: tuple[bool, ...]
    variance: float


@dataclass(frozen=True)
class MeasuredSpine:
    """All that was measured down a tree of places.

    Args:
        shape: cells of all columns of a place.
        parents: for each level but the first, the number of the place above each place; never falls.
        sizes: places of each level.
        tables: what was measured at each level.
        margins: public counts of the places of some levels, by number of the level; those of a level make the sums
            over all larger places public too (`implied_margins`).
    """

    shape: tuple[int, ...]
    parents: tuple[NDArray[np.int64], ...]
    sizes: tuple[int, ...]
    tables: tuple[tuple[LevelTable, ...], ...]
    margins: Mapping[int, PublicMargin]

    def starts(self, level: int) -> NDArray[np.int64]:
        """Return where the family of each place of a level begins in the level below, and the end of the last."""
        return self._starts[level]

    @cached_property
    def _starts(self) -> tuple[NDArray[np.int64], ...]:
        """`starts` of each level but the last: found once, since every piece of work asks for them."""
        levels = zip(self.parents, self.sizes, strict=False)
        return tuple(np.searchsorted(parent, np.arange(size + 1)) for parent, size in levels)


@dataclass(frozen=True)
class SpineEstimate:
    """What the upward pass leaves: the estimates downwards are asked of it piece by piece (`downwards`).

    Args:
        measured: what was measured.
        upward: of each level but the last, estimates from the place and all below it, shape (places, *shape) [rows].
        variances: of each level, their variances by place and S, shape (places, 2^d) [rows^2].
    """

    measured: MeasuredSpine
    upward: tuple[Floats, ...]
    variances: tuple[Floats, ...]


def upward_variances(measured: MeasuredSpine) -> tuple[Floats, ...]:
    """Return the variances of what each place and all below it tell, by level; no noisy count is read.

    Returns:
        By level, shape (places, 2^d) [rows^2].
    """
    found = [_smallest_variances(measured)]
    for level in range(len(measured.sizes) - 2, -1, -1):
        found.insert(0, _combined_variances(measured, level, _family_variances(measured, level, found[0])))
    return tuple(found)


def _family_variances(measured: MeasuredSpine, level: int, below: Floats) -> Floats:
    """Add up the variances of the parts of each place of a level."""
    return np.asarray(np.add.reduceat(below, measured.starts(level)[:-1], axis=0))


def estimate_upwards(measured: MeasuredSpine) -> SpineEstimate:
    """Combine each place with its parts, from the smallest places to the whole.

    Privacy: post-processing.
    """
    variances, upward = upward_variances(measured), list[Floats]()
    for level in range(len(measured.sizes) - 2, -1, -1):
        sums = _sums(measured, level, upward[0] if upward else None)
        family = _family_variances(measured, level, variances[level + 1])
        upward.insert(0, _combined(measured, level, sums, family, variances[level]))
    return SpineEstimate(measured, tuple(upward), variances)


def _sums(measured: MeasuredSpine, level: int, below: Floats | None) -> Floats:
    """Add up the estimates of the parts of each place of a level; `below` is None where they are the smallest."""
    sums, starts = np.empty((measured.sizes[level], *measured.shape)), measured.starts(level)

    def fill(families: tuple[int, int]) -> None:
        first, end = families
        low, high = int(starts[first]), int(starts[end])
        parts = smallest(measured, low, high) if below is None else below[low:high]
        sums[first:end] = np.add.reduceat(parts, starts[first:end] - low, axis=0)

    over_pieces(fill, pieces(starts, prod(measured.shape)))
    return sums


def pieces(starts: NDArray[np.int64], cells: int) -> Iterator[tuple[int, int]]:
    """Yield runs of families, each run with about `PIECE_CELLS` cells of the level below, or one family."""
    first, places = 0, max(1, PIECE_CELLS // cells)
    while first < starts.size - 1:
        end = int(np.searchsorted(starts, starts[first] + places, side="right")) - 1
        end = min(max(end, first + 1), starts.size - 1)
        yield first, end
        first = end


def _own_precisions(measured: MeasuredSpine, level: int) -> Floats:
    """Return l_S of what was measured at a level, shape (2^d,)."""
    found = np.zeros(1 << len(measured.shape))
    for table in measured.tables[level]:
        bits = sum(1 << place for place, own in enumerate(table.kept) if own)
        found += precisions(measured.shape, {bits: table.variance})
    return found


def _told(measured: MeasuredSpine, level: int, low: int, high: int) -> Floats:
    """Return sum over tables of M' y / v for some places of a level: what their noisy counts say of each cell."""
    found = np.zeros((high - low, *measured.shape))
    for table in measured.tables[level]:
        axes = [size if own else 1 for size, own in zip(measured.shape, table.kept, strict=True)]
        found += (table.noisy[low:high] / table.variance).reshape(high - low, *axes)
    return found


def _smallest_variances(measured: MeasuredSpine) -> Floats:
    last = len(measured.sizes) - 1
    found = np.broadcast_to(1 / _own_precisions(measured, last), (measured.sizes[last], 1 << len(measured.shape)))
    return _without_margins(found.copy(), measured, last)


def _without_margins(variances: Floats, measured: MeasuredSpine, level: int) -> Floats:
    """Return variances with 0 where public margins leave nothing to estimate."""
    if level in measured.margins:
        variances[:, measured.margins[level].fixed()] = 0
    return variances


def smallest(measured: MeasuredSpine, low: int, high: int) -> Floats:
    """Return the estimates of some smallest places from their own measurements alone."""
    last = len(measured.sizes) - 1
    found = spread(1 / _own_precisions(measured, last), _told(measured, last, low, high))
    return _with_margins(found, measured, last, low, high)


def _with_margins(values: Floats, measured: MeasuredSpine, level: int, low: int, high: int) -> Floats:
    """Shift the counts of some places, so that they add up to their public margin where they have one."""
    if level not in measured.margins:
        return values
    return measured.margins[level].shifted(values, low, high)


def _combined_variances(measured: MeasuredSpine, level: int, family: Floats) -> Floats:
    """Return v / (1 + l v): precisions of independent estimates add; a place without own measurement has l = 0."""
    found: Floats = family / (1 + _own_precisions(measured, level) * family)
    return _without_margins(found, measured, level)


def _combined(measured: MeasuredSpine, level: int, sums: Floats, family: Floats, spreads: Floats) -> Floats:
    """Weigh what was measured of each place and the sum of its parts by their precisions."""
    own = 1 / (1 + _own_precisions(measured, level) * family)

    def fill(places: tuple[int, int]) -> None:
        low, high = places
        told = spread(spreads[low:high], _told(measured, level, low, high))
        sums[low:high] = told + spread(own[low:high], sums[low:high])
        sums[low:high] = _with_margins(sums[low:high], measured, level, low, high)

    over_pieces(fill, _runs(measured.sizes[level], prod(measured.shape)))
    return sums


def _runs(places: int, cells: int) -> Iterator[tuple[int, int]]:
    step = max(1, PIECE_CELLS // cells)
    for low in range(0, places, step):
        yield low, min(low + step, places)


def down_shares(estimate: SpineEstimate, level: int, low: int, high: int) -> Floats:
    """Return which share of what a family lacks each part takes, for some places of a level below the first.

    Formula: share_S = v_S of the part / sum of v_S over its family; 0 where nothing of the family may move.
    """
    own, parent = estimate.variances[level][low:high], estimate.measured.parents[level - 1][low:high]
    starts = np.flatnonzero(np.diff(parent, prepend=parent[0] - 1))
    family = np.add.reduceat(own, starts, axis=0)[np.cumsum(np.diff(parent, prepend=parent[0]) > 0)]
    return np.divide(own, family, out=np.zeros_like(own), where=family > 0)


def downwards(estimate: SpineEstimate, level: int, above: Floats, first: int, end: int) -> tuple[int, int, Floats]:
    """Return the final estimates of the parts of some places.

    Args:
        estimate: the upward pass.
        level: of the parts, below the first.
        above: final estimates of the places first to end of the level above, shape (end - first, *shape) [rows].
        first, end: which places.
    Returns:
        tuple: the first part, the end of the parts, their final estimates.
    """
    measured, starts = estimate.measured, estimate.measured.starts(level - 1)
    low, high = int(starts[first]), int(starts[end])
    parts = estimate.upward[level] if level < len(estimate.upward) else None
    own = smallest(measured, low, high) if parts is None else parts[low:high]
    lacking = above - np.add.reduceat(own, starts[first:end] - low, axis=0)
    shares = down_shares(estimate, level, low, high)
    number = measured.parents[level - 1][low:high] - first
    return low, high, own + spread(shares, lacking[number])


def each_level(estimate: SpineEstimate) -> Iterator[Floats]:
    """Yield the final estimates of each level from the whole down; float64, (places, *shape) [rows].

    Privacy: post-processing.
    """
    measured = estimate.measured
    above = estimate.upward[0] if estimate.upward else smallest(measured, 0, measured.sizes[0])
    yield above
    for level in range(1, len(measured.sizes)):
        values = np.empty((measured.sizes[level], *measured.shape))
        for first, end in pieces(measured.starts(level - 1), prod(measured.shape)):
            low, high, parts = downwards(estimate, level, above[first:end], first, end)
            values[low:high] = parts
        yield values
        above = values


def final_variances(estimate: SpineEstimate) -> tuple[Floats, ...]:
    """Return the variances of the final estimates, by level, place and S, shape (places, 2^d) [rows^2].

    Formula: w of a part = u - u^2 / U + (u / U)^2 w of its place, with u its upward variance and U its family's sum.
    """
    found = [estimate.variances[0]]
    for level in range(1, len(estimate.variances)):
        own, parent = estimate.variances[level], estimate.measured.parents[level - 1]
        share = down_shares(estimate, level, 0, own.shape[0])
        found.append(own * (1 - share) + share**2 * found[-1][parent])
    return tuple(found)


def sum_variances(estimate: SpineEstimate, weights: Mapping[int, Floats]) -> Floats:
    """Return the variance by S of a weighted sum over places of any levels.

    Args:
        estimate: the upward pass.
        weights: of the places of a level, by its number, shape (places,).
    Returns:
        Shape (2^d,); the sum's variance is this times `cell_shares`, added up [rows^2].
    Source: a part is z + (u / U) (x of its place - sum of z); what does not move with the place adds its variance,
        and the rest is a weight on the place. So one pass upwards gives the exact variance.
    """
    last = len(estimate.variances) - 1
    own: Sequence[Floats] = estimate.variances
    found = np.zeros(own[0].shape[1])
    here = np.zeros((own[last].shape[0], found.size)) + _weight_of(weights, last)
    for level in range(last, 0, -1):
        places = own[level - 1].shape[0]
        share = down_shares(estimate, level, 0, own[level].shape[0])
        starts = estimate.measured.starts(level - 1)[:-1]
        found += (here**2 * own[level]).sum(axis=0)
        moved = np.add.reduceat(here * share, starts, axis=0)
        family = np.add.reduceat(own[level], starts, axis=0)
        found -= (moved**2 * family).sum(axis=0)
        here = np.zeros((places, found.size)) + _weight_of(weights, level - 1) + moved
    return np.asarray(found + (here**2 * own[0]).sum(axis=0))


def _weight_of(weights: Mapping[int, Floats], level: int) -> Floats:
    return weights[level][:, None] if level in weights else np.zeros((1, 1))


# --- Smallest places that lie in several trees.


TURNS: Final = 30
NEAR: Final = 2.0**-10
"""Turns end when no estimate moves further [rows]."""


@dataclass(frozen=True, eq=False)
class CrossingTree:
    """A further tree over the smallest places of a first one.

    Args:
        estimate: its upward pass.
        order: of each of its smallest places, in its order, the number in the first tree.
    """

    estimate: SpineEstimate
    order: NDArray[np.int64]


def crossed(first: SpineEstimate, others: Sequence[CrossingTree], values: Floats, above: Floats) -> Floats:
    """Return the estimates of the smallest places, moved towards the sums of all trees.

    Args:
        first: the upward pass of the first tree.
        others: further trees, with at least one level between the whole and the smallest places.
        values: final estimates of the smallest places of the first tree, shape (places, cells) [rows].
        above: those of the level above them.
    Privacy: post-processing; deterministic. Linear in what was measured, so that the estimates stay unbiased.
    """
    shape = first.measured.shape
    top = first.upward[0] if first.upward else smallest(first.measured, 0, 1)
    wanted = [_above_smallest(each.estimate, top) for each in others]
    found = values.reshape(-1, *shape).copy()
    last = above.reshape(-1, *shape)
    for _ in range(TURNS):
        before = found.copy()
        for each, sums in zip(others, wanted, strict=True):
            found[each.order] = _added_up_to(each.estimate, found[each.order], sums)
        found = _added_up_to(first, found, last)
        if np.abs(found - before).max() < NEAR:
            break
    return found.reshape(values.shape)


def _above_smallest(estimate: SpineEstimate, top: Floats) -> Floats:
    """Return the estimates of the level above the smallest places, under those of the first tree's whole."""
    found = top
    for level in range(1, len(estimate.measured.sizes) - 1):
        _, _, found = downwards(estimate, level, found, 0, estimate.measured.sizes[level - 1])
    return found


def _added_up_to(estimate: SpineEstimate, values: Floats, sums: Floats) -> Floats:
    """Share out what smallest places lack of the places above them, in proportion to their variances."""
    measured, last = estimate.measured, len(estimate.measured.sizes) - 1
    lacking = sums - np.add.reduceat(values, measured.starts(last - 1)[:-1], axis=0)
    shares = down_shares(estimate, last, 0, measured.sizes[last])
    return np.asarray(values + spread(shares, lacking[measured.parents[last - 1]]))
