"""Exponential and logarithm that give the same bits on every machine.

Library versions of exp and log differ in the last bit from one processor to the next. These are made of single IEEE
754 additions, multiplications and divisions of 64-bit floats in a fixed order, element by element, each of which is
correctly rounded everywhere. They are accurate to a few units in the last place.

Source: Muller 2016, Elementary Functions, chapter 11 (range reduction in two parts).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from math import factorial
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from privacy.arrays import Floats

LN2_HIGH: Final = float.fromhex("0x1.62e42fee00000p-1")
LN2_LOW: Final = float.fromhex("0x1.a39ef35793c76p-33")
EXPONENTIAL: Final = tuple(1.0 / factorial(power) for power in range(14))
ARTANH: Final = tuple(2.0 / (2 * power + 1) for power in range(12))


def scaled_exponential(logs: Floats, bits: int) -> NDArray[np.int64]:
    """Return floor(2^bits · exp(logs)), whole numbers, for logs ≤ 0; minus infinity gives 0.

    Args:
        logs: any shape, ≤ 0.
        bits: at most 62.
    """
    # 2^bits · exp(-0.7 (bits + 2)) < 1: below this the result is 0.
    lowest = -(bits + 2) * 0.7
    inside = np.maximum(logs, lowest)
    # exp(x) = 2^p exp(x - p log 2): log 2 in two parts, the first short enough for p times it to be exact.
    power = np.rint(inside * (1.0 / 0.6931471805599453))
    rest = (inside - power * LN2_HIGH) - power * LN2_LOW
    # Horner's rule on the series: one multiplication and one addition at a time, each rounded alike everywhere.
    value = np.full_like(rest, EXPONENTIAL[-1])
    for coefficient in reversed(EXPONENTIAL[:-1]):
        value *= rest
        value += coefficient
    value = np.ldexp(value, power.astype(np.int32) + bits)
    return np.where(logs < lowest, 0, np.minimum(value, 2.0**bits)).astype(np.int64)


def logarithm(values: NDArray[np.int64]) -> Floats:
    """Return log(values) of whole numbers ≥ 0; minus infinity at 0."""
    mantissa, exponent = np.frexp(np.maximum(values, 1).astype(np.float64))
    small = mantissa < 0.7071067811865476
    mantissa = np.where(small, mantissa * 2.0, mantissa)
    power = (exponent - small).astype(np.float64)
    # log m = 2 artanh((m - 1) / (m + 1)), which is small for m between sqrt(1/2) and sqrt(2).
    ratio = (mantissa - 1.0) / (mantissa + 1.0)
    square = ratio * ratio
    total = np.full_like(ratio, ARTANH[-1])
    for coefficient in reversed(ARTANH[:-1]):
        total *= square
        total += coefficient
    result = (power * LN2_LOW + total * ratio) + power * LN2_HIGH
    return np.where(values > 0, result, -np.inf)


# --- The seed of post-processing.


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
