"""The distinct values of a large integer table and how many cells hold each: all that a threshold depends on."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.refine.chunks import over_chunks

_WINDOW: Final = 1 << 17
"""Counted directly: so many steps from the least value on. The few larger values are sorted."""


def distinct_counts(
    values: NDArray[np.int64], *, step: int = 1, threads: int | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct values in ascending order and the number of cells that hold each.

    Args:
        values: any shape, within ±2^62 [units].
        step: round down to multiples of this first, ≥ 1 [units].
        threads: at most so many; None for one a core. The result does not depend on it.
    Privacy: post-processing.
    """
    flat = values.reshape(-1)
    if flat.size == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    least = min(over_chunks(lambda cells: int(flat[cells].min()), flat.size, threads=threads)) // step

    def count(cells: slice) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        steps = flat[cells] - least if step == 1 else flat[cells] // step - least
        # Most noisy counts lie in a window of 2^17 values above the least: counting them by place spares a sort.
        inside = steps < _WINDOW
        if inside.all():
            return np.bincount(steps), np.empty(0, np.int64)
        return np.bincount(steps[inside]), steps[~inside]

    parts = over_chunks(count, flat.size, threads=threads)
    low = np.zeros(max(part.size for part, _ in parts), np.int64)
    for part, _ in parts:
        low[: part.size] += part
    high, high_counts = np.unique(np.concatenate([part for _, part in parts]), return_counts=True)
    found = np.flatnonzero(low)
    return (np.concatenate([found, high]) + least) * step, np.concatenate([low[found], high_counts])
