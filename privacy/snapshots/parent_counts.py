"""Counts of a parent table's rows, in a snapshot that holds these beside the rows of the base.

They lie in the snapshot's file, in the schema `parents`, and its keyed hash covers them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from contracts.contract.impossible_cells import Clique
from privacy.marginals.counts import ParentRows, PrivateCounts
from privacy.snapshots.snapshot_counts import SnapshotCounts

PARENTS: Final = "parents"
"""The schema of their `codes`."""


class ParentCounts(SnapshotCounts):
    """Counts marginals of the parent table's rows; arguments as of `SnapshotCounts`, the contract over the base.

    Raises:
        ValueError: the base has no parent table, or the snapshot was encoded by another contract.
    """

    _reads = "exact counts of parents"
    _schema = PARENTS

    def marginals(self, cliques: Sequence[Clique]) -> tuple[PrivateCounts, ...]:
        """Return handles on the marginals of `cliques`, each of which says whose rows it counts.

        Privacy: nothing is read yet; a grant derives the sensitivity from the rows of one unit that are stated here,
            which the snapshot has bounded.
        """
        parents = ParentRows.of(self._contract)
        return tuple(replace(handle, parents=parents) for handle in super().marginals(cliques))
