"""Normals for the latent vectors of a sample's rows: float32, each row's from bytes of its own.

Latents are not accounted as noise, but the proof of a step leans on them. Of a table with one row more, the rows that
both tables have get latents of the same law. So the two sums can be compared with these held alike, and differ by one
clipped gradient. That needs latents that are independent from row to row, and unknown to the attacker: who knows them
sees that one row more shifts the latents of all that follow, and with them every gradient. Therefore
* no seeded generator makes them: torch's takes 32 bits of a seed, which can all be tried;
* no two rows share a byte, as two numbers of one pair of Box and Muller's formula would.
That a normal is right to 10^-7 changes what is learned and not what is guaranteed: the law is the same for every row.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import ceil, pi
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.noise.random_bytes import RandomBytes

_STEP: Final = np.float32(2.0**-32)
_TURN: Final = np.float32(2.0 * pi * 2.0**-32)


def normals_from(source: RandomBytes) -> Callable[[int, int], NDArray[np.float32]]:
    """Return what draws normals for so many rows, so many a row."""
    return partial(row_normals, source=source)


def row_normals(rows: int, size: int, *, source: RandomBytes) -> NDArray[np.float32]:
    """Draw normals, each row's from its own bytes.

    Args:
        rows: how many rows.
        size: numbers a row.
        source: uniform bytes; 8 for two numbers of a row are taken, row after row.
    Returns:
        float32, shape (rows, size).
    """
    half = ceil(size / 2)
    words = source.take(8 * rows * half).view("<u4").reshape(rows, 2, half)
    radii = np.sqrt(np.log((words[:, 0].astype(np.float32) + np.float32(0.5)) * _STEP) * np.float32(-2))
    angles = words[:, 1].astype(np.float32) * _TURN
    normals: NDArray[np.float32] = np.concatenate([np.cos(angles) * radii, np.sin(angles) * radii], axis=1)
    return np.ascontiguousarray(normals[:, :size])
