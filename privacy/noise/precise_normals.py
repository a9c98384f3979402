"""Standard normals in float64: AES-CTR bytes, Box-Muller, 64 random bits for each radius and each angle.

For noise of more than a million lattice steps a standard deviation. Multiples of float32, which holds 24 bits, skip
whole numbers there; x plus a number that is never drawn would never be seen, and so tell of x.

Source: Box, Muller 1958.
"""

from __future__ import annotations

from math import ceil, pi
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.noise.limits import check_size
from privacy.noise.random_bytes import RandomBytes

_PAIRS: Final = 1 << 15
"""Pairs of normals made at once; their arrays stay in a core's cache."""


def precise_normals(size: int, *, source: RandomBytes) -> NDArray[np.float64]:
    """Draw standard normals.

    Args:
        size: how many, >= 0.
        source: uniform bytes; sixteen a pair are taken.
    Returns:
        float64, shape (size,). The radius ends at 9.49, which a normal passes with probability below 10^-19.
    Raises:
        NoiseRefused: the size is not a whole number >= 0; nothing was drawn.
    """
    made = np.empty(2 * ceil(check_size("size", size) / 2), np.float64)
    for start in range(0, made.size, 2 * _PAIRS):
        _fill(made[start : start + 2 * _PAIRS], source)
    return made[:size]


def _fill(made: NDArray[np.float64], source: RandomBytes) -> None:
    """Fill an array of even size: radii sqrt(-2 log u), u = (word + 1/2) 2^-64, from one half of the words."""
    half = made.size // 2
    words = source.take(16 * half).view(np.uint64)
    uniforms = (words[:half].astype(np.float64) + 0.5) * 2.0**-64
    radii = np.sqrt(-2.0 * np.log(uniforms))
    angles = words[half:].astype(np.float64) * (2.0 * pi * 2.0**-64)
    np.multiply(np.cos(angles), radii, out=made[:half])
    np.multiply(np.sin(angles), radii, out=made[half:])
