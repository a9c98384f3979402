"""The seed of post-processing: public, published beside what it made, and of no use for noise.

Noise never takes a seed. This one drives sampling and rounding of what is already released, so that anybody can do it
again. The stream is Philox's raw output, which numpy guarantees not to change; distributions are not used.

Source: Salmon et al. 2011, Parallel random numbers: as easy as 1, 2, 3.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class PostProcessingSeed:
    """A public seed of 128 bits.

    Args:
        value: from 0 to 2¹²⁸ - 1.
    Raises:
        ValueError: outside that range.
    """

    value: int

    def __post_init__(self) -> None:
        if not 0 <= self.value < 1 << 128:
            raise ValueError("a post-processing seed lies between 0 and 2**128 - 1")

    @property
    def text(self) -> str:
        """The seed as 32 hex digits."""
        return f"{self.value:032x}"

    def derived(self, purpose: str) -> PostProcessingSeed:
        """Derive the seed of one purpose, so that no two purposes read the same random words.

        Formula: the first 16 bytes, big-endian, of SHA-256(hex digits of the seed, "/", purpose)
        """
        digest = hashlib.sha256(f"{self.text}/{purpose}".encode()).digest()
        return PostProcessingSeed(int.from_bytes(digest[:16], "big"))

    def words(self, stream: int, count: int) -> NDArray[np.uint64]:
        """Return the first `count` 64-bit words of a numbered stream; streams do not overlap."""
        generator = np.random.Philox(key=self.value, counter=[0, 0, 0, stream])
        return generator.random_raw(count)
