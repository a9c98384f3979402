"""The optimal rule of a selection of keys: with which probability a key that n units have is published.

Where (one letter each, as in the source)
    e, d   epsilon and delta of one key's coin          p(n)   probability that a key of n units is published

    p(0) = 0,   p(n) = min(exp(e) p(n-1) + d,   1 - exp(-e) (1 - p(n-1) - d),   1)

No coin that is (e, d)-DP between n and n + 1 units, for every n, publishes a key of any number of units more often:
each p(n) is the largest number that the two bounds allow, and both rise with p(n-1). Here p(n) is a whole number of
2^-128, rounded down at each step from a lower bound of exp(e) in whole 2^-192: rounded down, p(n) keeps both bounds,
so that the coins are (e, d)-DP exactly. They lie below the real optimum by less than 2^-126 / d of it.

Source: Desfontaines, Voss, Gipson, Mandayam 2022, "Differentially private partition selection", theorem 1.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Final

from privacy.accounting.amounts import AmountRefused

ONE: Final = 2**128
MOST_UNITS: Final = 2**22
CHANCES: Final = "epsilon, delta"
"""What is refused where chances cannot be computed."""
_EXPONENT_BITS: Final = 192


@lru_cache(maxsize=16)
def keep_chances(epsilon: Fraction, delta: Fraction) -> tuple[int, ...]:
    """Return the probabilities p(0), p(1), ... in whole 2^-128, up to the first that is 1.

    Args:
        epsilon: e, >= 0 and <= 100 [dimensionless].
        delta: d, > 0 and < 1 [probability].
    Returns:
        tuple: whole numbers, rising from 0 to 2^128; a key of more units than it has places is always published.
    Raises:
        AmountRefused: out of range, or more than 2^22 units would be needed to be sure to publish a key.
    Source: the module's docstring.
    """
    if not 0 <= epsilon <= 100 or not 0 < delta < 1:
        raise AmountRefused(CHANCES, f"{float(epsilon):g}, {float(delta):g}", "0 to 100, and above 0, below 1")
    limit = f"so large that at most {MOST_UNITS} units of a key make sure that it is published"
    if _far_below_one(float(epsilon), float(delta)):
        raise AmountRefused(CHANCES, f"{float(epsilon):g}, {float(delta):g}", limit)
    growth, one = exponential_below(epsilon), 2**_EXPONENT_BITS
    step = delta.numerator * ONE // delta.denominator
    chances = [0]
    while chances[-1] < ONE:
        if len(chances) > MOST_UNITS:
            raise AmountRefused(CHANCES, f"{float(epsilon):g}, {float(delta):g}", limit)
        last = chances[-1]
        # What is missing to 1 is divided by a lower bound of exp(e) and rounded up, so that p(n) is rounded down.
        missing = max(0, ONE - last - step)
        chances.append(min(last * growth // one + step, ONE - -(-missing * one // growth), ONE))
    return tuple(chances)


def _far_below_one(epsilon: float, delta: float) -> bool:
    """Say that chances stay below 1/2 to the last unit, by the first bound alone.

    That is p(n) <= d (1 + exp(e) + ... + exp((n - 1) e)); 1/2 leaves room for what doubles round.
    """
    terms = math.expm1(min(epsilon * MOST_UNITS, 700)) / math.expm1(epsilon) if epsilon else MOST_UNITS
    return delta * terms < 1 / 2


def exponential_below(exponent: Fraction) -> int:
    """Return a lower bound of exp(exponent) in whole 2^-192, by its series; within 2^-180 of it, relative.

    Args:
        exponent: from 0 to 100.
    """
    # More bits while it is squared, so that halving the argument costs none of those that are kept.
    halvings, bits = 12, _EXPONENT_BITS + 192
    one = 1 << bits
    x = exponent.numerator * one // (exponent.denominator << halvings)
    total, term, place = one, one, 1
    # All terms are positive and each is rounded down, so that the sum is too.
    while term:
        term = (term * x >> bits) // place
        total, place = total + term, place + 1
    for _ in range(halvings):
        total = total * total >> bits
    return int(total >> bits - _EXPONENT_BITS)
