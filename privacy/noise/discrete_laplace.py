"""Exact discrete Laplace noise: P(x) proportional to e^(-t |x|) on all integers.

With r = e^-t the sampler rests on three identities.

1. P(X = 0) = (1 - r) / (1 + r), so X differs from 0 with probability 2 r / (1 + r). Given that, the sign is a
   fair coin and |X| - 1 is geometric: P(|X| - 1 = g) = (1 - r) r^g.
2. The binary digits of a geometric variable are independent. Write g = sum_{j<J} g_j 2^j + 2^J q. From
   1 - r^(2^J) = (1 - r) prod_{j<J} (1 + r^(2^j)) follows
       (1 - r) r^g = prod_{j<J} [ r^(g_j 2^j) / (1 + r^(2^j)) ] * (1 - r^(2^J)) r^(2^J q),
   a product: digit j is 1 with probability r^(2^j) / (1 + r^(2^j)), and the quotient q is geometric again,
   with r^(2^J).
3. A geometric q is the number of heads before the first tail of a coin with P(heads) = r^(2^J). J is chosen so
   that heads are rare; the few draws that go on are counted to the end, so nothing is cut off.

Each coin is exact (`bernoulli`), hence the whole draw: no floating-point number takes part.

Source: Dwork, Kenthapadi, McSherry, Mironov and Naor 2006, "Our data, ourselves", put exponentially distributed
noise together from coins of suitable biases in this way; Canonne, Kamath and Steinke 2020 for the distribution.
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
from privacy.noise.limits import NoiseRefused, check_fraction, check_size
from privacy.noise.random_bytes import RandomBytes

SMALLEST_INVERSE_SCALE: Final = Fraction(1, 2**50)
LARGEST_INVERSE_SCALE: Final = Fraction(2**20)
_LIMIT_REASON: Final = "below it a draw might not fit into 64 bits, above it there is no noise"
_CHUNK: Final = 1 << 16
_TAIL_EXPONENT: Final = 6
"""The quotient is above 0 with probability e^-6 at most, which also lies below 1/256."""
_WIDTHS: Final[tuple[tuple[int, type[np.signedinteger[Any]]], ...]] = (
    (6, np.int8),
    (14, np.int16),
    (30, np.int32),
    (62, np.int64),
)


def discrete_laplace(size: int, *, inverse_scale: Fraction, source: RandomBytes) -> NDArray[np.int64]:
    """Draw independent discrete Laplace noise, exactly.

    Formula:  P(x) = (1 - r) / (1 + r) * r^|x|,  r = exp(-inverse_scale)

    Args:
        size: how many draws, >= 0.
        inverse_scale: t, from 2^-50 to 2^20 [1 / unit].
        source: uniform bytes.
    Returns:
        int64, shape (size,). Beyond the result, memory does not grow with the size.
    Raises:
        NoiseRefused: an argument is out of its limits; nothing was drawn.
        OverflowError: a draw reached 2^62, which has a probability below e^-4000 per draw; a wrapped number
            is never returned.
    Privacy: (t * l1_sensitivity)-DP when added to integers. The time that it takes depends on the draws.
    Source: the identities in the module's docstring.
    """
    check_size("size", size)
    limits = SMALLEST_INVERSE_SCALE, LARGEST_INVERSE_SCALE
    check_fraction("inverse_scale", inverse_scale, *limits, _LIMIT_REASON)
    coins = _coins(inverse_scale)
    drawn = np.empty(size, np.int64)
    for start in range(0, size, _CHUNK):
        _fill(drawn[start : start + _CHUNK], coins, source)
    return drawn


@dataclass(frozen=True)
class _LaplaceCoins:
    """The coins that one inverse scale needs, and the narrowest type that holds 2^digits and its negative."""

    nonzero: BinaryExpansion
    digits: tuple[BinaryExpansion, ...]
    quotient: BinaryExpansion
    dtype: type[np.signedinteger[Any]]


@lru_cache(maxsize=64)
def _coins(inverse_scale: Fraction) -> _LaplaceCoins:
    """Choose the number of digits, and expand each coin's probability; the most significant digit comes first."""
    count = 0
    while inverse_scale * 2**count < _TAIL_EXPONENT:
        count += 1
    return _LaplaceCoins(
        nonzero=odds_share(inverse_scale, multiple=2),
        digits=tuple(odds_share(inverse_scale * 2**digit) for digit in reversed(range(count))),
        quotient=exp_minus(inverse_scale * 2**count),
        dtype=next(dtype for most, dtype in _WIDTHS if count <= most),
    )


