"""What counts the rows of a snapshot that is not in this process: an engine that keeps them and answers counts."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class CountingEngine(Protocol):
    """Keeps the bounded and encoded rows of one snapshot, and counts them where they are."""

    def counted_cells(self, clique: tuple[str, ...]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the populated cells of a marginal, row-major and ascending, and their exact counts.

        Privacy: exact counts; nothing of them may leave but through a grant.
        """
        ...

    def broken_checks(self) -> frozenset[str]:
        """Return the names of the checks that some row breaks; private, but for declared gates."""
        ...

    def close(self) -> None:
        """Let go of the engine."""
        ...
