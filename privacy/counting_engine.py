"""What counts the rows of a snapshot that is not in this process: an engine that keeps them and answers counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from contracts.errors import SudareError

PopulatedCells = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Cell numbers, row-major and ascending, and the rows in each."""


class CountsUnavailable(SudareError):
    """An engine did not answer, or not with the counts of all its rows; nothing was drawn, and a run can go on later.

    What it says never quotes a row: that an engine failed, and where its private log is. Whether it fails can depend
    on the rows, as the time of a scan does (docs/derivations.md, limit 2).
    """


class CountingEngine(Protocol):
    """Keeps the bounded and encoded rows of one snapshot, and counts them where they are."""

    def counted_cells(self, cliques: Sequence[tuple[str, ...]]) -> tuple[PopulatedCells, ...]:
        """Return for each of some marginals its populated cells, row-major and ascending, and their exact counts.

        Those that are asked for together are counted in one scan, as far as their cells have numbers together.

        Raises:
            CountsUnavailable: the engine did not answer, or lost rows on the way.
        Privacy: exact counts; nothing of them may leave but through a grant.
        """
        ...

    def whole_columns(self, query: str) -> list[NDArray[np.int64]]:
        """Return the columns of a scan, in which the groups of all rows are lines of whole numbers; shape (lines,).

        Args:
            query: a SELECT over the table `codes` in DuckDB's SQL; engines translate it.
        Raises:
            CountsUnavailable: as `counted_cells`.
        Privacy: exact numbers; nothing of them may leave but through a grant.
        """
        ...

    def broken_checks(self) -> frozenset[str]:
        """Return the names of the checks that some row breaks; private, but for declared gates."""
        ...

    def marked_rows(self) -> tuple[int, Mapping[str, int]]:
        """Return how many rows there are, and how many break each check; exact, for whoever holds the rows."""
        ...

    def seen(self) -> Sequence[tuple[Any, ...]]:
        """Return what the operator's look tells of ids: of the unit's, the rows of the source, and those kept."""
        ...

    def close(self) -> None:
        """Let go of the engine."""
        ...
