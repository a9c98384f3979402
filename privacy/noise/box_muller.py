"""Box and Muller's two normals from as many random bits as it takes, rounded to whole numbers without any error.

Where (one letter each)
    U, V  independent uniform numbers of [0, 1], infinitely many bits each      R    sqrt(-2 log U)
    s     the standard deviation, a rational number                            X    s R cos(2 pi V)
    n     bits of U and of V that are known so far                             Y    s R sin(2 pi V)

X and Y are independent normals of standard deviation s, exactly. The n bits that are known put U between a / 2^n and
(a + 1) / 2^n, and V likewise; so R, the angle, X and Y lie in intervals that are worked out with directed rounding.
Where both ends of X's interval round to one whole number, and both of Y's, these are what the infinitely many bits
would give. Where not, 64 bits more of U and V are drawn. A draw that needs more than 4,096 bits is refused: with
uniform bytes that has a probability below 2^-4000.

Source: Box, Muller 1958. Deciding a function of uniform numbers by as many of their bits as it needs is Knuth and
Yao's (1976).
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Final, TypeAlias

from privacy.noise.binary_expansion import _directed, _floor_shifted
from privacy.noise.random_bytes import RandomBytes

WORD_BITS: Final = 64
Interval: TypeAlias = tuple[int, int]
"""Lower and upper bound, in units of 2^-precision."""

_MOST_BITS: Final = 4096
_GUARD_BITS: Final = 64
_DIGITS_PER_BIT: Final = Fraction(302, 1000)
"""Above log10(2) = 0.30103."""
_EIGHTH: Final = 3
"""Bits of an angle that tell in which eighth of the turn it lies."""
_COSINE_BELOW_SINE: Final = (1, 2, 5, 6)
_COSINE_NEGATIVE: Final = (2, 3, 4, 5)
_SINE_NEGATIVE: Final = (4, 5, 6, 7)


def rounded_pair(first: int, second: int, *, standard_deviation: Fraction, source: RandomBytes) -> tuple[int, int]:
    """Return the whole numbers nearest to X and Y, exactly.

    Args:
        first: the first 64 bits of U.
        second: the first 64 bits of V.
        standard_deviation: s, > 0.
        source: uniform bytes; sixteen are taken as often as the bits so far do not decide.
    Returns:
        The nearest whole number to s R cos(2 pi V), and to s R sin(2 pi V).
    Raises:
        OverflowError: 4,096 bits did not decide: the source is broken.
    """
    for bits in range(WORD_BITS, _MOST_BITS + 1, WORD_BITS):
        pair = pair_from_bits(first, second, bits, standard_deviation=standard_deviation)
        if pair is not None:
            return pair
        more = source.take(2 * WORD_BITS // 8).tobytes()
        half = len(more) // 2
        first = first << WORD_BITS | int.from_bytes(more[:half], "little")
        second = second << WORD_BITS | int.from_bytes(more[half:], "little")
    raise OverflowError(f"{_MOST_BITS} random bits did not decide a normal number; nothing was returned")


def pair_from_bits(first: int, second: int, bits: int, *, standard_deviation: Fraction) -> tuple[int, int] | None:
    """Return both whole numbers, or None where so many bits do not decide them."""
    # U may be 0 as far as these bits tell: its logarithm has no bound yet.
    if first == 0:
        return None
    # More digits than random bits: what is undecided then hangs on the bits, hardly ever on the arithmetic.
    precision = bits + _GUARD_BITS
    radius = _radius(first, bits, precision)
    eighth = second >> (bits - _EIGHTH)
    cosine, sine = _cosine_and_sine(second, eighth, bits, precision)
    if eighth in _COSINE_BELOW_SINE:
        # The nearest axis is the vertical one: distance from it swaps the roles of the two functions.
        cosine, sine = sine, cosine
    along, across = (_rounded(radius, each, standard_deviation, precision) for each in (cosine, sine))
    if along is None or across is None:
        return None
    return -along if eighth in _COSINE_NEGATIVE else along, -across if eighth in _SINE_NEGATIVE else across


def _radius(first: int, bits: int, precision: int) -> Interval:
    """Bound sqrt(-2 log U), which falls as U grows.

    `decimal` rounds quotients in the direction that it is told, and logarithms and roots correctly (half to even),
    so that the next number on either side of those is a rigorous bound.
    """
    down, up = _directed(int(precision * _DIGITS_PER_BIT) + 10)
    whole = Decimal(1 << bits)
    # U lies in [a, a + 1) / 2^n: the upper end gives the least radius, the lower end the largest.
    least = -up.next_plus(up.ln(up.divide(Decimal(first + 1), whole)))
    most = -down.next_minus(down.ln(down.divide(Decimal(first), whole)))
    inner = down.next_minus(down.sqrt(down.multiply(2, max(least, Decimal(0)))))
    outer = up.next_plus(up.sqrt(up.multiply(2, most)))
    return _floor_shifted(max(inner, Decimal(0)), precision), _floor_shifted(outer, precision) + 1


def _cosine_and_sine(second: int, eighth: int, bits: int, precision: int) -> tuple[Interval, Interval]:
    """Bound cosine and sine of the angle's distance from the nearest axis, from 0 to pi / 4.

    The distance is counted from the axis before the angle in even eighths, from the axis after it in odd ones. There
    the cosine falls and the sine grows, so that the ends of the angle's interval give the ends of theirs.
    """
    turn, rest = 1 << (bits - _EIGHTH), second & ((1 << (bits - _EIGHTH)) - 1)
    low, high = (turn - rest - 1, turn - rest) if eighth % 2 else (rest, rest + 1)
    pi_low, pi_high = _pi(precision)
    nearest = _series(2 * pi_low * low >> bits, precision)
    farthest = _series((2 * pi_high * high >> bits) + 1, precision)
    # The bound of `_series` on its own error, in its units.
    slack = 4 * precision
    cosine = max(farthest[0] - slack, 0), nearest[0] + slack
    sine = max(nearest[1] - slack, 0), farthest[1] + slack
    return cosine, sine


def _series(angle: int, precision: int) -> tuple[int, int]:
    """Return cosine and sine of an angle from 0 to 1 by Taylor's series, each wrong by less than 4 * precision units.

    A term is the one before it, whose error counts half or less, times angle^2 / (j (j + 1)) <= 1/2. Of its three
    roundings two count half or less. So each term is wrong by less than 3 units, and what follows the first that is 0
    adds less than 6. There are fewer terms than bits.
    """
    square, found = angle * angle >> precision, [0, 0]
    for place, (term, step) in enumerate(((1 << precision, 1), (angle, 2))):
        sign = 1
        while term:
            found[place] += sign * term
            term = (term * square >> precision) // (step * (step + 1))
            sign, step = -sign, step + 2
    return found[0], found[1]


@lru_cache(maxsize=8)
def _pi(precision: int) -> Interval:
    """Bound pi by Machin's formula, 16 atan(1/5) - 4 atan(1/239), with forty bits to spare for its roundings."""
    spare = 40
    found = 16 * _arctangent(5, precision + spare) - 4 * _arctangent(239, precision + spare)
    slack = 1 << (spare - 10)
    return (found - slack) >> spare, ((found + slack) >> spare) + 1


def _arctangent(inverse: int, precision: int) -> int:
    """Return atan(1 / inverse); each of the fewer than `precision` terms is wrong by less than 3 units."""
    power, found, place = (1 << precision) // inverse, 0, 0
    while power:
        found += (-1) ** place * (power // (2 * place + 1))
        power //= inverse * inverse
        place += 1
    return found


def _rounded(radius: Interval, share: Interval, standard_deviation: Fraction, precision: int) -> int | None:
    """Return the whole number nearest to s times radius times share, or None where the bounds have two."""
    ends = (radius[0] * share[0] >> precision, (radius[1] * share[1] >> precision) + 1)
    whole = standard_deviation.denominator << precision
    low, high = ((2 * standard_deviation.numerator * end + whole) // (2 * whole) for end in ends)
    return low if low == high else None
