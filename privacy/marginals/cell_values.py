"""Exact values of a column in every cell of a marginal, as an opaque handle: a grant alone opens it.

The handle has one line for each different value of each cell: the number of the cell (row-major), the offset on the
column's lattice (`contracts.domains.lattice`), and how many rows have it; ascending by cell, then by offset.
Rows without a value have no line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from contracts.contract.impossible_cells import Clique
from contracts.domains.trees import QuantileChoices


@dataclass(frozen=True, repr=False, eq=False)
class PrivateCellValues:
    """The exact values of a column by the cells of a clique; not to be seen.

    Args:
        clique: the columns that rows are grouped by; empty for one cell of all rows.
        shape: cells along each of them.
        choices: the column with its lattice, and the quantiles that are chosen among its values.
        keyed_hash: private hash of the snapshot that is read.
        contract_digest: digest of the contract that encoded it.
    """

    clique: Clique
    shape: tuple[int, ...]
    choices: QuantileChoices
    keyed_hash: str
    contract_digest: str
    _list: Callable[[QuantileChoices], NDArray[np.int64]]

    def _read(self) -> NDArray[np.int64]:
        """Return the lines, int64, shape (lines, 3); a grant alone calls this."""
        return self._list(self.choices)

    def __repr__(self) -> str:
        """Show what is listed only."""
        return f"PrivateCellValues({self.choices.column} by {'×'.join(self.clique) or 'nothing'})"

    def __reduce__(self) -> NoReturn:
        """Refuse pickling: exact values stay in this process."""
        raise TypeError("PrivateCellValues cannot be pickled: exact values stay in this process")
