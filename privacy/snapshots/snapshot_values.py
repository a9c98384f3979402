"""Values of a snapshot: handles on the different values of a column by cell, read when a grant opens them."""

from __future__ import annotations

from functools import partial
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.contract.impossible_cells import Clique
from contracts.domains.quantile_choices import QuantileChoices
from privacy.marginals.cell_values import PrivateCellValues
from privacy.private_table import PrivateTable
from privacy.snapshots.offset_scan import count_offsets


class SnapshotValues:
    """Lists values of an encoded snapshot, by the cells of full declared domains.

    Args:
        table: the snapshot, encoded with the lattices of these columns.
        contract: the contract that encoded it.
        threads: threads that DuckDB may use.
    Raises:
        ValueError: the snapshot was encoded by another contract, or lies in an engine.
    """

    def __init__(self, table: PrivateTable, contract: Contract, *, threads: int = 2) -> None:
        if table.contract_digest != contract.digest:
            raise ValueError("the snapshot was encoded by another contract")
        if table.engine is not None:
            raise ValueError("an engine counts, and lists no values")
        self._table = table
        self._contract = contract
        self._threads = threads

    def __repr__(self) -> str:
        """Show whose values are listed."""
        return f"SnapshotValues({self._table!r})"

    def __reduce__(self) -> NoReturn:
        """Refuse pickling: exact values stay in this process."""
        raise TypeError("SnapshotValues cannot be pickled: exact values stay in this process")

    def values(self, clique: Clique, choices: QuantileChoices) -> PrivateCellValues:
        """Return a handle on the values of a column.

        Privacy: nothing is read yet; the handle opens only inside a grant.
        """
        shape, mark = self._contract.shape(clique), (self._table.keyed_hash, self._table.contract_digest)
        return PrivateCellValues(clique, shape, choices, *mark, partial(self._listed, clique, shape))

    def _listed(self, clique: Clique, shape: tuple[int, ...], choices: QuantileChoices) -> NDArray[np.int64]:
        return count_offsets(self._table.path, clique, shape, choices.lattice.name, threads=self._threads)
