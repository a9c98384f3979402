"""The law of noisy counts of keys that are published from a threshold on: one draw gives key and count.

Where (one letter each)
    e, d   epsilon and delta of one row        p(n)   probability that a key of n rows is published
    s      `REST_SHARE`                        c      the least count that is published

    p(0) = 0,   p(n) = min(exp(e) p(n-1) + d,   1 - exp(-(1-s) e) (1 - p(n-1) - d),   1)

An index i, from 1 on, has the probability p(i) - p(i-1). A key of n rows is published where i <= n, with the count
n - i + c. So p(n) is the chance that it is published, and with s = 0 that is the optimal rule of any selection
(`keep_chances`): the count comes for nothing. Where the rule's two bounds meet in whole steps, it is the truncated
geometric noise of the source; else its counterpart between two of these. c is the median of i.

A row whose key is not published is counted once more, with the others. That count loses s e, and the fall of the law
is slower by as much, so that both together lose e.

All is in whole 2^-128, and d is lowered by 2^-104, more than all roundings add up to. What is made is looked at
again: `_check` adds up in whole numbers what two neighbouring counts differ by, and refuses what exceeds d.

Source: Desfontaines, Voss, Gipson, Mandayam 2022, theorem 1 and the k-truncated symmetric geometric distribution;
docs/derivations.md, section 4.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Final

from privacy.accounting.amounts import AmountRefused

# --- The optimal rule of a selection of keys.
# Where (one letter each, as in the source)
#     e, d   epsilon and delta of one key's coin          p(n)   probability that a key of n units is published
#
#     p(0) = 0,   p(n) = min(exp(e) p(n-1) + d,   1 - exp(-e) (1 - p(n-1) - d),   1)
#
# No coin that is (e, d)-DP between n and n + 1 units, for every n, publishes a key of any number of units more
# often: each p(n) is the largest number that the two bounds allow, and both rise with p(n-1). Here p(n) is a whole
# number of 2^-128, rounded down at each step from a lower bound of exp(e) in whole 2^-192: rounded down, p(n) keeps
# both bounds, so that the coins are (e, d)-DP exactly. They lie below the real optimum by less than 2^-126 / d of
# it.
#
# Source: Desfontaines, Voss, Gipson, Mandayam 2022, "Differentially private partition selection", theorem 1.


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
    Source: as above.
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


REST_SHARE: Final = Fraction(1, 16)
"""The share of epsilon of the count of all rows whose key is not published."""
_BITS: Final = 192
_SLACK: Final = 2**24
"""What delta is lowered by [2^-128]: at most 2^22 steps, each with fewer than three roundings."""
_NEAR: Final = 179
"""Bits to which a lower bound of exp is near it, relative."""


@dataclass(frozen=True)
class KeyCountLaw:
    """Noise of the counts of keys, and the threshold that goes with it.

    Args:
        chances: p(1), p(2), ... in whole 2^-128, rising up to 2^128; at least one.
        least: c, the least count that is published [rows].
        row_epsilon: e, of one row [dimensionless].
    """

    chances: tuple[int, ...]
    least: int
    row_epsilon: Fraction

    @property
    def rest_inverse_scale(self) -> Fraction:
        """The inverse scale of the noise on the rows whose key is not published [1 / rows]."""
        return self.row_epsilon * REST_SHARE


@lru_cache(maxsize=16)
def key_count_law(epsilon: Fraction, delta: Fraction, *, rows_per_unit: int) -> KeyCountLaw:
    """Return the law under which all rows of one unit together cost epsilon and delta.

    Formula: e = epsilon / k and d = delta / (1 + exp(e) + ... + exp((k - 1) e)) for k rows, which come one by one.

    Args:
        epsilon: > 0 and <= 100 [dimensionless].
        delta: > 0 and < 1 [probability].
        rows_per_unit: k, >= 1.
    Returns:
        KeyCountLaw: checked in whole numbers.
    Raises:
        AmountRefused: out of range, or more than 2^22 rows would be needed to be sure to publish a key.
    """
    if not 0 < epsilon <= 100 or not 0 < delta < 1 or rows_per_unit < 1:
        raise AmountRefused(CHANCES, _shown(epsilon, delta), "above 0 to 100, and above 0, below 1")
    row_epsilon, one = epsilon / rows_per_unit, 1 << _BITS
    rise, fall = exponential_below(row_epsilon), exponential_below(row_epsilon * (1 - REST_SHARE))
    # What k rows multiply delta by, rounded up.
    above, power, total = rise + (rise >> _NEAR) + 1, one, 0
    for _ in range(rows_per_unit):
        total, power = total + power, (power * above >> _BITS) + 1
    whole = delta.numerator * ONE * one // (delta.denominator * total)
    if whole <= _SLACK:
        raise AmountRefused(CHANCES, _shown(epsilon, delta), "a delta that leaves each row more than 2^-104")
    chances = _chances(rise, fall, whole - _SLACK, _shown(epsilon, delta))
    _check(chances, rise, fall, whole)
    return KeyCountLaw(chances[1:], bisect_left(chances, ONE // 2), row_epsilon)


def _chances(rise: int, fall: int, step: int, shown: str) -> tuple[int, ...]:
    """Return p(0), p(1), ...: as `keep_chances`, with a fall of its own."""
    one, chances = 1 << _BITS, [0]
    while chances[-1] < ONE:
        if len(chances) > MOST_UNITS:
            limit = f"so large that at most {MOST_UNITS} rows of a key make sure that it is published"
            raise AmountRefused(CHANCES, shown, limit)
        last = chances[-1]
        missing = max(0, ONE - last - step)
        chances.append(min(last * rise // one + step, ONE - -(-missing * one // fall), ONE))
    return tuple(chances)


def _check(chances: tuple[int, ...], rise: int, fall: int, delta: int) -> None:
    """Add up by how much the law of n rows exceeds exp(e) times that of n + 1, and the other way round, for every n.

    Privacy: with lower bounds of the exponentials, so that what is found is no less than what is true.
    """
    one = 1 << _BITS
    parts = [0, *(after - before for before, after in pairwise(chances)), 0]
    added = removed = 0
    for n, chance in enumerate(chances):
        # Published with a count that both can have: index n of n rows is index n + 1 of n + 1 rows.
        added += max(0, parts[n + 1] * one - rise * parts[n])
        removed += max(0, parts[n] * one - rise * parts[n + 1]) if n else 0
        after = chances[n + 1] if n + 1 < len(chances) else ONE
        hidden = max(0, (ONE - chance) * one - fall * (ONE - after))
        if max(added, removed + hidden) > delta * one or parts[n] < 0:
            raise ArithmeticError("a law of counts of keys exceeds its delta: please report this")


def _shown(epsilon: Fraction, delta: Fraction) -> str:
    return f"{float(epsilon):g}, {float(delta):g}"
