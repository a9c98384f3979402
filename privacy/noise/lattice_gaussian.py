"""The Gaussian mechanism for long vectors of floats, on a lattice: whole numbers plus exact rounded normal noise.

Where (one letter each)
    x   the exact vector, float32        s   standard deviation of the noise, a rational number
    N   exactly normal numbers           g   the lattice: the largest power of two up to s 2^-20

    k = rint(x / g) + rint(s N / g)      output = fl(g k)

What comes out depends on x through a Gaussian mechanism alone. x / g is a shift of x's exponent and loses no bit. It
is rounded to whole numbers and added in 64 bits, which lose none either. rint(x / g) is whole, so

    rint(x / g) + rint(s N / g) = rint(rint(x / g) + s N / g)

but for ties, which have probability 0. So the vector k is a function of the Gaussian mechanism on the vector
g rint(x / g), and of nothing else; and fl(g k), which float32 rounds to 24 bits, is a function of k. So is everything
that is worked out from it. The steps of a training hold jointly, too, since their noise is independent. The L2
sensitivity of g rint(x / g) is that of x and at most g sqrt(dimension).

N is not rounded before the product is (`rounded_gaussian`). So the numbers that can come out together are the same
for every x, and how much likelier they are under one x than under another is what the Gaussian mechanism allows.
Noise made in floating point keeps neither, even where each number of it is right by itself: docs/derivations.md,
section 13.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from math import ceil, frexp, pi
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.noise.limits import NoiseRefused, check_fraction
from privacy.noise.random_bytes import RandomBytes
from privacy.noise.rounded_gaussian import BLOCK, rounded_gaussian

LATTICE_BITS: Final = 20
SMALLEST_DEVIATION: Final = Fraction(1, 10**20)
LARGEST_DEVIATION: Final = Fraction(10**20)
LARGEST_STEPS: Final = 2.0**62
"""Lattice steps at which an entry is cut: beyond, a sum with noise might not fit 64 bits. Cutting moves no two
vectors apart."""
_LIMIT_REASON: Final = "a standard deviation whose lattice float32 holds"
_CHUNK: Final = 1 << 15


def add_noise(exact: NDArray[np.float32], *, standard_deviation: Fraction, source: RandomBytes) -> None:
    """Add Gaussian noise to every entry of a vector, in place, and leave the sum on the lattice.

    Args:
        exact: the vector, float32, shape (n,), contiguous; overwritten by what may be released.
        standard_deviation: s, exact, 10^-20 <= s <= 10^20, the same for every entry.
        source: uniform bytes.
    Raises:
        NoiseRefused: another type or shape, a standard deviation out of range, or an entry that is not finite.
    Privacy: post-processing of the Gaussian mechanism on the vector rounded to the lattice (the module's docstring).
    """
    if exact.dtype != np.float32 or exact.ndim != 1 or not exact.flags.c_contiguous:
        raise NoiseRefused("exact", f"{exact.dtype} of shape {exact.shape}", "contiguous float32 of one dimension")
    limits = SMALLEST_DEVIATION, LARGEST_DEVIATION
    check_fraction("standard_deviation", standard_deviation, *limits, _LIMIT_REASON)
    if not np.isfinite(exact).all():
        raise NoiseRefused("exact", "an entry that is not finite", "finite numbers")
    lattice = lattice_of(standard_deviation)
    steps_per_deviation = standard_deviation / Fraction(lattice)
    for start in range(0, exact.size, BLOCK):
        block = exact[start : start + BLOCK]
        noise = rounded_gaussian(block.size, standard_deviation=steps_per_deviation, source=source)
        for at in range(0, block.size, _CHUNK):
            part = block[at : at + _CHUNK]
            # 64 bits hold both exactly: the sum is a whole number of lattice steps, whatever order numbers are added
            # in.
            noisy = on_lattice(part, lattice)
            noisy += noise[at : at + _CHUNK]
            part[:] = noisy
            # A power of two moves the exponent alone. float32 rounded the whole number before: post-processing.
            part *= np.float32(lattice)


def on_lattice(exact: NDArray[np.float32], lattice: float) -> NDArray[np.int64]:
    """Return the nearest whole numbers to x / g, exact for every finite float32."""
    # float32 times a power of two, in float64: exact, and so is rint of it.
    steps = exact * np.float64(1 / lattice)
    np.clip(np.rint(steps, out=steps), -LARGEST_STEPS, LARGEST_STEPS, out=steps)
    return steps.astype(np.int64)


def lattice_of(standard_deviation: Fraction) -> float:
    """Return g; products with a power of two are exact."""
    power = frexp(standard_deviation)[1] - 1
    if Fraction(2) ** power > standard_deviation:  # the nearest double may lie above
        power -= 1
    return 2.0 ** (power - LATTICE_BITS)


# --- Normals for the latent vectors of a sample's rows.


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
