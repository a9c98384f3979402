"""Exact counts as opaque handles: anybody may ask for one, only a grant can open it.

The handle knows which marginal it is of (so that a grant can derive the sensitivity) and how to count it; it shows
no value, refuses pickling, and has no public way to the numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from contracts.contract.impossible_cells import Clique
from privacy.marginals.coarsening import Coarsening, sum_up


@dataclass(frozen=True, repr=False, eq=False)
class PrivateCounts:
    """The exact marginal of a clique, not yet counted and not to be seen.

    Args:
        clique: the columns; the empty clique is the total.
        shape: cells along each column.
        keyed_hash: private hash of the snapshot that is counted.
        contract_digest: digest of the contract that encoded it.
        coarsening: the coarser resolution, where it is not the marginal itself.
    """

    clique: Clique
    shape: tuple[int, ...]
    keyed_hash: str
    contract_digest: str
    _count: Callable[[], NDArray[np.int64]]
    coarsening: Coarsening | None = None

    def __repr__(self) -> str:
        """Show the clique and the resolution only."""
        level = f" by {self.coarsening.level}" if self.coarsening is not None else ""
        return f"PrivateCounts({'×'.join(self.clique) or 'total'}{level})"

    @classmethod
    def of_nobody(cls, clique: Clique, shape: tuple[int, ...]) -> PrivateCounts:
        """Return a handle behind which there are no counts, for who plans or adds up what others count."""
        return cls(clique, shape, "", "", _nothing)

    def coarser(self, coarsening: Coarsening | None) -> PrivateCounts:
        """Return the handle on the sums over coarser cells; this one for no coarsening.

        Raises:
            ValueError: the coarsening is of a marginal of another shape, or these counts are coarser already.
        """
        if coarsening is None:
            return self
        if type(coarsening) is not Coarsening:  # no subclass: no code of the caller sees counts
            raise ValueError(f"coarsening must be a Coarsening itself, not {type(coarsening).__name__}")
        if self.coarsening is not None or coarsening.cell_of.shape != self.shape:
            raise ValueError(f"a coarsening of a marginal of shape {coarsening.cell_of.shape}, allowed {self.shape}")
        count = self._count
        return replace(
            self, shape=coarsening.shape, coarsening=coarsening, _count=lambda: sum_up(coarsening, count())
        )

    def __reduce__(self) -> NoReturn:
        """Refuse pickling: exact counts stay in this process."""
        raise TypeError("PrivateCounts cannot be pickled: exact counts stay in this process")


@dataclass(frozen=True, repr=False, eq=False)
class SparseCounts:
    """The populated cells of a clique's marginal and their exact counts, not yet counted and not to be seen.

    Args:
        clique: the columns, at least one.
        cells: cells of the declared domain, at most 2^63 - 1.
        keyed_hash: private hash of the snapshot that is counted.
        contract_digest: digest of the contract that encoded it.
    """

    clique: Clique
    cells: int
    keyed_hash: str
    contract_digest: str
    _count: Callable[[], tuple[NDArray[np.int64], NDArray[np.int64]]]

    def __repr__(self) -> str:
        """Show the clique only."""
        return f"SparseCounts({'×'.join(self.clique)})"

    def __reduce__(self) -> NoReturn:
        """Refuse pickling: exact counts stay in this process."""
        raise TypeError("SparseCounts cannot be pickled: exact counts stay in this process")


def _nothing() -> NoReturn:
    raise TypeError("there are no counts behind this handle")
