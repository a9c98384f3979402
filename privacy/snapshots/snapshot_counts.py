"""Counts of a snapshot: handles on its marginals, counted when a grant opens one of them.

Handles that were asked for together are counted together, when the first of them is opened; what was counted is
remembered within the run. A marginal over a domain that memory does not hold is counted as the list of its populated
cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.contract.impossible_cells import Clique
from contracts.release.tables.table_form import MOST_CODES
from privacy.marginals.coarsening import Coarsening
from privacy.marginals.counts import PrivateCounts, SparseCounts
from privacy.private_table import PrivateTable
from privacy.snapshots.shared_scan import Shapes, count_marginals, count_populated, spread_out
from privacy.snapshots.snapshot_reader import SnapshotReader

REMEMBERED_BYTES: Final = 512 << 20
_CELL_BYTES: Final = 8


class SnapshotCounts(SnapshotReader):
    """Counts marginals of an encoded snapshot, over the full declared domain.

    Args:
        table: the snapshot.
        contract: the contract that encoded it.
        threads: threads that DuckDB may use.
        remembered_bytes: exact counts kept at most; the oldest make room. They go with this object, at the end of
            the run at the latest [bytes].
    Raises:
        ValueError: the snapshot was encoded by another contract.
    """

    _reads = "exact counts"
    _schema = "main"

    def __init__(
        self,
        table: PrivateTable,
        contract: Contract,
        *,
        threads: int = 2,
        remembered_bytes: int = REMEMBERED_BYTES,
    ) -> None:
        super().__init__(table, contract, threads=threads)
        self._room = remembered_bytes
        self._known: dict[Clique, NDArray[np.int64]] = {}

    def marginal(self, clique: Clique, coarsening: Coarsening | None = None) -> PrivateCounts:
        """Return the handle on the marginal of `clique`, shape as the contract's columns [cells].

        Args:
            clique: the columns.
            coarsening: sums the cells up to a coarser resolution, whose shape the counts then have.
        Raises:
            ValueError: the coarsening is of a marginal of another shape.
        Privacy: nothing is read yet; the handle opens only inside a grant. Coarser counts have the same sensitivity:
            a row falls in exactly one cell.
        """
        return self.marginals((clique,))[0].coarser(coarsening)

    def marginals(self, cliques: Sequence[Clique]) -> tuple[PrivateCounts, ...]:
        """Return handles on the marginals of `cliques`, in their order; opening one counts all of them in one scan.

        Those that together exceed the memory for counts are counted in as many scans as it takes.

        Privacy: nothing is read yet; each handle opens only inside a grant.
        """
        # Each column is looked up once: all pairs of 500 columns are 124,750 cliques.
        names = dict.fromkeys(name for clique in cliques for name in clique)
        sizes = dict(zip(names, self._contract.shape(tuple(names)), strict=True))
        shapes = {clique: tuple(sizes[name] for name in clique) for clique in cliques}
        return tuple(
            PrivateCounts(clique, shapes[clique], *self._mark, partial(self._counted, clique, shapes))
            for clique in cliques
        )

    def sparse(self, clique: Clique) -> SparseCounts:
        """Return the handle on the populated cells of the marginal of `clique`, by their row-major numbers.

        Raises:
            ValueError: the domain has no column, or more than 2^63 - 1 cells.
        Privacy: nothing is read yet; the handle opens only inside a grant.
        """
        shape = self._contract.shape(clique)
        if not clique or prod(shape) > MOST_CODES:
            raise ValueError(f"clique must have at least one column and at most {MOST_CODES} cells")
        table = self._table
        return SparseCounts(
            clique,
            prod(shape),
            table.keyed_hash,
            table.contract_digest,
            lambda: self._populated(clique, shape),
        )

    def _counted(self, clique: Clique, together: Shapes) -> NDArray[np.int64]:
        """Return the exact counts of one clique, and remember those of the others; read-only."""
        if clique not in self._known:
            asked = self._fitting(clique, together)
            self._make_room(sum(map(_bytes, asked.values())))
            for each, counts in self._counts_of(asked).items():
                counts.flags.writeable = False
                self._known[each] = counts
        return self._known[clique]

    def _counts_of(self, shapes: Shapes) -> dict[Clique, NDArray[np.int64]]:
        """Count marginals where the rows are: here, or in the engine that keeps them."""
        engine = self._table.engine
        if engine is None:
            return count_marginals(self._table.path, shapes, threads=self._threads, schema=self._schema)
        counted = zip(shapes.items(), engine.counted_cells(tuple(shapes)), strict=True)
        return {clique: spread_out(*cells, prod(shape)).reshape(shape) for (clique, shape), cells in counted}

    def _populated(self, clique: Clique, shape: tuple[int, ...]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Count the populated cells of one marginal where the rows are."""
        if self._table.engine is not None:
            return self._table.engine.counted_cells((clique,))[0]
        return count_populated(self._table.path, clique, shape, threads=self._threads)

    def _fitting(self, clique: Clique, together: Shapes) -> dict[Clique, tuple[int, ...]]:
        """Choose what is counted now: the clique, and of those after it, then before it, what the memory holds."""
        names = list(together)
        place = names.index(clique)
        chosen, used = {clique: together[clique]}, _bytes(together[clique])
        for other in (*names[place + 1 :], *names[:place]):
            if other in self._known:
                continue
            used += _bytes(together[other])
            if used > self._room:
                break
            chosen[other] = together[other]
        return chosen

    def _make_room(self, size: int) -> None:
        """Forget the oldest counts until `size` bytes fit, or all of them."""
        kept = sum(counts.nbytes for counts in self._known.values())
        while self._known and kept + size > self._room:
            kept -= self._known.pop(next(iter(self._known))).nbytes


def _bytes(shape: tuple[int, ...]) -> int:
    return _CELL_BYTES * prod(shape)
