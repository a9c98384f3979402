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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heappop, heappush
from itertools import pairwise
from math import sqrt
from typing import Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.contract.decoding import MOST_WEIGHT, BinContents, evenly
from contracts.contract.impossible_cells import Clique
from contracts.domains.addends import Addends
from contracts.domains.bins import ExactNumber
from contracts.domains.trees import BinTree, bin_ends
from contracts.release.joined_cells import joined_cells
from privacy.arrays import Floats
from privacy.generators.generator import CannotGenerate, CountsSource, InsideError, Model, SynthesisTask
from privacy.grant.measurement import CellSumMeasurement, Measurement
from privacy.marginals.cell_sums import PrivateCellSums
from privacy.marginals.counts import PrivateCounts, coarsening
from privacy.marginals.graph import CellDomain
from privacy.marginals.model import PublishedModel, times
from privacy.marginals.portable import PostProcessingSeed
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


# --- Bins of numbers that are joined as noisy counts say, and a generator that counts the joined ones.


STANDS: Final = 3.0
MOST_RUNS: Final = 32
DECIMALS: Final = 6
"""Estimates are compared in these decimals, so that another processor comes to the same cuts."""

Joins = Mapping[str, tuple[int, ...]]
"""Of some columns, the first declared bin of each joined one, rising from 0."""


def join(
    counts: Floats, tree: BinTree, ends: Sequence[int], *, variance: float, floor: float, apart: frozenset[int]
) -> tuple[int, ...]:
    """Return the first bin of each joined one.

    Args:
        counts: estimated counts of the leaves, shape (leaves,) [rows].
        tree: its leaves.
        ends: the first leaf of each bin, and after them the number of leaves.
        variance: of the noise of each number of the tree [rows²].
        floor: the least estimate of a joined bin beside a neighbour [rows].
        apart: bins that are not joined with the one before them.
    Privacy: post-processing.
    """
    before = np.round(np.append(0.0, np.cumsum(counts)), DECIMALS)

    def rows(first: int, end: int) -> float:
        return float(before[ends[end]] - before[ends[first]])

    def stands(first: int, end: int) -> bool:
        (nodes,) = nodes_between(tree, (ends[first], ends[end]))
        return rows(first, end) >= max(floor, STANDS * sqrt(variance * float(nodes)))

    waiting: list[tuple[float, int, int]] = []
    starts = sorted({0, *apart})
    for first, end in zip(starts, [*starts[1:], len(ends) - 1], strict=True):
        heappush(waiting, (-rows(first, end), first, end))
    found: list[int] = []
    while waiting:
        _, first, end = heappop(waiting)
        cuts = range(first + 1, end if len(found) + len(waiting) + 1 < MOST_RUNS else first + 1)
        standing = [cut for cut in cuts if stands(first, cut) and stands(cut, end)]
        if not standing:
            found.append(first)
            continue
        middle = min(standing, key=lambda cut: (abs(rows(first, cut) - rows(cut, end)), cut))
        for run in ((first, middle), (middle, end)):
            heappush(waiting, (-rows(*run), *run))
    return tuple(sorted(found))


def apart_in(task: SynthesisTask, column: str, bins: int) -> frozenset[int]:
    """Return the bins of a column that can hold other rows than the bin before them; data-free."""
    found: set[int] = set()
    for clique, mask in task.impossible.items():
        if column in clique:
            slices = np.moveaxis(mask, clique.index(column), 0)[:bins].reshape(bins, -1)
            found |= {code for code in range(1, bins) if not np.array_equal(slices[code], slices[code - 1])}
    return frozenset(found)


class JoinedCounts:
    """A source of handles on marginals over joined bins.

    Args:
        source: gives the handles on the declared cells.
        joins: which bins are joined.
        contract: declares the cells.
    """

    def __init__(self, source: CountsSource, joins: Joins, contract: Contract) -> None:
        self._source, self._joins, self._contract = source, joins, contract

    def marginals(self, cliques: Sequence[Clique]) -> tuple[PrivateCounts, ...]:
        """Return a handle for each clique; nothing is read before a grant opens one."""
        return tuple(map(self._joined, self._source.marginals(cliques)))

    def rows(self, names: Sequence[str] | None = None) -> NoReturn:
        """Refuse: rows have the declared cells.

        Raises:
            CannotGenerate: always.
        """
        raise CannotGenerate("a generator that learns from rows does not take joined bins")

    def parent_marginals(self, cliques: Sequence[Clique]) -> NoReturn:
        """Refuse: bins of linked tables are not joined.

        Raises:
            CannotGenerate: always.
        """
        raise CannotGenerate("a generator of linked tables does not take joined bins")

    def sums(self, clique: Clique, addends: Sequence[Addends]) -> tuple[PrivateCellSums, ...]:
        """Return a handle for each of what is counted over lattices, by cells as they are declared."""
        return self._source.sums(clique, addends)

    def _joined(self, counts: PrivateCounts) -> PrivateCounts:
        """Return the handle on the sums over joined bins; the same where the clique has none."""
        joins = tuple((name, self._joins[name]) for name in counts.clique if name in self._joins)
        if not joins:
            return counts
        return counts.coarser(coarsening(joined_cells(counts.clique, dict(joins), self._contract), joins))


