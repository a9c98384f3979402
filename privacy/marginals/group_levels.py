"""Groups at levels of detail of their own: which numbers each group has, and exact sums in them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

PIECE: Final = 1 << 22
"""Cells that are added up at a time."""


def level_starts(cells: Sequence[int], chosen: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where the numbers of each group begin, and where the last ends; int64, shape (groups + 1,)."""
    sizes = np.array(cells, dtype=np.int64)[chosen]
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])


def level_sums(
    exact: NDArray[np.int64],
    cells: Sequence[int],
    cell_of: Sequence[NDArray[np.int64]],
    chosen: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return exact sums of groups in the cells of their levels, group after group, int64.

    Args:
        exact: shape (groups, finest cells) [rows].
        cells, cell_of, chosen: as for `LevelCountQuery`.
    """
    starts = level_starts(cells, chosen)
    sums = np.empty(int(starts[-1]), dtype=np.int64)
    step = max(1, PIECE // max(1, exact.shape[1]))
    for level, (number, own) in enumerate(zip(cells, cell_of, strict=True)):
        groups = np.flatnonzero(chosen == level)
        for low in range(0, groups.size, step):
            some = groups[low : low + step]
            added = np.zeros((number, some.size), dtype=np.int64)
            # add.at adds every cell, also where several have the same place.
            np.add.at(added, own, exact[some].T)
            sums[starts[some][:, None] + np.arange(number)] = added.T
    return sums


def levels_digest(cells: Sequence[int], cell_of: Sequence[NDArray[np.int64]]) -> str:
    """Return the SHA-256 (hex) of which cells each level adds up."""
    digest = hashlib.sha256(repr(tuple(cells)).encode())
    for own in cell_of:
        digest.update(np.ascontiguousarray(own, dtype="<i8").tobytes())
    return digest.hexdigest()


def chosen_digest(chosen: NDArray[np.int64]) -> str:
    """Return the SHA-256 (hex) of the level of each group."""
    return hashlib.sha256(np.ascontiguousarray(chosen, dtype="<i8").tobytes()).hexdigest()
