"""Shares of Gaussian noise on a lattice: several parties add whole numbers, and their sum is a Gaussian mechanism.

Where (one letter each)
    x_i  the exact vector of party i, whole numbers (lattice steps)      k   parties whose shares reach the sum
    s    standard deviation of one share [lattice steps]                 U   uniform on [-1/2, 1/2]
    N    a standard normal

    share_i = x_i + rint(s N_i)         sum = sum of x_i + sum of rint(s N_i)

The noise of the sum is rint(N(0, k s^2) + U_1 + ... + U_(k-1)) but for what sampling a smooth density at whole
numbers loses, which is below exp(-s^2) for s >= 2^8: rint(s N) has at m the density of s N + U, and a sum of
independent numbers the convolution of their densities. Rounding x + N(0, k s^2) with public noise added is
post-processing, so the sum is as private as the Gaussian mechanism of standard deviation s sqrt(k) on whole x;
docs/federation.md has the derivation. What stays an approximation: N is worked out in float64, 53 bits. With s up to
2^28 its products with s lie 2^-21 of a step apart or nearer wherever the radius, which ends at 9.49, can reach, so
that every whole number there can come out (float32 would skip some from s = 2^21).
"""

from __future__ import annotations

from math import inf
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.noise.limits import NoiseRefused
from privacy.noise.precise_normals import precise_normals
from privacy.noise.random_bytes import RandomBytes

FINEST: Final = 2.0**8
"""The least standard deviation of a share, in lattice steps: below, the sum's noise would show the steps."""
COARSEST: Final = 2.0**28
"""The largest: up to it no whole number is out of reach for want of bits."""


def noise_share(size: int, *, standard_deviation: float, source: RandomBytes) -> NDArray[np.int64]:
    """Draw one party's noise.

    Args:
        size: how many numbers, >= 0.
        standard_deviation: s, 2^8 <= s <= 2^28 [lattice steps].
        source: uniform bytes.
    Returns:
        int64, shape (size,).
    Raises:
        NoiseRefused: an argument out of its limits; nothing was drawn.
    Privacy: together with the shares of other parties only; by itself a share has the noise of one share.
    """
    if not FINEST <= standard_deviation <= COARSEST:
        raise NoiseRefused("standard_deviation", repr(standard_deviation), f"from {FINEST:g} to {COARSEST:g} steps")
    normals = precise_normals(size, source=source)
    noise: NDArray[np.int64] = np.rint(normals * np.nextafter(standard_deviation, inf)).astype(np.int64)
    return noise
