"""Values of a snapshot: handles on the different values of a column by cell, read when a grant opens them."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from contracts.contract.impossible_cells import Clique
from contracts.domains.quantile_choices import QuantileChoices
from privacy.marginals.cell_values import PrivateCellValues
from privacy.snapshots.offset_scan import count_offsets
from privacy.snapshots.snapshot_reader import SnapshotReader


class SnapshotValues(SnapshotReader):
    """Lists values of an encoded snapshot, by the cells of full declared domains.

    Args:
        table: the snapshot, encoded with the lattices of these columns.
        contract: the contract that encoded it.
        threads: threads that DuckDB may use.
    Raises:
        ValueError: the snapshot was encoded by another contract.
    """

    _reads = "exact values"

    def values(self, clique: Clique, choices: QuantileChoices) -> PrivateCellValues:
        """Return a handle on the values of a column.

        Privacy: nothing is read yet; the handle opens only inside a grant.
        """
        shape = self._contract.shape(clique)
        return PrivateCellValues(clique, shape, choices, *self._mark, partial(self._listed, clique, shape))

    def _listed(self, clique: Clique, shape: tuple[int, ...], choices: QuantileChoices) -> NDArray[np.int64]:
        return count_offsets(self._table, clique, shape, choices.lattice.name, threads=self._threads)
