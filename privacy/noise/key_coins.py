"""The coins of a selection of keys: each key's shows whether it is published.

The probabilities are whole numbers of 2^-128 (`privacy.accounting.keep_chances`). A coin is a uniform number of 128
bits, compared with one of them: no rounding takes part.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.accounting.keep_chances import keep_chances
from privacy.noise.limits import NoiseRefused
from privacy.noise.random_bytes import RandomBytes

_WORD: Final = 2**64


def selected(
    units: NDArray[np.int64], *, epsilon: Fraction, delta: Fraction, source: RandomBytes
) -> NDArray[np.bool_]:
    """Toss the coin of every key.

    Args:
        units: how many units have each key, >= 0, shape (keys,) [units].
        epsilon: e, of one key's coin [dimensionless].
        delta: d, of one key's coin [probability].
        source: uniform bytes; 16 a key are taken.
    Returns:
        bool, shape (keys,): whether it is published.
    Raises:
        AmountRefused: as `keep_chances`; nothing was drawn.
        NoiseRefused: a negative number; nothing was drawn.
    Privacy: (e, d)-DP for each key whose number of units changes by one.
    """
    if units.size and units.min() < 0:
        raise NoiseRefused("units", "a negative number", "0 or more of each key")
    chances = keep_chances(epsilon, delta)
    high, low = _words(chances)
    sure = len(chances) - 1
    place = np.minimum(units, sure)
    drawn = source.take(16 * units.size).view(">u8").reshape(-1, 2)
    first, second = drawn[:, 0].astype(np.uint64), drawn[:, 1].astype(np.uint64)
    below = (first < high[place]) | ((first == high[place]) & (second < low[place]))
    kept: NDArray[np.bool_] = below | (place == sure)
    return kept


def _words(chances: tuple[int, ...]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Split each chance below 1 into two words of 64 bits; of the last, which is 1, none is looked at."""
    split = [divmod(chance, _WORD) for chance in chances[:-1]] + [(0, 0)]
    high, low = zip(*split, strict=True)
    return np.array(high, dtype=np.uint64), np.array(low, dtype=np.uint64)
