"""Exact coins: a uniform number, byte by byte, against the binary expansion of the probability.

Let U = 0.u_0 u_1 u_2 ... in base 256 with independent uniform bytes, a uniform number of [0, 1). Then
P(U < p) = p, and U < p is decided by the first byte in which the two differ. A byte ties with probability 1/256,
so one byte is nearly always enough, and no rounding takes part.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.noise.binary_expansion import BinaryExpansion, ratio
from privacy.noise.limits import check_fraction, check_size
from privacy.noise.random_bytes import RandomBytes


def bernoulli(size: int, *, probability: BinaryExpansion, source: RandomBytes) -> NDArray[np.bool_]:
    """Draw independent coins that are True with exactly this probability.

    Args:
        size: how many coins, >= 0.
        probability: the expansion of p.
        source: uniform bytes.
    Returns:
        bool, shape (size,).
    Source: comparing with the expansion lazily is folklore (Knuth and Yao 1976 treat it in general).
    """
    drawn, expected = source.take(size), probability.byte(0)
    # The first differing byte decides; where the byte ties, the next one is drawn for those coins only.
    result: NDArray[np.bool_] = drawn < expected
    tied = np.flatnonzero(drawn == expected)
    index = 0
    while tied.size:
        index += 1
        drawn, expected = source.take(tied.size), probability.byte(index)
        result[tied] = drawn < expected
        tied = tied[drawn == expected]
    return result


def below(first: bytes, *, probability: BinaryExpansion, source: RandomBytes) -> bool:
    """Decide whether the uniform number that begins with the bytes `first` lies below p.

    Further bytes are drawn only where `first` is a prefix of the expansion.
    """
    index = 0
    while True:
        drawn = first[index] if index < len(first) else int(source.take(1)[0])
        expected = probability.byte(index)
        # An expansion neither ends nor repeats a byte for ever, so that this loop ends with probability 1.
        if drawn != expected:
            return drawn < expected
        index += 1


# --- Poisson sampling.


SMALLEST_PROBABILITY: Final = Fraction(1, 10**12)


def poisson_sample(rows: int, *, probability: Fraction, source: RandomBytes) -> NDArray[np.int64]:
    """Draw which rows are in the sample.

    Args:
        rows: n, >= 0 [rows].
        probability: q, 10^-12 <= q <= 1, exact [probability].
        source: uniform bytes; about one a row is taken.
    Returns:
        int64: the places of the sampled rows, ascending; its size is binomial(n, q).
    Raises:
        NoiseRefused: an argument out of its limits; nothing was drawn.
    Privacy: no release by itself; the amplification that is accounted for rests on these coins being independent.
    """
    check_size("rows", rows)
    check_fraction("probability", probability, SMALLEST_PROBABILITY, Fraction(1), "a sampling probability")
    # Every row: no coin is tossed, and 1 has no expansion below 1.
    if probability == 1:
        return np.arange(rows, dtype=np.int64)
    return np.flatnonzero(bernoulli(rows, probability=_expansion(probability), source=source))


@lru_cache(maxsize=16)
def _expansion(probability: Fraction) -> BinaryExpansion:
    return ratio(probability)
