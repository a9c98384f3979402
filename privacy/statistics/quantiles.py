"""Quantiles of a column by cell, with intervals, from a noisy tree of counts: post-processing of one draw.

Leaves 0 to n - 1 cut the lattice of the column (`contracts.domains.trees`). Boundary j lies below leaf j, and
F_j of the cell's N rows with a value lie below it. Of each F_j - p N the draw gives a noisy T_j. The nodes that hold
the boundary make a path. At each level L is the sum of the path's siblings below the boundary, R of those above, P
the parent on the path, and C its child on the path (0 if the boundary ends here). A level adds what has less noise:

    (1 - p) L - p R         or, since L + R + C = P without noise,   L - p (P - C)    or    (1 - p) (P - C) - R

The sums go over different nodes, and all weights are p, 1 - p or 1. So the law of T_j's noise follows from three
numbers of nodes, and so does a c_j that it exceeds with probability at most alpha (`noise_sums`).

The quantile is the smallest value at or below which at least p N rows lie. If it is in leaf j, F_j < p N <= F_{j+1}.
T_j < -c_j refutes that it lies below boundary j, and T_j > c_j that it lies at or above it. The lower end is found
level by level: from where the level above has stopped, the boundaries of this level are tested upwards, until one
is not refuted. What is refuted up to the quantile is false. So a level errs only by refuting its first boundary
above the quantile, whichever those before it were; and the alphas of all levels add up to 2.5 % for the lower end,
and as much for the upper one. The interval covers the quantile in at least 95 % of releases, whatever the number of
rows, ties among them, or the clip. With few rows nothing is refuted, and the interval is the whole clip.

The estimate is in the leaf where an isotonic fit of T changes its sign: j is least in the sum of T_1 to T_j. If this
leaf is refuted, it is in the nearest one that is not. There it is interpolated, to a value of the lattice. Of a cell
without rows there is no quantile to cover.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import sqrt
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Adjacency, Contract
from contracts.domains.lattice import ValueLattice
from contracts.domains.trees import QuantileChoices, ValueTree
from contracts.release.statistics import QUANTILES, USUAL_INTERVAL_SHARE, Statistic, StatisticsTable
from privacy.accounting.events import CountNoise
from privacy.arrays import Floats
from privacy.statistics.estimates import Estimates, bounded_estimates
from privacy.statistics.noise_sums import weighted_bounds

_ROUNDING: Final = 2.0**-49
_DIGITS: Final = np.array([2**40, 2**20, 1])
_LAST: Final = 0.75
"""What part of its probability of error an end spends on the last level, which decides how narrow intervals are."""
_LARGEST: Final = 2**62
_CHUNK: Final = 2**20
"""Boundaries of all cells that are worked on together."""


@dataclass(frozen=True)
class _Boundaries:
    """For each level and each boundary from 1 to n - 1, which nodes stand where; each of shape (levels, n - 1).

    Below are the path's siblings from `first` to before `split`, above those from `rest` to before `last`. Where the
    boundary was settled at a higher level, all are 0.

    Args:
        crossed: whether the boundary is within the parent at this level.
    """

    first: NDArray[np.intp]
    split: NDArray[np.intp]
    rest: NDArray[np.intp]
    last: NDArray[np.intp]
    crossed: NDArray[np.bool_]


@dataclass(frozen=True)
class _Form:
    """How the rank of each boundary is put together for a quantile.

    Args:
        residual: what the parent's residual is weighed with, as the place in (0, 1 - p, -p); shape (levels, n - 1).
        numbers: nodes of weight 1 - p, p and 1 in each rank, shape (n - 1, 3).
    """

    residual: NDArray[np.intp]
    numbers: NDArray[np.intp]


def estimate_quantiles(
    values: NDArray[np.int64], tree: ValueTree, shares: Sequence[Decimal], *, event: CountNoise, confidence: float
) -> tuple[Estimates, ...]:
    """Estimate quantiles of a column in each cell, over the rows with a value.

    Args:
        values: the noisy numbers of the tree, int64, shape (*cells, tree.parts) [rows].
        tree: the lattice and its leaves.
        shares: the quantiles, each in (0, 1).
        event: the noise of each number [rows].
        confidence: how often an interval covers the quantile of a cell with rows, in (0, 1).
    Returns:
        Estimates: of each quantile in turn, shape of the cells; all of them values of the lattice [column's units].
    Raises:
        ValueError: an array of another type or shape, a quantile or a confidence out of range.
    Privacy: post-processing.
    """
    if values.dtype != np.int64 or values.shape[-1] != tree.parts:
        raise ValueError(f"values must be int64 with {tree.parts} numbers a cell, not {values.dtype} {values.shape}")
    if not all(0 < share < 1 for share in shares) or not 0 < confidence < 1:
        raise ValueError(f"quantiles and confidence lie in (0, 1), not {[*shares, confidence]}")
    cells = values.reshape(-1, tree.parts)
    chunk = max(1, _CHUNK // tree.leaves)
    offsets = np.empty((len(shares), 3, len(cells)), dtype=np.int64)
    for start in range(0, len(cells), chunk):
        some = cells[start : start + chunk]
        rows = some[:, : tree.level_nodes[0]].sum(axis=1).astype(np.float64)
        for place, share in enumerate(shares):
            bounds = rank_bounds(tree, share, event, confidence)
            ranks, sizes = _ranks(some, tree, share)
            found = _one_quantile(ranks, _ROUNDING * sizes, bounds, float(share), rows, tree)
            offsets[place, :, start : start + chunk] = found
    published = lattice_values(offsets, tree.lattice).reshape(len(shares), 3, *values.shape[:-1])
    return tuple(Estimates(*each) for each in published)


def tree_counts(values: NDArray[np.int64], tree: ValueTree, *, event: CountNoise, confidence: float) -> Estimates:
    """Estimate the rows of each cell, with a value or without, from the nodes of the first level.

    Args, errors and privacy as `estimate_quantiles`.
    Returns:
        Estimates: unbiased values, which may be negative, and intervals cut at 0 [rows].
    """
    counts = values[..., : tree.level_nodes[0]].sum(axis=-1)
    if tree.lattice.counts_missing:
        counts = counts + values[..., -1]
    found, error = counts.astype(np.float64), tree_count_error(tree, event=event, confidence=confidence)
    return bounded_estimates(found, error, least=0.0, most=np.inf)


def tree_count_error(tree: ValueTree, *, event: CountNoise, confidence: float) -> float:
    """Return the half width of such an interval [rows]."""
    nodes = tree.level_nodes[0] + tree.lattice.counts_missing
    return float(weighted_bounds(event, [(nodes, 0, 0)], (1.0, 1.0, 1.0), (1 - confidence) / 2)[0])


@lru_cache(maxsize=64)
def rank_bounds(tree: ValueTree, share: Decimal, event: CountNoise, confidence: float) -> tuple[Floats, ...]:
    """Return for each level bounds on the noise at the boundaries of its nodes, at its alpha; read-only [rows]."""
    exceeding, levels, found = (1 - confidence) / 2, tree.levels, []
    for size in tree.level_leaves:
        alpha = exceeding if levels == 1 else exceeding * (_LAST if size == 1 else (1 - _LAST) / (levels - 1))
        numbers = _form(tree, share).numbers[size - 1 :: size]
        # Rows are told apart by one number each.
        _, chosen, places = np.unique(numbers @ _DIGITS, return_index=True, return_inverse=True)
        different = [(int(first), int(second), int(third)) for first, second, third in numbers[chosen]]
        weights = (1 - float(share), float(share), 1.0)
        bounds: Floats = weighted_bounds(event, different, weights, alpha)[places]
        bounds.flags.writeable = False
        found.append(bounds)
    return tuple(found)


def worst_squares(tree: ValueTree, share: Decimal) -> float:
    """Return the sum of the squared weights of the nodes in the rank that has the most noise."""
    p, numbers = float(share), _form(tree, share).numbers
    return float((numbers @ np.array([(1 - p) * (1 - p), p * p, 1.0])).max())


@lru_cache(maxsize=4)
def _boundaries(tree: ValueTree) -> _Boundaries:
    """Descend from the root to each boundary: at each level, the nodes beside the one that holds it."""
    places = np.arange(1, tree.leaves, dtype=np.intp)
    found = []
    parent, crossed = np.zeros_like(places), np.ones(places.shape, dtype=bool)
    for leaves, nodes in zip(tree.level_leaves, tree.level_nodes, strict=True):
        first = parent * tree.fan_out
        last = np.minimum(first + tree.fan_out, nodes)
        split, rest = places // leaves, -(-places // leaves)
        found.append([*(np.where(crossed, each, 0) for each in (first, split, rest, last)), crossed])
        crossed, parent = crossed & (split != rest), split
    return _Boundaries(*(np.stack(each) for each in zip(*found, strict=True)))


@lru_cache(maxsize=16)
def _form(tree: ValueTree, share: Decimal) -> _Form:
    """Choose at each level what has the least noise, and count the nodes of each weight."""
    at, p = _boundaries(tree), float(share)
    below, above = at.split - at.first, at.last - at.rest
    # Products, not powers: every machine must choose alike.
    first_square, second_square = (1 - p) * (1 - p), p * p
    plain = first_square * below + second_square * above
    variances = np.stack([plain, first_square + above, second_square + below])
    # Nobody counted the root: of the first level there is the plain form alone.
    variances[1:, 0] = np.inf
    residual = np.where(at.crossed, np.argmin(variances, axis=0), 0)
    # The residual of a parent is weighed with 0, 1 - p or -p; siblings and the path's nodes have what is left.
    first = np.where(residual == 0, below, 0).sum(axis=0)
    second = np.where(residual == 0, above, 0).sum(axis=0)
    third = np.where(residual == 1, above, np.where(residual == 2, below, 0)).sum(axis=0)
    for level, (higher, lower) in enumerate(pairwise(residual), 1):
        # A node of the path is a child for the level above, and the parent for the level below: weights subtract.
        differ = at.crossed[level] & (higher != lower)
        first = first + (differ & (higher + lower == 1))
        second = second + (differ & (higher + lower == 2))
        third = third + (differ & (higher + lower == 3))
    return _Form(residual, np.stack([first, second, third], axis=1))


def _ranks(cells: NDArray[np.int64], tree: ValueTree, share: Decimal) -> tuple[Floats, Floats]:
    """Return T of each boundary, shape (cells, n - 1), and the size of the sums that it is made of."""
    at, form, p, start = _boundaries(tree), _form(tree, share), float(share), 0
    sums = np.zeros((3, len(cells), tree.leaves - 1), dtype=np.int64)
    parents = np.zeros((len(cells), tree.leaves - 1), dtype=np.int64)
    for level, nodes in enumerate(tree.level_nodes):
        counts = cells[:, start : start + nodes]
        before = np.zeros((len(cells), nodes + 1), dtype=np.int64)
        np.cumsum(counts, axis=1, out=before[:, 1:])
        below = before[:, at.split[level]] - before[:, at.first[level]]
        above = before[:, at.last[level]] - before[:, at.rest[level]]
        within = at.split[level] != at.rest[level]
        children = np.where(within, counts[:, np.minimum(at.split[level], nodes - 1)], 0)
        residual, outside = form.residual[level], parents - children
        sums[0] += np.where(residual == 0, below, np.where(residual == 1, outside, 0))
        sums[1] += np.where(residual == 0, above, np.where(residual == 2, outside, 0))
        sums[2] += np.where(residual == 2, below, np.where(residual == 1, -above, 0))
        parents, start = children, start + nodes
    first, second, third = sums.astype(np.float64)
    return (1 - p) * first - p * second + third, np.abs(first) + np.abs(second) + np.abs(third)


def _one_quantile(
    ranks: Floats, rounding: Floats, bounds: tuple[Floats, ...], share: float, rows: Floats, tree: ValueTree
) -> NDArray[np.int64]:
    """Return the offset of the estimate and of the ends of the interval, shape (3, cells)."""
    low, high = np.zeros(len(ranks), dtype=np.intp), np.zeros(len(ranks), dtype=np.intp)
    for size, level in zip(tree.level_leaves, bounds, strict=True):
        some, wide = ranks[:, size - 1 :: size], level + rounding[:, size - 1 :: size]
        places = np.arange(size, tree.leaves, size, dtype=np.intp)
        low = _walked(some < -wide, places, low)
        # The upper end is walked from above, and counted from there.
        high = _walked((some > wide)[:, ::-1], tree.leaves - places[::-1], high)
    last = tree.leaves - 1 - high
    first, last = np.minimum(low, last), np.maximum(low, last)
    sums = np.zeros((len(ranks), tree.leaves))
    np.cumsum(ranks, axis=1, out=sums[:, 1:])
    leaf = np.clip(np.argmin(sums, axis=1), first, last)
    value = _within_leaf(ranks, leaf, share, rows, tree)
    starts, ends = _leaf_ends(tree)
    return np.stack([value, starts[first], ends[last]])


def _walked(refuted: NDArray[np.bool_], places: NDArray[np.intp], start: NDArray[np.intp]) -> NDArray[np.intp]:
    """Walk from a start over boundaries that are refuted, one after the other; return the last of them."""
    stops = ~(refuted | (places <= start[:, None]))
    reached = np.where(stops.any(axis=1), np.argmax(stops, axis=1), places.size)
    walked: NDArray[np.intp] = np.maximum(start, np.append(0, places)[reached])
    return walked


def _leaf_ends(tree: ValueTree) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the smallest and the largest offset of each leaf."""
    places = np.arange(tree.leaves, dtype=np.int64)
    starts, ends = 1 + (places - 1) * tree.leaf_steps, np.minimum(places * tree.leaf_steps, tree.lattice.width - 1)
    starts[0], starts[-1], ends[-1] = 0, tree.lattice.width, tree.lattice.width
    return starts, ends


def _within_leaf(
    ranks: Floats, leaf: NDArray[np.intp], share: float, rows: Floats, tree: ValueTree
) -> NDArray[np.int64]:
    """Interpolate between the ranks at the two ends of a leaf; return offsets."""
    starts, last = _leaf_ends(tree)
    cells, steps = np.arange(len(ranks)), (last - starts + 1)[leaf]
    ends = np.concatenate([-share * rows[:, None], ranks, (1 - share) * rows[:, None]], axis=1)
    down, up = np.maximum(-ends[cells, leaf], 0.0), np.maximum(ends[cells, leaf + 1], 0.0)
    both = down + up
    part = np.where(both > 0, down / np.where(both > 0, both, 1.0), 0.5)
    inside = np.minimum(np.floor(part * steps), steps - 1).astype(np.int64)
    found: NDArray[np.int64] = starts[leaf] + inside
    return found


def lattice_values(offsets: NDArray[np.int64], lattice: ValueLattice) -> Floats:
    """Return the doubles nearest to the values of offsets."""
    low, step = lattice.low, lattice.step
    decimals = max(0, *(-int(each.as_tuple().exponent) for each in (low, step)))
    first, each = (int(number.scaleb(decimals)) for number in (low, step))
    if abs(first) + lattice.width * each >= _LARGEST:
        return float(low) + offsets.astype(np.float64) * float(step)
    return np.asarray((first + offsets * each) / 10.0**decimals, dtype=np.float64)


# --- How the quantiles of a column are drawn.


Mechanism = Literal["laplace", "gaussian"]
FITTED: Final = 0.5
"""The error of a tree's estimate over that of the rank at its worst boundary."""
MOST_CHOICES: Final = 20_000
"""Choices of one draw that `auto` makes: a minute or two."""


def quantile_method(
    statistic: Statistic, tree: ValueTree, contract: Contract, cells: int, mechanism: Mechanism
) -> Literal["tree", "exponential"]:
    """Decide by which method the quantiles of a statistic are drawn. Reads public parameters only.

    Args:
        statistic: some quantiles of a column.
        tree: its tree of counts.
        contract: gives the adjacency.
        cells: cells of its table.
        mechanism: the product's noise.
    """
    choices = choices_of(statistic, tree)
    tree_error = tree_rank_error(tree, choices, mechanism, contract.adjacency)
    share = choice_share(statistic)
    choice_error = choice_rank_error(choices, mechanism, contract.adjacency, share=share)
    if statistic.method != "auto":
        return statistic.method
    return "exponential" if choice_error < tree_error and cells * choices.parts <= MOST_CHOICES else "tree"


def choice_share(statistic: Statistic) -> Fraction:
    """Return what the choices get of what quantiles and their intervals cost together."""
    written = statistic.interval_share
    return 1 - Fraction(USUAL_INTERVAL_SHARE if written is None else written)


def column_choice_share(table: StatisticsTable, column: str) -> Fraction:
    """Return what the choices of a column's quantiles get."""
    own = (each for each in table.of if each.what == QUANTILES and each.column == column)
    return choice_share(next(own))


def choices_of(statistic: Statistic, tree: ValueTree) -> QuantileChoices:
    """Return what would be chosen for a statistic."""
    return QuantileChoices(tree.lattice, tuple(sorted(statistic.quantiles)))


def table_choices(table: StatisticsTable, contract: Contract, mechanism: Mechanism) -> tuple[QuantileChoices, ...]:
    """Return what is chosen for a table, in the order of its statistics."""
    if not may_choose(table):
        return ()
    found, cells = [], contract.cells(table.by)
    statistics: Sequence[Statistic] = [each for each in table.of if each.what == QUANTILES]
    for each, tree in zip(statistics, table.trees(contract), strict=True):
        if quantile_method(each, tree, contract, cells, mechanism) == "exponential":
            found.append(choices_of(each, tree))
    return tuple(found)


def may_choose(table: StatisticsTable) -> bool:
    """Tell whether quantiles of a table may be chosen: each row counts once, in cells that are declared."""
    return table.survey_weight is None and table.key_choice == "declared"


def tree_rank_error(tree: ValueTree, choices: QuantileChoices, mechanism: Mechanism, adjacency: Adjacency) -> float:
    """Return the root of the mean variance of ranks, of a tree for an epsilon of 1, or a rho of 1/2."""
    moves = tree.levels * (2 if adjacency == "replace_one" else 1)
    variance = 2 * moves**2 if mechanism == "laplace" else moves
    squares = [worst_squares(tree, share) for share in choices.shares]
    return FITTED * sqrt(variance * sum(squares) / len(squares))


def choice_rank_error(
    choices: QuantileChoices, mechanism: Mechanism, adjacency: Adjacency, *, share: Fraction
) -> float:
    """Return the same of choices, which get a share; a rho is that of an epsilon-bounded range, epsilon^2 / 8."""
    epsilon = float(share) if mechanism == "laplace" else 2 * sqrt(float(share))
    base = epsilon / (float(choices.loss_factor) * (2 if adjacency == "replace_one" else 1))
    variances = [2 / (base * float(choices.rate_share(place))) ** 2 for place in range(choices.parts)]
    return sqrt(sum(variances) / len(variances))


# --- Quantiles as they are published where they were chosen.


@dataclass(frozen=True)
class ChosenQuantiles:
    """What was chosen for a table.

    Args:
        offsets: the chosen offsets, int64, shape (*cells, quantiles) [steps of the lattice].
        choices: lattice and quantiles.
    """

    offsets: NDArray[np.int64]
    choices: QuantileChoices

    def placed(self, estimates: Sequence[Estimates], shares: Sequence[Decimal]) -> tuple[Estimates, ...]:
        """Put the chosen values in the place of a tree's estimates.

        Args:
            estimates: of the tree, for each of the quantiles, with their intervals.
            shares: the quantiles, in the order in which they are published.
        Returns:
            Estimates: the chosen values. An interval that misses its value is drawn out to it: it then holds more
            often, and a tree with little of the charge, which is far off where it misses, does not move the value.
        Privacy: post-processing.
        """
        values, place = lattice_values(self.offsets, self.choices.lattice), self.choices.shares.index
        return tuple(
            Estimates(value, np.minimum(each.lower, value), np.maximum(each.upper, value))
            for each, value in zip(estimates, (values[..., place(share)] for share in shares), strict=True)
        )