def joined_task(task: SynthesisTask, joins: Joins, contract: Contract) -> SynthesisTask:
    """Return what the generator is asked for over joined bins."""
    domain, zeros = task.domain, task.impossible
    cells = {clique: joined_cells(clique, joins, contract) for clique in zeros}
    shape = joined_cells(domain.columns, joins, contract).shape(domain.columns)
    return replace(
        task,
        domain=CellDomain(domain.columns, shape),
        impossible={clique: cells[clique].impossible(clique) for clique in zeros},
        layout=None,
        contract=None,
    )


@dataclass(frozen=True, eq=False)
class JoinedBins:
    """The declared bins in each joined one of a column, with their parts of it; released.

    Args:
        firsts: the first bin of each joined one, int64, rising from 0.
        weights: of each declared bin, int64, not negative; those of a joined one add up to 1 at least, and
            `MOST_WEIGHT` at most.
    Raises:
        ValueError: what does not fit together.
    """

    firsts: NDArray[np.int64]
    weights: NDArray[np.int64]

    def __post_init__(self) -> None:
        firsts, weights = self.firsts, self.weights
        whole = firsts.dtype == weights.dtype == np.int64 and firsts.ndim == weights.ndim == 1
        if not (whole and firsts.size and firsts[0] == 0 and (np.diff(firsts) > 0).all()):
            raise ValueError("joined bins begin at bin 0, and rise")
        if firsts[-1] >= weights.size or weights.min() < 0:
            raise ValueError("joined bins have a weight for each declared bin, and none without one")
        if self._totals.min() < 1 or self._totals.max() > MOST_WEIGHT:
            raise ValueError(f"weights that add up to 1 to {MOST_WEIGHT} in each joined bin")

    @cached_property
    def _totals(self) -> NDArray[np.int64]:
        # Each weight is cut first, so that no sum leaves 64 bits whatever a stranger wrote.
        return np.add.reduceat(np.minimum(self.weights, MOST_WEIGHT + 1), self.firsts)

    def declared(self, cells: int) -> int:
        """Return how many declared cells so many cells stand for: missing values keep one of their own."""
        return cells - self.firsts.size + self.weights.size

    def cell_of(self, cells: int) -> NDArray[np.int64]:
        """Return the cell of each declared one."""
        inside = np.searchsorted(self.firsts, np.arange(self.weights.size), side="right") - 1
        return np.append(inside, np.arange(self.firsts.size, cells))

    def parts(self, cells: int) -> Floats:
        """Return the part of its cell that each declared one has."""
        runs = self.cell_of(self.firsts.size)
        return np.append(self.weights / self._totals[runs], np.ones(cells - self.firsts.size))

    def within(self, allowed: Sequence[int]) -> JoinedBins:
        """Return the same with the weights of some declared bins alone; joined bins without any keep theirs."""
        weights = np.where(np.isin(np.arange(self.weights.size), allowed), self.weights, 0)
        lost = np.add.reduceat(weights, self.firsts) == 0
        return replace(self, weights=np.where(lost[self.cell_of(self.firsts.size)], self.weights, weights))

    def spread(self, codes: NDArray[np.int32], seed: PostProcessingSeed) -> NDArray[np.int32]:
        """Return a declared cell for each row, those of a joined bin as evenly as whole rows can be.

        Args:
            codes: the joined bin of each row, or a cell after the bins.
            seed: public.
        """
        bins, runs = codes < self.firsts.size, self.firsts.size
        own = codes[bins].astype(np.int64)
        places = evenly(own, self._totals, seed.words(0, own.size), seed.words(1, runs))
        cumulated = np.cumsum(self.weights)
        base = np.append(0, cumulated)[self.firsts]
        found = codes.astype(np.int64) - runs + self.weights.size
        found[bins] = np.searchsorted(cumulated, base[own] + places, side="right")
        return found.astype(np.int32)


