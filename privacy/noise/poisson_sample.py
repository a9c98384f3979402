"""Poisson sampling: each row is in the sample by a coin of its own, with exactly the stated probability.

The coin compares uniform bytes with the binary expansion of the probability (`bernoulli`), so no rounding takes part:
what is accounted for as sampling with probability q is sampling with probability q. A sample may be empty.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.noise.bernoulli import bernoulli
from privacy.noise.binary_expansion import BinaryExpansion, ratio
from privacy.noise.limits import check_fraction, check_size
from privacy.noise.random_bytes import RandomBytes

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
