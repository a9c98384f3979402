"""Sums of a snapshot: handles on sums of columns by cell, and on counts of values, read when a grant opens them.

All sums over the same cells are added up in one scan, when the first of them is opened; each tree, each column whose
moments are wanted, each sum on a part of its lattice, each one within quotas of units, and each distinct count
takes its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.contract.impossible_cells import Clique
from contracts.domains.addends import Addends, WeightedCount
from contracts.domains.distinct_counts import DistinctCount, distinct_count, encoded_beside
from contracts.domains.text import NO_KEY, KeyColumn
from contracts.domains.value_bins import BinTree
from contracts.domains.value_lattices import MISSING, ValueLattice
from contracts.domains.value_magnitudes import NarrowedLattice, ValueMagnitudes
from contracts.domains.value_sums import LoneSum, ValueMoments
from contracts.domains.value_trees import ValueTree
from contracts.release.key_bounds import most_cells
from privacy.marginals.cell_sums import PrivateCellSums
from privacy.snapshots.offset_scan import (
    count_between_cuts,
    count_distinct,
    count_leaves,
    count_magnitudes,
    narrowed,
    sum_moments,
    sum_offsets,
)
from privacy.snapshots.quota_scan import quota_unit, sum_within_quota
from privacy.snapshots.snapshot_reader import SnapshotReader


class SnapshotSums(SnapshotReader):
    """Adds up columns of an encoded snapshot, by the cells of full declared domains.

    Args:
        table: the snapshot, encoded with the lattices of these columns.
        contract: the contract that encoded it.
        threads: threads that DuckDB may use.
    Raises:
        ValueError: the snapshot was encoded by another contract.
    """

    _reads = "exact sums"

    def sums(self, clique: Clique, addends: Sequence[Addends]) -> tuple[PrivateCellSums, ...]:
        """Return a handle for each of some columns over the same cells; opening one adds up all that are no trees.

        Raises:
            ValueError: a distinct count says that a unit is in fewer cells than this snapshot was bounded to.
        Privacy: nothing is read yet; each handle opens only inside a grant.
        """
        shape = self._contract.shape(clique)
        for each in addends:
            if isinstance(each, DistinctCount) and each.most_cells is not None:
                self._check_bound(clique, each.most_cells)
        known: dict[ValueLattice, NDArray[np.int64]] = {}
        alike = [each.lattice for each in addends if isinstance(each, ValueLattice | LoneSum) and not _bounded(each)]
        together = tuple(each for each in alike if not isinstance(each, NarrowedLattice))
        read = partial(self._of, clique, shape, together, known)
        return tuple(PrivateCellSums(clique, shape, each, *self._mark, read) for each in addends)

    def _check_bound(self, clique: Clique, stated: int) -> None:
        """Refuse a price for fewer cells than the rows of one unit may lie in here."""
        groups = [self._table.bounded_groups.get(name) for name in self._contract.texts(clique)]
        bound = most_cells(clique, groups[0], self._contract) if len(groups) == 1 else None
        if bound is None or stated < bound:
            here = "in any number of cells" if bound is None else f"in up to {bound} cells"
            raise ValueError(f"a unit is {here} of this snapshot, and the distinct count says {stated}")

    def _of(
        self,
        clique: Clique,
        shape: tuple[int, ...],
        together: tuple[ValueLattice, ...],
        known: dict[ValueLattice, NDArray[np.int64]],
        wanted: Addends,
    ) -> NDArray[np.int64]:
        """Return the exact numbers of what is added up; the handle names its own."""
        if isinstance(wanted, ValueTree | BinTree):
            return self._tree(clique, shape, wanted)
        if isinstance(wanted, DistinctCount):
            stored = telling_column(wanted, self._contract)
            found = count_distinct(self._table, clique, shape, *stored, threads=self._threads)
            return found.reshape(*shape, 1)
        if isinstance(wanted, WeightedCount):
            # A weight is its own distance from 0, and a missing one adds nothing.
            return self._summed(clique, shape, (wanted.weight,), wanted.weight, known)[..., :1]
        if isinstance(wanted, ValueMagnitudes):
            return self._magnitudes(clique, wanted)
        if isinstance(wanted, ValueMoments):
            found = sum_moments(self._table, clique, shape, wanted, threads=self._threads)
            return found.reshape(*shape, wanted.parts)
        if isinstance(wanted, LoneSum) and _bounded(wanted):
            terms = clique, shape, wanted, quota_unit(self._contract)
            return sum_within_quota(self._table, *terms, threads=self._threads).reshape(*shape, 1)
        if isinstance(wanted, LoneSum):
            parts = self._summed(clique, shape, together, wanted.lattice, known)
            above, valued = parts[..., :1], (parts[..., :1] + parts[..., 1:2]) // wanted.lattice.width
            return np.asarray(above + wanted.low_steps * valued, dtype=np.int64)
        return self._summed(clique, shape, together, wanted, known)

    def _tree(self, clique: Clique, shape: tuple[int, ...], tree: ValueTree | BinTree) -> NDArray[np.int64]:
        """Return the exact counts of all nodes, shape (*shape, parts)."""
        where = self._table, clique, shape
        if isinstance(tree, ValueTree):
            found = count_leaves(*where, tree, threads=self._threads)
        else:
            found = count_between_cuts(*where, tree, threads=self._threads)
        missing, counts = found[:, :1], found[:, 1:]
        levels = [np.add.reduceat(counts, np.arange(0, tree.leaves, each), axis=1) for each in tree.level_leaves]
        parts = [*levels, missing] if tree.lattice.counts_missing else levels
        return np.concatenate(parts, axis=1).reshape(*shape, tree.parts)

    def _summed(
        self,
        clique: Clique,
        shape: tuple[int, ...],
        together: tuple[ValueLattice, ...],
        wanted: ValueLattice,
        known: dict[ValueLattice, NDArray[np.int64]],
    ) -> NDArray[np.int64]:
        """Return the exact sums of one column, shape (*shape, parts), and remember those of the others; read-only."""
        if wanted not in known:
            relation = narrowed(wanted) if isinstance(wanted, NarrowedLattice) else "codes"
            together = together if wanted in together else (wanted,)
            names = [_names(each) for each in together]
            found = sum_offsets(self._table, clique, shape, names, threads=self._threads, relation=relation)
            for each in together:
                known[each] = _handed_out(each, *found[_names(each)]).reshape(*shape, each.parts)
                known[each].flags.writeable = False
        return known[wanted]

    def _magnitudes(self, clique: Clique, magnitudes: ValueMagnitudes) -> NDArray[np.int64]:
        """Return the exact counts of all bins, shape (parts,).

        Raises:
            ValueError: by the cells of columns; it is of all rows together.
        """
        if clique:
            raise ValueError("a histogram of magnitudes is one of all rows")
        return count_magnitudes(self._table, magnitudes, threads=self._threads)


def telling_column(counted: DistinctCount, contract: Contract) -> tuple[str, str | int | None]:
    """Return the column of a snapshot by which values or units are told apart, and what in it is none.

    Raises:
        ValueError: of as many values as the contract does not declare: the price would be another.
    """
    if counted.column is None:
        return KeyColumn(str(contract.unit.column)).name, None
    domain = contract.column(counted.column).domain
    if counted != distinct_count(
        counted.column, domain, declared_cells=counted.declared_cells, most_cells=counted.most_cells
    ):
        raise ValueError(f"a distinct count of {counted.column} has the values that the contract declares")
    beside = encoded_beside(counted.column, domain)
    if beside is None:
        return counted.column, domain.null_code if domain.nulls.policy == "category" else None
    return beside.name, NO_KEY if isinstance(beside, KeyColumn) else MISSING


def _bounded(addends: Addends) -> bool:
    """Tell whether all rows of a unit add at most a quota: then they are taken unit by unit."""
    return isinstance(addends, LoneSum) and addends.quota is not None


def _names(lattice: ValueLattice) -> tuple[str, str | None]:
    """Return the columns of a snapshot that have the offsets, and the weights."""
    return lattice.name, None if lattice.weight is None else lattice.weight.name


def _handed_out(
    addends: ValueLattice, offsets: NDArray[np.int64], valued: NDArray[np.int64], rows: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the steps above, below and of missing values, weighed where a weight is; shape (cells, parts)."""
    parts = [offsets, addends.width * valued - offsets, addends.width * (rows - valued)]
    return np.stack(parts[: addends.parts], axis=-1)
