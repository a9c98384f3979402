"""From a noisy tree of counts to whole-number weights of the leaves inside each bin: post-processing.

    CONSISTENT  all levels are fitted together by weighted least squares
    SMOOTH      a monotone curve goes through the cumulated counts at the ends of the bins
    SPLIT       a bin is halved again and again, where a node of the tree begins if it can be. Of a run of leaves of
                estimated count T the left half has L, and the share p by the curve. What L is more than p T, its
                surprise d, is taken as far as it stands out of its noise of variance v: max(0, 1 - v / d^2) of it
    WHOLE       the shares of a bin's leaves become whole weights

So a bin of few rows is filled as smoothly as its neighbours say, and a value that many rows have keeps its rows.

Source: Hay, Rastogi, Miklau, Suciu 2010 (consistency); Fritsch, Butland 1984 (the curve); James, Stein 1961, for the
form of the factor alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import sqrt
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.bin_contents import MOST_WEIGHT, BinContents
from contracts.domains.bins import ExactNumber
from contracts.domains.value_bins import BinTree, bin_ends
from privacy.arrays import Floats
from privacy.generators.generator import InsideError
from privacy.refine.hierarchy import make_consistent

Bins = Sequence[tuple[ExactNumber, ExactNumber]]
_LEAST_SHARE: Final = 1e-12
_FARTHEST_TILT: Final = 2000.0
_HALVINGS: Final = 60
_FEWEST: Final = 1.0
"""Rows that a bin counts as at least for the curve, which has to rise."""


def bin_contents(values: NDArray[np.int64], tree: BinTree, axis: Bins, *, variance: float) -> BinContents:
    """Return how values lie inside the bins of a column.

    Args:
        values: the noisy numbers of the tree, int64, shape (tree.parts,) [rows].
        tree: its leaves.
        axis: the declared bins.
        variance: of the noise of each number [rows²].
    Privacy: post-processing.
    """
    ends = bin_ends(axis, tree)
    return contents_by(leaf_shares(leaf_estimates(values, tree, variance), tree, ends, variance), tree, ends)


def leaf_shares(counts: Floats, tree: BinTree, ends: Sequence[int], variance: float) -> Floats:
    """Return the share that each leaf has of the run of leaves which it lies in.

    Args:
        counts: estimated counts of the leaves, shape (leaves,) [rows].
        tree: its leaves.
        ends: the first leaf of each run, and after them the number of leaves.
        variance: of the noise of each number of the tree [rows²].
    """
    before, blocks, shares = np.append(0.0, np.cumsum(counts)), _Blocks(tree, variance), np.empty(tree.leaves)
    smooth = blocks.smooth(ends, before)
    for first, end in pairwise(ends):
        blocks.spread(first, end, before, smooth, shares)
    return shares


def contents_by(shares: Floats, tree: BinTree, ends: Sequence[int]) -> BinContents:
    """Return the contents of bins by the shares of their leaves; a bin whose leaves have none is filled uniformly.

    Args:
        shares: of each leaf, in any unit in each bin.
        tree: its leaves.
        ends: the first leaf of each bin, and after them the number of leaves.
    """
    starts = np.array([*tree.cuts, tree.lattice.width + 1], dtype=np.float64)
    weights = np.empty(tree.leaves, dtype=np.int64)
    for first, end in pairwise(ends):
        own = shares[first:end]
        weights[first:end] = whole_weights(own if own.sum() > 0 else np.diff(starts[first : end + 1]))
    return BinContents(np.array(tree.cuts, dtype=np.int64), weights)


def with_mean(shares: Floats, rows: Floats, tree: BinTree, ends: Sequence[int], mean: float) -> Floats:
    """Return shares of leaves that give a column a mean, as far as its runs of leaves allow.

    Of all shares with that mean they are the nearest to those before, by relative entropy: each leaf's is times
    exp(t x), with x the middle of the leaf, and one t for all runs. Each run keeps its rows.

    Args:
        shares: of the leaves in their runs.
        rows: of each run, not negative [rows].
        tree: its leaves.
        ends: the first leaf of each run, and after them the number of leaves.
        mean: of the column, as an offset of its lattice [steps].
    Source: Csiszar 1975 (I-projections on a linear constraint are exponential tilts).
    """
    if rows.sum() <= 0:
        return shares
    runs = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
    starts = np.array([*tree.cuts, tree.lattice.width + 1], dtype=np.float64)
    places = (starts[:-1] + starts[1:] - 1) / (2 * tree.lattice.width)
    target = mean / tree.lattice.width * float(rows.sum())

    def tilted(by: float) -> Floats:
        # The largest exponent of a run is 0, so that none overflows.
        exponents = by * places
        powers = np.maximum(shares, _LEAST_SHARE) * np.exp(
            exponents - np.maximum.reduceat(exponents, ends[:-1])[runs]
        )
        return np.asarray(powers / np.add.reduceat(powers, ends[:-1])[runs])

    low, high = -_FARTHEST_TILT, _FARTHEST_TILT
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if tilted(middle) @ (rows[runs] * places) < target else (low, middle)
    return tilted((low + high) / 2)


def inside_error(tree: BinTree, axis: Bins, *, variance: float) -> InsideError:
    """Return the expected errors that noise inside bins makes in the values of a column; data-free.

    Formula: halving a run moves its surprise d over half its length h. The variance of the column's sum is the sum of
    var(d) h² over all runs that are halved; that of a quantile's rank is the largest var(d).

    Args:
        tree: its leaves.
        axis: the declared bins.
        variance: of the noise of each number [rows²].
    """
    blocks, step = _Blocks(tree, variance), float(tree.lattice.step)
    ends = bin_ends(axis, tree)
    runs = [run for first, end in pairwise(ends) for run in blocks.halves(first, end)]
    noise = [blocks.noise(*run) for run in runs]
    squares = sum(each * blocks.gap(low, high) ** 2 for each, (low, _, high) in zip(noise, runs, strict=True))
    return InsideError(step * sqrt(squares), sqrt(max(noise, default=0.0)))


def leaf_estimates(values: NDArray[np.int64], tree: BinTree, variance: float) -> Floats:
    """Return estimated counts of the leaves: all levels fitted together; shape (leaves,) [rows]."""
    levels, start = [], 0
    for nodes in tree.level_nodes:
        levels.append(values[start : start + nodes])
        start += nodes
    return _fitted(levels, tree, variance)


def leaf_covariance(tree: BinTree, weights: Floats) -> Floats:
    """Return the covariance of weighted sums of the leaves' estimates, for noise of variance 1; shape (sums, sums).

    Estimates are C A'y of nodes y, with A from leaves to nodes and C = (A'A)^-1. Of nodes that are w in the leaves
    and 0 above them they are C w, and w'C w is what is looked for.

    Args:
        tree: the tree.
        weights: of the leaves, shape (sums, leaves).
    """
    above = [np.zeros(nodes) for nodes in tree.level_nodes[:-1]]
    return weights @ np.stack([_fitted([*above, each], tree, 1.0) for each in weights], axis=1)


def _fitted(levels: Sequence[NDArray[Any]], tree: BinTree, variance: float) -> Floats:
    """Return the leaves to which all levels are fitted together."""
    parents = [np.arange(nodes, dtype=np.int64) // tree.fan_out for nodes in tree.level_nodes[1:]]
    found: Floats = make_consistent(levels, [variance] * tree.levels, parents, total=None)[-1]
    return found


def nodes_between(tree: BinTree, ends: Sequence[int]) -> Floats:
    """Return how many nodes of a tree the leaves between each end and the next one are made of."""
    blocks = _Blocks(tree, 1.0)
    return np.array([blocks.nodes(first, end) for first, end in pairwise(ends)], dtype=np.float64)


def monotone(knots: Floats, values: Floats, places: Floats) -> Floats:
    """Return a rising smooth curve through rising knots, at some places between them.

    Formula: a cubic in each interval. The slope at an inner knot is the weighted harmonic mean of the slopes of the
        lines on both sides. At an end it is that of a parabola through three knots, from 0 to three times the line's.

    Args:
        knots: rising, at least two.
        values: at the knots, rising.
        places: within the knots.
    Source: Fritsch and Butland 1984, A method for constructing local monotone piecewise cubic interpolants.
    """
    gaps, lines = np.diff(knots), np.diff(values) / np.diff(knots)
    slopes = np.empty(knots.size)
    slopes[[0, -1]] = lines[[0, -1]]
    if lines.size > 1:
        left, right = gaps[:-1] + 2 * gaps[1:], 2 * gaps[:-1] + gaps[1:]
        slopes[1:-1] = (left + right) / (left / lines[:-1] + right / lines[1:])
        for end, one, other in ((0, 0, 1), (-1, -1, -2)):
            weighed = (2 * gaps[one] + gaps[other]) * lines[one] - gaps[one] * lines[other]
            parabola = weighed / (gaps[one] + gaps[other])
            slopes[end] = min(max(parabola, 0.0), 3 * lines[one])
    found = np.clip(np.searchsorted(knots, places, side="right") - 1, 0, gaps.size - 1)
    gap, part = gaps[found], (places - knots[found]) / gaps[found]
    low, high = values[found], values[found + 1]
    bend = part * (1 - part) * gap * (slopes[found] * (1 - part) - slopes[found + 1] * part)
    return np.asarray(low + (high - low) * part**2 * (3 - 2 * part) + bend)


class _Blocks:
    """Runs of leaves that are halved again and again.

    Args:
        tree: the tree.
        variance: of the noise of each number [rows²].
    """

    def __init__(self, tree: BinTree, variance: float) -> None:
        self._variance, self._sizes = variance, tree.level_leaves[::-1]
        self._starts = np.array([*tree.cuts, tree.lattice.width + 1], dtype=np.float64)

    def smooth(self, ends: Sequence[int], before: Floats) -> Floats:
        """Return cumulated rows at the start of each leaf, smooth between the ends of runs; post-processing."""
        rows = np.maximum(np.diff(before[list(ends)]), _FEWEST)
        return monotone(self._starts[list(ends)], np.append(0.0, np.cumsum(rows)), self._starts)

    def spread(self, first: int, end: int, before: Floats, smooth: Floats, shares: Floats) -> None:
        """Split a bin over its leaves, half by half; `before` has the cumulated estimates, from 0 [rows]."""
        shares[first:end] = 1.0
        for low, middle, high in self.halves(first, end):
            rise = float(smooth[high] - smooth[low])
            # Beside 10^9 rows a double may hold no rise of a run that has next to none: then its length decides.
            plain = self._share(low, middle, high) if rise <= 0 else float(smooth[middle] - smooth[low]) / rise
            plain = min(1.0, max(0.0, plain))
            part = self._part(low, middle, high, before, plain)
            shares[low:middle] *= part
            shares[middle:high] *= 1 - part

    def halves(self, first: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield each run that is halved: where it begins, is halved and ends."""
        waiting = [(first, end)]
        while waiting:
            low, high = waiting.pop()
            if high - low > 1:
                middle = self._middle(low, high)
                yield low, middle, high
                waiting += [(low, middle), (middle, high)]

    def noise(self, low: int, middle: int, high: int, plain: float | None = None) -> float:
        """Return the variance of the surprise of a run, as far as it is noise [rows²]."""
        plain = self._share(low, middle, high) if plain is None else plain
        nodes = (1 - plain) ** 2 * self.nodes(low, middle) + plain**2 * self.nodes(middle, high)
        return nodes * self._variance

    def gap(self, low: int, high: int) -> float:
        """Return how far the middles of two halves lie apart: half the length of the run [steps]."""
        return float(self._starts[high] - self._starts[low]) / 2

    def _part(self, low: int, middle: int, high: int, before: Floats, plain: float) -> float:
        """Return the share of a run that its left half has; `plain` is what is expected of it."""
        total, left = before[high] - before[low], before[middle] - before[low]
        if total <= 0:
            return plain
        surprise = left - plain * total
        kept = max(0.0, 1 - self.noise(low, middle, high, plain) / surprise**2) if surprise else 0.0
        return float(min(1.0, max(0.0, plain + kept * surprise / total)))

    def _share(self, low: int, middle: int, high: int) -> float:
        """Return the share of a run's length that its left half has."""
        starts = self._starts
        return float((starts[middle] - starts[low]) / (starts[high] - starts[low]))

    def _middle(self, low: int, high: int) -> int:
        """Return where a run is halved: near its middle, at a node of the highest level that begins inside it."""
        for size in reversed(self._sizes):
            first, last = -(-(low + 1) // size) * size, (high - 1) // size * size
            if first <= last:
                nearest = round((low + high) / 2 / size) * size
                return int(min(max(nearest, first), last))
        return (low + high) // 2

    def nodes(self, low: int, high: int) -> int:
        """Return how many nodes a run of leaves is made of, the largest whole ones that do not overlap."""
        return sum(_of_level(low, high, self._sizes))


def _of_level(low: int, high: int, sizes: Sequence[int]) -> Iterator[int]:
    """Yield how many nodes of each level, the leaves first, a run is made of."""
    for size, above in zip(sizes, [*sizes[1:], None], strict=True):
        inner = None if above is None else (-(-low // above) * above, high // above * above)
        if inner is None or inner[0] >= inner[1]:
            yield -(-(high - low) // size)
            return
        yield (inner[0] - low + high - inner[1] + size - 1) // size
        low, high = inner


def whole_weights(shares: Floats) -> NDArray[np.int64]:
    """Return shares, some above 0, as whole weights of at most `MOST_WEIGHT` together, at least 1."""
    # Divided first: of shares that nearly underflow the quotient of the largest weight and their sum would overflow.
    weights = np.floor(shares / float(shares.sum()) * MOST_WEIGHT).astype(np.int64)
    weights[np.argmax(shares)] += int(weights.sum() == 0)
    return weights
