"""What a fit over joined bins makes of the noisy trees and sums: which bins are joined, and where their rows lie.

JOIN    (`joined_bins.join`) with the noise of an even part of what the generator has
KNOWN   the generator's model is fitted to the trees' counts of joined bins beside its own measurements
FOLLOW  blocks of neighbouring joined bins get the tree's counts, which are more exact than the sum of the bins' own
SHARE   each joined bin is shared out over its leaves as a bin is (`bin_weights`)
MEAN    the shares are tilted until the column has the mean that sum and tree say (`number_means`): far-reaching bins
        hold few rows, of which counts say little and a sum says much
SPREAD  the shares of leaves give those of the declared bins in a joined one, and of the leaves in a bin
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import pi, sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.domains.value_bins import BinTree, bin_ends
from privacy.arrays import Floats
from privacy.generators.bin_weights import (
    Bins,
    contents_by,
    leaf_covariance,
    leaf_estimates,
    leaf_shares,
    whole_weights,
    with_mean,
)
from privacy.generators.filled_model import FilledModel
from privacy.generators.generator import CannotGenerate, Model, SynthesisTask
from privacy.generators.joined_bins import DECIMALS, STANDS, JoinedBins, Joins, apart_in, join
from privacy.generators.number_means import mean_offset
from privacy.generators.spending import Spending
from privacy.grant.measurement import CellSumMeasurement
from privacy.marginals.measured import Measured
from privacy.marginals.uncertainty import variance

FOLLOWED: Final = 0.02
"""The largest expected error of all followed counts together, as a share of the rows."""
LEAST_MASS: Final = 1e-9
"""Of all rows; what is less is not scaled up: its weight could overflow."""


@dataclass(frozen=True)
class CountedColumn:
    """What was measured of a column.

    Args:
        tree: its leaves.
        axis: its declared bins.
        counts: of the tree.
        total: the sums of its steps above the lower and below the upper bound; None where bins are not joined.
    """

    tree: BinTree
    axis: Bins
    counts: CellSumMeasurement
    total: CellSumMeasurement | None

    @property
    def estimates(self) -> NDArray[np.float64]:
        """Estimated counts of the leaves [rows]."""
        return leaf_estimates(self.counts.values, self.tree, self.counts.variance)

    @property
    def missing(self) -> NDArray[np.int64]:
        """The noisy number of rows without a value, where it is counted apart; one number or none [rows]."""
        return self.counts.values[sum(self.tree.level_nodes) :]

    def runs(self, joins: Joins) -> list[int]:
        """Return the first leaf of each joined bin, and after them the number of leaves."""
        ends = bin_ends(self.axis, self.tree)
        return [*(ends[first] for first in joins[self.tree.column]), self.tree.leaves]

    @property
    def mean(self) -> float | None:
        """The mean offset that sums and tree say together; None where they say nothing [steps]."""
        return None if self.total is None else mean_offset(self.tree, self.counts, self.total)


def contract_of(task: SynthesisTask) -> Contract:
    """Return the contract, which joined bins need.

    Raises:
        CannotGenerate: the task has none.
    """
    if task.contract is None:
        raise CannotGenerate("joined bins need the contract that declares them")
    return task.contract


def joins_of(counted: Sequence[CountedColumn], task: SynthesisTask, spending: Spending) -> Joins:
    """Return which bins of each column are joined.

    Args:
        counted: what was measured of each column.
        task: what the generator is asked for, over declared bins.
        spending: its budget.
    Privacy: post-processing.
    """
    (even, *_) = spending.split(spending.total, [1] * len(task.domain.columns))
    floor, joins = STANDS * sqrt(variance(spending.event(even))), {}
    for each in counted:
        name, ends = each.tree.column, bin_ends(each.axis, each.tree)
        apart = apart_in(task, name, len(each.axis))
        terms = {"variance": each.counts.variance, "floor": floor}
        joins[name] = join(each.estimates, each.tree, ends, apart=apart, **terms)
    return joins


def known_margins(counted: Sequence[CountedColumn], joins: Joins) -> tuple[Measured, ...]:
    """Return what the trees say of joined bins and missing values: the generator's model is fitted to it too.

    Args:
        counted: what was measured of each column.
        joins: which bins were joined.
    Privacy: post-processing.
    """
    found = []
    for each in counted:
        runs, leaves = each.runs(joins), np.arange(each.tree.leaves)
        rows = np.append(np.add.reduceat(each.estimates, runs[:-1]), each.missing)
        inside = np.searchsorted(runs, leaves, side="right") - 1 == np.arange(len(runs) - 1)[:, None]
        noise = each.counts.variance * float(np.diag(leaf_covariance(each.tree, inside.astype(float))).mean())
        found.append(Measured((each.tree.column,), rows, noise))
    return tuple(found)


def refilled(cells: Model, counted: Sequence[CountedColumn], joins: Joins) -> FilledModel:
    """Return a model of joined bins with the declared bins in them, and the leaves in these.

    Args:
        cells: what the generator fitted.
        counted: what was measured of each column.
        joins: which bins were joined.
    Privacy: post-processing.
    """
    for each in counted:
        cells = follow_blocks(cells, each.tree.column, *followed_blocks(each, joins))
    contents, joined = {}, {}
    for each in counted:
        name, tree = each.tree.column, each.tree
        ends, firsts = np.array(bin_ends(each.axis, tree)), np.array(joins[name], dtype=np.int64)
        runs = each.runs(joins)
        shares = leaf_shares(each.estimates, tree, runs, each.counts.variance)
        if each.mean is not None:
            shares = with_mean(shares, cells.marginal((name,))[: firsts.size], tree, runs, each.mean)
        contents[name] = contents_by(shares, tree, ends.tolist())
        joined[name] = JoinedBins(firsts, _bin_weights(np.add.reduceat(shares, ends[:-1]), firsts))
    return FilledModel(cells, contents, joined)


def follow_blocks(cells: Model, name: str, blocks: Sequence[int], rows: Floats) -> Model:
    """Return a model in which blocks of a column's cells have the shares that were counted.

    A block that is not counted above 0 keeps what the model gives it, and so does one with next to no row in it.

    Args:
        cells: a model that can weigh its cells.
        name: the column.
        blocks: the first cell of each block, rising from 0, and after them the end of the last.
        rows: counts of the blocks; their shares alone matter.
    Privacy: post-processing.
    """
    marginal = cells.marginal((name,))
    before = np.add.reduceat(marginal[: blocks[-1]], blocks[:-1])
    counted = np.where((rows > 0) & (before > LEAST_MASS * marginal.sum()), rows, 0.0)
    # One block alone has its share already.
    if np.count_nonzero(counted) < 2:
        return cells
    followed = np.where(counted > 0, before[counted > 0].sum() * counted / counted.sum(), before)
    factors = np.divide(followed, before, out=np.ones(before.size), where=before > 0)
    weights = np.append(np.repeat(factors, np.diff(blocks)), np.ones(marginal.size - blocks[-1]))
    return cells.weighed(name, weights)  # type: ignore[attr-defined, no-any-return]


def followed_blocks(each: CountedColumn, joins: Joins) -> tuple[list[int], Floats]:
    """Return the blocks of joined bins whose counts a model follows, and their counts.

    They hold about equally many rows, as far as joined bins allow, and are as many as noise allows: each count is
    `STANDS` deviations or more, and all together are expected to be off by at most `FOLLOWED` of all rows. A finer
    division would put the tree's noise in the place of a smooth fit.

    Returns:
        blocks: the first joined bin of each, rising from 0, and after them their number; one block follows nothing.
        rows: their estimated counts.
    Privacy: post-processing.
    """
    runs = each.runs(joins)
    before = np.round(np.append(0.0, np.cumsum(each.estimates))[runs], DECIMALS)
    blocks, parts = [0, len(runs) - 1], 2
    while parts < len(runs):
        finer = _even_blocks(before, parts)
        inside = np.searchsorted(np.array(runs)[finer], np.arange(each.tree.leaves), side="right") - 1
        sums = (inside == np.arange(len(finer) - 1)[:, None]).astype(np.float64)
        deviations = np.round(np.sqrt(each.counts.variance * np.diag(leaf_covariance(each.tree, sums))), DECIMALS)
        off = sqrt(2 / pi) * float(deviations.sum())
        if off > FOLLOWED * before[-1] or (np.diff(before[finer]) < STANDS * deviations).any():
            break
        blocks, parts = finer, 2 * parts
    return blocks, np.diff(before[blocks])


def _even_blocks(before: Floats, parts: int) -> list[int]:
    """Return the first run of each of so many blocks of about as many rows, and after them the number of runs."""
    wanted = before[-1] * np.arange(1, parts) / parts
    inner = {int(np.abs(before - each).argmin()) for each in wanted} - {0, before.size - 1}
    return [0, *sorted(inner), before.size - 1]


def _bin_weights(shares: NDArray[np.float64], firsts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the shares of declared bins as whole weights of each joined one."""
    parts = np.split(shares, firsts[1:])
    return np.concatenate([whole_weights(part) for part in parts])
