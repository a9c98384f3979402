"""How many units have each key, as an opaque handle: a grant alone opens it. The keys themselves are private too."""

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