# --- Margins of numbers without the bins that do not stand out of the noise.


_DEVIATIONS: Final = 2.0
_MOST_LOST: Final = 0.1
_LEAST: Final = 1e-6


def standing_margins(
    model: Model, trees: Sequence[tuple[BinTree, Bins, CellSumMeasurement]], measured: Sequence[Measurement]
) -> Model:
    """Return the model with such margins.

    Args:
        model: what the generator fitted.
        trees: of each column its tree, its declared bins, and the noisy counts.
        measured: the marginals that the generator measured.
    Privacy: post-processing.
    """
    if not isinstance(model, PublishedModel) or not trees:
        return model
    alone = {one.clique: one for one in measured if len(one.clique) == 1}
    graphical = model.graphical
    for tree, axis, drawn in trees:
        stands = standing(*_estimated(tree, axis, drawn, alone.get((tree.column,))))
        if stands is not None and not stands.all():
            graphical = times(graphical, tree.column, _factors(graphical.marginal((tree.column,)), stands))
    return model if graphical is model.graphical else PublishedModel.of(graphical, model.rows)


def _estimated(
    tree: BinTree, axis: Bins, drawn: CellSumMeasurement, own: Measurement | None
) -> tuple[Floats, Floats]:
    """Return estimates of the bins' counts and their variances, shape (bins,) [rows, rows²]."""
    counts, ends = leaf_estimates(drawn.values, tree, drawn.variance), bin_ends(axis, tree)
    found = np.add.reduceat(counts, ends[:-1])
    spread = drawn.variance * nodes_between(tree, ends)
    if own is None:
        return found, spread
    part = spread / (spread + own.variance)
    return part * own.values[: found.size] + (1 - part) * found, part * own.variance


def standing(estimates: Floats, variances: Floats) -> NDArray[np.bool_] | None:
    """Mark the bins that stand out of the noise; None where too many rows are in the others.

    Args:
        estimates: of their counts [rows].
        variances: of these [rows²].
    """
    stands: NDArray[np.bool_] = estimates > _DEVIATIONS * np.sqrt(variances)
    lost = estimates[~stands].sum()
    return stands if stands.any() and lost <= _MOST_LOST * estimates.sum() else None


def _factors(margin: NDArray[np.float64], stands: NDArray[np.bool_]) -> Floats:
    """Return the logarithm of each cell's factor: bins that do not stand give what they lose to those that do."""
    bins, factors, least = margin[: stands.size], np.zeros(margin.size), _LEAST * margin.sum()
    low, kept = ~stands & (bins > least), bins[stands].sum()
    if kept <= 0:
        return factors
    lost = (bins[low] - least).sum()
    factors[: stands.size][low] = np.log(least / bins[low])
    factors[: stands.size][stands] = np.log1p(lost / kept)
    return factors


# --- The mean of a column from its noisy sums and its noisy tree of counts together.


_SAYS = np.array([[1.0, 0.0], [-1.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
"""What above, below, and the tree's two numbers are of S and n."""


def mean_offset(tree: BinTree, counts: CellSumMeasurement, total: CellSumMeasurement) -> float | None:
    """Return the mean offset of a column; None where the noisy numbers say of no row [steps].

    Args:
        tree: its leaves.
        counts: of the tree.
        total: the sums of its steps above the lower and below the upper bound.
    Privacy: post-processing.
    """
    width = tree.lattice.width
    starts = np.array([*tree.cuts, width + 1], dtype=np.float64)
    # From its first to its last offset: a leaf of one value has no half.
    middles, halves = (starts[:-1] + starts[1:] - 1) / (2 * width), (np.diff(starts) - 1) / (2 * width)
    rows = leaf_estimates(counts.values, tree, counts.variance)
    weights = np.stack([middles, np.ones(tree.leaves)])
    of_tree = counts.variance * leaf_covariance(tree, weights)
    of_tree[0, 0] += float(np.maximum(rows, 0.0) @ halves) ** 2 / 3
    of_sums = np.eye(2) * total.variance / width**2
    precision = np.zeros((4, 4))
    precision[:2, :2], precision[2:, 2:] = np.linalg.inv(of_sums), np.linalg.inv(of_tree)
    numbers = np.append(total.values[:2] / width, weights @ rows)
    summed, valued = np.linalg.solve(_SAYS.T @ precision @ _SAYS, _SAYS.T @ precision @ numbers)
    return width * float(min(1.0, max(0.0, summed / valued))) if valued > 0 else None
