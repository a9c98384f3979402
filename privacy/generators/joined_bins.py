"""Bins of numbers that are joined as noisy counts say, and a generator that counts the joined ones.

    ESTIMATE  counts of the declared bins, from a noisy tree of counts (`privacy.generators.bin_weights`)
    JOIN      all bins of a column are one run at first. The run with the most rows is cut where its halves are most
              alike, among the cuts that leave on both sides an estimate of `STANDS` deviations at least: of its own,
              and of what the generator would measure of it with an even part of what it has. Runs that no cut
              divides, or `MOST_RUNS` of them, are the joined bins
    KEEP      bins are not joined where one of them can hold rows that the other cannot
    COUNT     the generator's marginals are counted over joined bins: sums of declared cells, of which a row is in
              exactly one

The noisy counts were drawn before, so that which bins are joined is known to everybody: post-processing. Draws that
follow depend on it as on any released value: adaptive composition (docs/derivations.md, "Joined bins").

Source: Zhang et al. 2021 (PrivSyn) and McKenna, Miklau, Sheldon 2021 join labels whose counts are low. Here
neighbours are joined, and cut as in an equi-depth histogram.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heappop, heappush
from math import sqrt
from typing import Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from contracts.contract.bin_contents import MOST_WEIGHT, evenly
from contracts.contract.contract import Contract
from contracts.contract.impossible_cells import Clique
from contracts.domains.addends import Addends
from contracts.domains.value_bins import BinTree
from contracts.release.joined_cells import joined_cells
from privacy.arrays import Floats
from privacy.generators.bin_weights import nodes_between
from privacy.generators.generator import CannotGenerate, CountsSource, SynthesisTask
from privacy.marginals.cell_sums import PrivateCellSums
from privacy.marginals.coarsening import coarsening
from privacy.marginals.counts import PrivateCounts
from privacy.marginals.domain import CellDomain
from privacy.marginals.seeds import PostProcessingSeed

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
