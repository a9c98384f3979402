"""Exact geometric variables, whole or cut off: P(g) = (1 - r) r^g with r = e^-t, for g >= 0 or for 0 <= g < w.

The binary digits of a geometric variable are independent (identity 2 in `discrete_laplace`): with J digits
    (1 - r) r^g = prod_{j<J} [ r^(g_j 2^j) / (1 + r^(2^j)) ] * (1 - r^(2^J)) r^(2^J q),  g = sum_{j<J} g_j 2^j + 2^J q
and the first product alone is the law of g given g < 2^J. So, for a variable that is cut off at w:
* where 2^J >= w is reached with few digits, the digits alone are drawn, and what is w or more is drawn again; since
  r^g falls, the lower half of the 2^J values is kept with a probability of at least 1/2;
* otherwise the whole variable is drawn, which lies at or above w with probability r^w <= e^-3.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from privacy.noise.bernoulli import bernoulli
from privacy.noise.binary_expansion import BinaryExpansion, exp_minus, odds_share
from privacy.noise.discrete_laplace import LARGEST_INVERSE_SCALE, SMALLEST_INVERSE_SCALE
from privacy.noise.limits import NoiseRefused, check_fraction, check_size
from privacy.noise.random_bytes import RandomBytes

Digits: TypeAlias = NDArray[np.unsignedinteger[Any]]

CHUNK: Final = 1 << 16
"""Draws made at once; they stay in a core's cache."""
TAIL_EXPONENT: Final = 6
"""The quotient is above 0 with probability e^-6 at most."""
_LIMIT_REASON: Final = "below it a draw might not fit into 64 bits, above it there is no noise"


def geometric(
    size: int, *, inverse_scale: Fraction, source: RandomBytes, below: int | None = None
) -> NDArray[np.int64]:
    """Draw independent geometric variables, exactly.

    Formula:  P(g) = (1 - r) r^g / (1 - r^below),  0 <= g < below,  r = exp(-inverse_scale)

    Args:
        size: how many draws, >= 0.
        inverse_scale: t, from 2^-50 to 2^20 [1 / unit].
        source: uniform bytes.
        below: where the variable is cut off, >= 1; None for nowhere [units].
    Returns:
        int64, shape (size,) [units].
    Raises:
        NoiseRefused: an argument is out of its limits; nothing was drawn.
        OverflowError: a draw reached 2^62, which has a probability below e^-4000 per draw.
    Source: the identities in the module's docstring.
    """
    check_size("size", size)
    limits = SMALLEST_INVERSE_SCALE, LARGEST_INVERSE_SCALE
    check_fraction("inverse_scale", inverse_scale, *limits, _LIMIT_REASON)
    if below is not None and check_size("below", below) < 1:
        raise NoiseRefused("below", str(below), "a whole number, at least 1")
    coins = _coins(inverse_scale, below)
    drawn = np.empty(size, np.int64)
    for start in range(0, size, CHUNK):
        part = drawn[start : start + CHUNK]
        _fill(part, coins, source)
        if below is not None:
            _redraw(part, below, coins, source)
    return drawn


def binary_digits(size: int, digits: tuple[BinaryExpansion, ...], source: RandomBytes) -> Digits:
    """Draw numbers whose binary digits are independent coins; the most significant comes first. At most 63 digits."""
    dtype: type[np.unsignedinteger[Any]] = np.uint32 if len(digits) <= 32 else np.uint64
    drawn = np.zeros(size, dtype)
    for digit in digits:
        drawn <<= 1
        drawn |= bernoulli(size, probability=digit, source=source)
    return drawn


@dataclass(frozen=True)
class _GeometricCoins:
    """The coins of one inverse scale; no quotient where the digits alone reach the cut."""

    digits: tuple[BinaryExpansion, ...]
    quotient: BinaryExpansion | None


@lru_cache(maxsize=64)
def _coins(inverse_scale: Fraction, below: int | None) -> _GeometricCoins:
    """Take as many digits as make heads rare, or as reach the cut, whichever is less."""
    count = 0
    while inverse_scale * 2**count < TAIL_EXPONENT:
        count += 1
    if below is not None:
        count = min(count, (below - 1).bit_length())
    digits = tuple(odds_share(inverse_scale * 2**digit) for digit in reversed(range(count)))
    # All 2^J values of the digits cover the cut: no quotient is needed, and what reaches the cut is drawn again.
    reached = below is not None and 2**count >= below
    return _GeometricCoins(digits, None if reached else exp_minus(inverse_scale * 2**count))


def _fill(part: NDArray[np.int64], coins: _GeometricCoins, source: RandomBytes) -> None:
    """Draw one chunk: the digits, then 2^J for each head of the quotient's coin before its first tail."""
    part[:] = binary_digits(part.size, coins.digits, source)
    if coins.quotient is None:
        return
    step = 1 << len(coins.digits)
    running = np.flatnonzero(bernoulli(part.size, probability=coins.quotient, source=source))
    heads = 1
    while running.size:
        if heads >= 2**62 // step:
            raise OverflowError("a geometric draw reached 2^62; nothing was returned")
        part[running] += step
        running = running[bernoulli(running.size, probability=coins.quotient, source=source)]
        heads += 1


def _redraw(part: NDArray[np.int64], below: int, coins: _GeometricCoins, source: RandomBytes) -> None:
    """Draw again what reached the cut, until nothing does."""
    outside = np.flatnonzero(part >= below)
    while outside.size:
        # Rejection: what is kept has the law of the variable given that it lies below the cut.
        again = np.empty(outside.size, np.int64)
        _fill(again, coins, source)
        part[outside] = again
        outside = outside[again >= below]
