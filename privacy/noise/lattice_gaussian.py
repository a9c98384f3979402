"""Gaussian noise for long vectors of floats, on a lattice: AES-CTR bytes, Box-Muller in float32, whole multiples.

Where (one letter each)
    x   the exact vector, float32        s   standard deviation of the noise
    N   a standard normal                g   the lattice: the largest power of two up to s 2^-20

    output = g * fl(rint(x / g) + rint(N s / g))

Floating-point safety. Noise added to floats may leak: which floats can come out depends on x (Mironov 2012). Here x
is put on the lattice first, noise is a whole number of steps, and what follows is a function of their exact sum, so
the set of possible outputs is the same for every x. With an ideal N the output is post-processing of the Gaussian
mechanism on the rounded x, whose L2 sensitivity is that of x and at most g sqrt(dimension) (`rounding_slack`). What
stays an approximation: N is worked out in float32 (24 bits; a relative error of about 10^-7, a tenth of a lattice
step at one standard deviation), and its radius ends at 9.4, which a normal passes with probability below 10^-19.
The class of this noise is therefore `lattice_float32`: better than adding floats, less than the exact samplers that
counts and sums get.

Source: Box, Muller 1958; Mironov 2012, "On significance of the least significant bits for differential privacy".
"""

from __future__ import annotations

from math import ceil, floor, log2, pi, sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.noise.limits import NoiseRefused, check_size
from privacy.noise.random_bytes import RandomBytes

FLOAT_SAFETY: Final = "lattice_float32"
LATTICE_BITS: Final = 20
SMALLEST_DEVIATION: Final = 1e-20
LARGEST_DEVIATION: Final = 1e20
_PAIRS: Final = 1 << 15
"""Pairs of normals made at once; their arrays stay in a core's cache."""
_STEP: Final = np.float32(2.0**-32)
_TURN: Final = np.float32(2.0 * pi * 2.0**-32)
_RARE: Final = np.uint32(1 << 12)


def standard_normals(size: int, *, source: RandomBytes) -> NDArray[np.float32]:
    """Draw standard normals.

    Args:
        size: how many, >= 0.
        source: uniform bytes; eight a pair are taken, and four more for about one pair in a million.
    Returns:
        float32, shape (size,).
    Raises:
        NoiseRefused: the size is not a whole number >= 0; nothing was drawn.
    """
    made = np.empty(2 * ceil(check_size("size", size) / 2), np.float32)
    for start in range(0, made.size, 2 * _PAIRS):
        _fill(made[start : start + 2 * _PAIRS], source)
    return made[:size]


def add_noise(exact: NDArray[np.float32], *, standard_deviation: float, source: RandomBytes) -> None:
    """Add Gaussian noise to every entry of a vector, in place, and leave the sum on the lattice.

    Args:
        exact: the vector, float32, shape (n,), contiguous; overwritten by what may be released.
        standard_deviation: s, 10^-20 <= s <= 10^20, the same for every entry.
        source: uniform bytes.
    Raises:
        NoiseRefused: another type or shape, a standard deviation out of range, or an entry that is not finite.
    Privacy: the Gaussian mechanism's, up to what the module's docstring states.
    """
    if exact.dtype != np.float32 or exact.ndim != 1 or not exact.flags.c_contiguous:
        raise NoiseRefused("exact", f"{exact.dtype} of shape {exact.shape}", "contiguous float32 of one dimension")
    if not SMALLEST_DEVIATION <= standard_deviation <= LARGEST_DEVIATION:
        allowed = f"from {SMALLEST_DEVIATION:g} to {LARGEST_DEVIATION:g}"
        raise NoiseRefused("standard_deviation", repr(standard_deviation), allowed)
    lattice, inverse = np.float32(_lattice(standard_deviation)), np.float32(1 / _lattice(standard_deviation))
    steps = np.nextafter(np.float32(standard_deviation / _lattice(standard_deviation)), np.float32(np.inf))
    noise = np.empty(2 * _PAIRS, np.float32)
    for start in range(0, exact.size, 2 * _PAIRS):
        part = exact[start : start + 2 * _PAIRS]
        _fill(noise[: part.size + part.size % 2], source)
        drawn = noise[: part.size]
        np.multiply(part, inverse, out=part)
        np.rint(part, out=part)
        if not np.isfinite(part).all():
            raise NoiseRefused("exact", "an entry that is not finite", "finite numbers")
        np.multiply(drawn, steps, out=drawn)
        np.rint(drawn, out=drawn)
        np.add(part, drawn, out=part)
        np.multiply(part, lattice, out=part)


def rounding_slack(size: int, standard_deviation: float) -> float:
    """Bound how much rounding to the lattice may add to the distance of two vectors: g sqrt(n)."""
    return _lattice(standard_deviation) * sqrt(size)


def _lattice(standard_deviation: float) -> float:
    """Return g; products with a power of two are exact."""
    return 2.0 ** (floor(log2(standard_deviation)) - LATTICE_BITS)


def _fill(made: NDArray[np.float32], source: RandomBytes) -> None:
    """Fill an array of even size: radii from one half of the words, angles from the other."""
    half = made.size // 2
    words = source.take(8 * half).view(np.uint32)
    cosines, sines = made[:half], made[half:]
    radii = _radii(words[:half], source)
    angles = np.multiply(words[half:], _TURN, dtype=np.float32, casting="unsafe")
    np.multiply(np.cos(angles), radii, out=cosines)
    np.multiply(np.sin(angles), radii, out=sines)


def _radii(words: NDArray[np.uint32], source: RandomBytes) -> NDArray[np.float32]:
    """Return sqrt(-2 log u) for u = (word + 1/2) 2^-32; a word below 2^12 is told by 32 bits more."""
    uniforms = words.astype(np.float32)
    uniforms += np.float32(0.5)
    uniforms *= _STEP
    rare = np.flatnonzero(words < _RARE)
    if rare.size:
        more = source.take(4 * rare.size).view(np.uint32)
        uniforms[rare] = (words[rare] + (more + 0.5) * 2.0**-32) * 2.0**-32
    np.log(uniforms, out=uniforms)
    uniforms *= np.float32(-2.0)
    return np.sqrt(uniforms, out=uniforms)
