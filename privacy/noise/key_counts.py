"""Noisy counts of keys, published from a threshold on, drawn exactly.

The index of a key's noise is found by comparing a uniform number of 128 bits with the law's whole numbers of 2^-128
(`privacy.accounting.key_count_law`): no rounding takes part.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.accounting.key_count_law import KeyCountLaw
from privacy.noise.limits import NoiseRefused
from privacy.noise.random_bytes import RandomBytes

_WORD: Final = 2**64


def noisy_key_counts(
    rows: NDArray[np.int64], *, law: KeyCountLaw, source: RandomBytes
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Draw the noisy count of every key, and whether it is published.

    Args:
        rows: how many rows have each key, >= 0, shape (keys,) [rows].
        law: of their noise.
        source: uniform bytes; 16 a key are taken.
    Returns:
        Whether each key is published, and its noisy count, which means nothing where it is not; shape (keys,).
    Raises:
        NoiseRefused: a negative number; nothing was drawn.
    Privacy: that of the law, for each key of which one row comes or goes.
    """
    if rows.size and rows.min() < 0:
        raise NoiseRefused("rows", "a negative number", "0 or more of each key")
    high, low = _words(law)
    drawn = source.take(16 * rows.size).view(">u8").reshape(-1, 2)
    first, second = drawn[:, 0].astype(np.uint64), drawn[:, 1].astype(np.uint64)
    # The first place whose chance lies above the number; of equal first words the second ones decide.
    place = np.searchsorted(high, first, side="left")
    while (tied := (place < high.size) & (high[at := np.minimum(place, high.size - 1)] == first)).any():
        passed = tied & (low[at] <= second)
        if not passed.any():
            break
        place += passed
    index = place + 1
    return index <= rows, rows - index + law.least


@lru_cache(maxsize=16)
def _words(law: KeyCountLaw) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Split each chance below 1 into two words of 64 bits; beyond the last of them nothing is compared."""
    split = [divmod(chance, _WORD) for chance in law.chances[:-1]]
    high, low = ([pair[part] for pair in split] for part in (0, 1))
    return np.array(high, dtype=np.uint64), np.array(low, dtype=np.uint64)
