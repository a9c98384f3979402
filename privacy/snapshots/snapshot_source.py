"""What a generator may ask of a snapshot: handles on marginals and on rows, which a grant alone opens."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NoReturn

from contracts.contract.contract import Contract
from contracts.contract.impossible_cells import Clique
from contracts.domains.addends import Addends
from privacy.learning.layout import PrivateRows
from privacy.marginals.cell_sums import PrivateCellSums
from privacy.marginals.counts import PrivateCounts
from privacy.private_table import PrivateTable
from privacy.snapshots.snapshot import ParentCounts, SnapshotCounts, SnapshotRows, SnapshotSums


class SnapshotSource:
    """Handles on one encoded snapshot.

    Args:
        table: the snapshot.
        contract: the contract that encoded it.
    Raises:
        ValueError: the snapshot was encoded by another contract.
    """

    def __init__(self, table: PrivateTable, contract: Contract) -> None:
        self._counts = SnapshotCounts(table, contract)
        self._rows = SnapshotRows(table, contract)
        self._sums = SnapshotSums(table, contract)
        self._table, self._contract = table, contract

    @cached_property
    def _parents(self) -> ParentCounts:
        return ParentCounts(self._table, self._contract)

    def __repr__(self) -> str:
        """Show which snapshot it is."""
        return f"SnapshotSource({self._counts!r})"

    def __reduce__(self) -> NoReturn:
        """Refuse pickling: private rows stay in this process."""
        raise TypeError("SnapshotSource cannot be pickled: private rows stay in this process")

    def marginals(self, cliques: Sequence[Clique]) -> tuple[PrivateCounts, ...]:
        """Return a handle for each clique; nothing is read before a grant opens one."""
        return self._counts.marginals(cliques)

    def parent_marginals(self, cliques: Sequence[Clique]) -> tuple[PrivateCounts, ...]:
        """Return a handle for each clique over the rows of the parent table; nothing is read yet.

        Raises:
            ValueError: the base has no parent table.
        """
        return self._parents.marginals(cliques)

    def rows(self, names: Sequence[str] | None = None) -> PrivateRows:
        """Return a handle on the rows of some columns; nothing is read before a grant opens it."""
        return self._rows.rows(names)

    def sums(self, clique: Clique, addends: Sequence[Addends]) -> tuple[PrivateCellSums, ...]:
        """Return a handle for each of what is counted over lattices; nothing is read before a grant opens one."""
        return self._sums.sums(clique, addends)