def _fill(part: NDArray[np.int64], coins: _LaplaceCoins, source: RandomBytes) -> None:
    """Draw one chunk: digits, sign and zero in the narrow type, then the few quotients above 0."""
    # Identity 2: |X| - 1 below 2^J, one coin a binary digit, the most significant first.
    magnitude = np.zeros(part.size, coins.dtype)
    for digit in coins.digits:
        magnitude <<= 1
        magnitude |= bernoulli(part.size, probability=digit, source=source)
    # Identity 1: 0 is a coin of its own, and whatever is not 0 has a magnitude of at least 1 and a fair sign.
    magnitude += 1
    sign = _signs(part.size, source)
    sign *= bernoulli(part.size, probability=coins.nonzero, source=source)
    np.multiply(magnitude, sign, out=part)
    _add_quotients(part, sign, coins, source)


def _signs(size: int, source: RandomBytes) -> NDArray[np.int8]:
    """Draw fair signs, -1 or 1, one bit each."""
    bits = np.unpackbits(source.take(-(-size // 8)), count=size).view(np.int8)
    bits *= -2
    bits += 1
    return bits


def _add_quotients(
    part: NDArray[np.int64], sign: NDArray[np.int8], coins: _LaplaceCoins, source: RandomBytes
) -> None:
    """Toss the quotient's coin for each draw until its first tail; each head adds 2^J away from 0."""
    step = 1 << len(coins.digits)
    # Identity 3: a share of e^-6 at most has a head at all, and each further toss is for those that still run.
    running = np.flatnonzero(bernoulli(part.size, probability=coins.quotient, source=source))
    heads = 1
    while running.size:
        # One step more could pass 2^62: int64 would wrap, and a wrapped draw is a wrong distribution.
        if heads >= 2**62 // step:
            raise OverflowError("a discrete Laplace draw reached 2^62; nothing was returned")
        part[running] += sign[running].astype(np.int64) * step
        running = running[bernoulli(running.size, probability=coins.quotient, source=source)]
        heads += 1


# --- Exact geometric variables, whole or cut off.
# The binary digits of a geometric variable are independent (identity 2 above): with J digits
# (1 - r) r^g = prod_{j<J} [r^(g_j 2^j) / (1 + r^(2^j))] * (1 - r^(2^J)) r^(2^J q),  g = sum_{j<J} g_j 2^j + 2^J q
# and the first product alone is the law of g given g < 2^J. So, for a variable that is cut off at w:
# * where 2^J >= w is reached with few digits, the digits alone are drawn, and what is w or more is drawn again; since
#   r^g falls, the lower half of the 2^J values is kept with a probability of at least 1/2;
# * otherwise the whole variable is drawn, which lies at or above w with probability r^w <= e^-3.


Digits: TypeAlias = NDArray[np.unsignedinteger[Any]]

CHUNK: Final = 1 << 16
"""Draws made at once; they stay in a core's cache."""
TAIL_EXPONENT: Final = 6
"""The quotient is above 0 with probability e^-6 at most."""


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
    Source: the identities above.
    """
    check_size("size", size)
    limits = SMALLEST_INVERSE_SCALE, LARGEST_INVERSE_SCALE
    check_fraction("inverse_scale", inverse_scale, *limits, _LIMIT_REASON)
    if below is not None and check_size("below", below) < 1:
        raise NoiseRefused("below", str(below), "a whole number, at least 1")
    coins = _geometric_coins(inverse_scale, below)
    drawn = np.empty(size, np.int64)
    for start in range(0, size, CHUNK):
        part = drawn[start : start + CHUNK]
        _fill_chunk(part, coins, source)
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
def _geometric_coins(inverse_scale: Fraction, below: int | None) -> _GeometricCoins:
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


def _fill_chunk(part: NDArray[np.int64], coins: _GeometricCoins, source: RandomBytes) -> None:
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
        _fill_chunk(again, coins, source)
        part[outside] = again
        outside = outside[again >= below]
