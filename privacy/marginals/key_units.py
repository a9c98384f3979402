"""How many units, or rows, have each key, as opaque handles: a grant alone opens them. Keys are private too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from contracts.contract.impossible_cells import Clique

KeyLabels = tuple[str, ...]
"""One label for each column."""


@dataclass(frozen=True, repr=False, eq=False)
class PrivateKeys:
    """The keys that some unit has, and how many distinct units have each; not to be seen.

    Args:
        clique: the columns whose labels make a key; at least one.
        groups: keys that one unit has at most, as the rows are read; what a selection costs follows from it.
        keyed_hash: private hash of the snapshot that is read.
        contract_digest: digest of the contract that encoded it.
    """

    clique: Clique
    groups: int
    keyed_hash: str
    contract_digest: str
    _units: Callable[[Clique, int], tuple[tuple[KeyLabels, ...], NDArray[np.int64]]]

    def _read(self) -> tuple[tuple[KeyLabels, ...], NDArray[np.int64]]:
        """Return keys and units at its own bound, which its price is derived of; a grant alone calls this."""
        return self._units(self.clique, self.groups)

    def __repr__(self) -> str:
        """Show the columns only."""
        return f"PrivateKeys({'×'.join(self.clique)})"

    def __reduce__(self) -> NoReturn:
        """Refuse pickling: keys and units stay in this process."""
        raise TypeError("PrivateKeys cannot be pickled: keys and units stay in this process")


@dataclass(frozen=True, repr=False, eq=False)
class PrivateKeyRows:
    """The keys that some row has, how many rows have each, and how many have none; not to be seen.

    Args:
        clique: the columns whose labels make a key; at least one.
        keyed_hash: private hash of the snapshot that is read.
        contract_digest: digest of the contract that encoded it.
    """

    clique: Clique
    keyed_hash: str
    contract_digest: str
    _rows: Callable[[Clique], tuple[tuple[KeyLabels, ...], NDArray[np.int64], int, int]]

    def _read(self) -> tuple[tuple[KeyLabels, ...], NDArray[np.int64], int, int]:
        """Return keys, their rows, and the rows of texts that are no keys, and of none; a grant alone calls this."""
        return self._rows(self.clique)

    def __repr__(self) -> str:
        """Show the columns only."""
        return f"PrivateKeyRows({'×'.join(self.clique)})"

    def __reduce__(self) -> NoReturn:
        """Refuse pickling: keys and rows stay in this process."""
        raise TypeError("PrivateKeyRows cannot be pickled: keys and rows stay in this process")
