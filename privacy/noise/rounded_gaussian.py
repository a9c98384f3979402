"""Exact normal noise, rounded: rint(s N) for an exactly normal N, all of a vector jointly.

Where (one letter each)
    U, V  uniform numbers of infinitely many random bits      R   sqrt(-2 log U)
    N     one of R cos(2 pi V), R sin(2 pi V)                 s   standard deviation, a rational number

Two whole numbers are drawn from one U and one V by Box and Muller's formula, as real numbers: no bit of U or V is cut
off, and nothing is rounded but the two results. So the vector is distributed as independent normals, each rounded to
the nearest whole number. What is added to whole numbers x gives rint(x + s N): a function of the Gaussian mechanism's
output, and of nothing else, whatever number of coordinates and draws is looked at together.

Nearly all pairs are decided in float64, from the first 64 bits of U and of V. Let M be the float64 value of
R cos(2 pi V) or R sin(2 pi V). For 2^-8 <= R <= 5 it is within 2^-42 of every number that further bits could make of
it. With u = 2^-53, and numpy's log, cos and sin right to 128 u (it computes them to within a few u):

* log U is wrong by u for the rounding of U, by 2^-64 e^(R^2 / 2) for its unknown bits, and by 128 u R^2 / 2 for the
  logarithm. Over R, that is at most 2^-45 + 2^-48 at R = 2^-8, and 2^-44.6 at R = 5; the root adds u R. So R is wrong
  by less than 2^-44.4.
* The angle, from -pi to pi, is wrong by 3 u pi and 2 pi 2^-64, its cosine or sine by less than 2^-49 + 2^-46. Times R
  that is less than 2^-43.4.
* The products, with R, with s and of s rounded to float64, add 3 u R < 2^-49.

In all less than 2^-42.8. So if s M is nearer than 1/2 - s 2^-41 to a whole number, that is the one. Where it is not
(2^-19 of the draws at s = 2^21), or R is out of these bounds (about one pair in 90,000), the very same bits, and as
many more as it takes, are worked out in exact arithmetic (`box_muller`). The margin decides how often that happens,
never how it ends. In particular no tail is cut off.

Source: Box, Muller 1958; the exact decision: `box_muller`.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, pi
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.noise.box_muller import rounded_pair
from privacy.noise.limits import check_fraction, check_size
from privacy.noise.random_bytes import RandomBytes

SMALLEST_DEVIATION: Final = Fraction(1, 2**20)
LARGEST_DEVIATION: Final = Fraction(2**32)
_LIMIT_REASON: Final = "below it there is no noise, above it too few draws are decided in float64"
_PAIRS: Final = 1 << 13
"""Pairs drawn at once; their arrays stay in a core's cache."""
_MARGIN: Final = 2.0**-41
_LEAST_RADIUS: Final = 2.0**-8
_MOST_RADIUS: Final = 5.0


def rounded_gaussian(size: int, *, standard_deviation: Fraction, source: RandomBytes) -> NDArray[np.int64]:
    """Draw independent normals, exactly, and round each to the nearest whole number.

    Formula:  P(m) = Phi((m + 1/2) / s) - Phi((m - 1/2) / s)

    Args:
        size: how many, >= 0.
        standard_deviation: s, from 2^-20 to 2^32 [steps].
        source: uniform bytes; sixteen a pair are taken, and more where these do not decide (at s = 2^21 one pair in
            10^11).
    Returns:
        int64, shape (size,).
    Raises:
        NoiseRefused: an argument is out of its limits; nothing was drawn.
        OverflowError: a draw reached 2^63, which has a probability below e^-(2^60).
    Privacy: added to whole numbers, post-processing of the Gaussian mechanism on them. The time that it takes depends
        on the noise alone.
    Source: the module's docstring.
    """
    check_size("size", size)
    limits = SMALLEST_DEVIATION, LARGEST_DEVIATION
    check_fraction("standard_deviation", standard_deviation, *limits, _LIMIT_REASON)
    made = np.empty(2 * ceil(size / 2), np.int64)
    for start in range(0, made.size, 2 * _PAIRS):
        _fill(made[start : start + 2 * _PAIRS], standard_deviation, source)
    return made[:size]


def _fill(
    made: NDArray[np.int64], standard_deviation: Fraction, source: RandomBytes, *, margin: float = _MARGIN
) -> None:
    """Fill an array of even size: U's bits from one half of the words, V's from the other.

    A wider margin only sends more pairs the exact way.
    """
    half = made.size // 2
    words = source.take(16 * half).view("<u8")
    first, second = words[:half], words[half:]
    scale = float(standard_deviation)
    radii = _radii(first)
    exactly = (radii < _LEAST_RADIUS) | (radii > _MOST_RADIUS)
    radii[exactly] = 0.0
    radii *= scale
    angles = second.view("<i8") * (2.0 * pi * 2.0**-64)
    values = np.empty(made.size)
    np.multiply(np.cos(angles), radii, out=values[:half])
    np.multiply(np.sin(angles), radii, out=values[half:])
    nearest = np.rint(values)
    made[:] = nearest
    values -= nearest
    near_half = np.abs(values, out=values) > 0.5 - scale * margin
    exactly |= near_half[:half]
    exactly |= near_half[half:]
    for place in np.flatnonzero(exactly).tolist():
        bits = int(first[place]), int(second[place])
        made[place], made[place + half] = rounded_pair(*bits, standard_deviation=standard_deviation, source=source)


def _radii(first: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return sqrt(-2 log U) for U = word 2^-64; a word of 0 gives infinity."""
    radii: NDArray[np.float64] = np.multiply(first, 2.0**-64, dtype=np.float64)
    with np.errstate(divide="ignore"):
        np.log(radii, out=radii)
    radii *= -2.0
    np.sqrt(radii, out=radii)
    return radii
