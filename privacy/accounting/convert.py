"""Conversion of Rényi losses to (epsilon, delta), rounded up, and back, rounded down."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import lru_cache
from typing import Final

from privacy.accounting.amounts import ATTO, PICO, AmountRefused, RealNumber, exact, probability
from privacy.accounting.curves import pure_total, renyi, upwards
from privacy.accounting.events import PrivacyEvent, ZeroConcentrated
from privacy.accounting.key_selection import failures

SMALLEST_ORDER: Final = Fraction(1001, 1000)
LARGEST_ORDER: Final = Fraction(10**6)
# Orders are sought between 1 + 10^-3 and 1 + 10^6, eight a decade, then refined around the best.
_DECADES: Final = (-3, 6)
_PER_DECADE: Final = 8
_REFINEMENTS: Final = 40
_ROUNDED_ORDER_LOSS: Final = 1e-6
# What rho_for leaves for roundings: a unit a draw for so many draws, and the margin of their curves.
_ROUNDED_DRAWS: Final = 4096
_ROUNDED_CURVES: Final = 1e-10
_GOLDEN: Final = (math.sqrt(5) - 1) / 2
_REMEMBERED: Final = 256
"""Searches whose results are kept: each is a function of its arguments alone."""


def offset(order: float, delta: RealNumber) -> float:
    """Bound from above what the conversion adds to a Rényi loss; it may be negative.

    offset = log((order - 1) / order) - (log(delta) + log(order)) / (order - 1)

    Args:
        order: > 1, finite [dimensionless].
        delta: 0 <= delta < 1 [probability].
    Returns:
        float: the offset, raised by `curves.upwards`; infinite if delta is zero.
    Raises:
        AmountRefused: delta out of range.
    Source: Canonne, Kamath, Steinke 2020, Proposition 12.
    """
    return _offset(order, float(probability(delta)))


def _offset(order: float, chance: float) -> float:
    """Bound what the conversion adds at a delta that is known to be one."""
    if chance <= 0:
        return math.inf
    # log1p keeps the digits of log((order - 1) / order) where the order is large.
    shrink = math.log1p(-1 / order)
    tail = -(math.log(chance) + math.log(order)) / (order - 1)
    # The margin is relative to the sizes of the terms, since their sum may cancel.
    return upwards(shrink + tail, abs(shrink) + (abs(math.log(chance)) + math.log(order)) / (order - 1))


def epsilon_at(order: float, renyi_loss: float, delta: RealNumber) -> float:
    """Convert a Rényi loss of one order to epsilon at delta.

    epsilon = renyi_loss + log((order - 1) / order) - (log(delta) + log(order)) / (order - 1)

    Args:
        order: > 1, finite [dimensionless].
        renyi_loss: an upper bound of the divergence of that order, >= 0 [dimensionless].
        delta: 0 <= delta < 1 [probability].
    Returns:
        float: epsilon >= 0, rounded up; infinite if delta is zero and the loss is not.
    Raises:
        AmountRefused: delta out of range.
    Privacy: the composed events are (epsilon, delta)-DP.
    Source: Canonne, Kamath, Steinke 2020, Proposition 12.
    """
    return _epsilon_at(order, renyi_loss, float(probability(delta)))


def _epsilon_at(order: float, renyi_loss: float, chance: float) -> float:
    """Convert at a delta that is known to be one."""
    if renyi_loss <= 0:
        return 0.0
    added = _offset(order, chance)
    return max(0.0, upwards(renyi_loss + added, renyi_loss + abs(added))) if added < math.inf else math.inf


def best_epsilon(events: Iterable[PrivacyEvent], delta: RealNumber) -> tuple[float, float]:
    """Find the smallest epsilon at delta that a list of events, fixed in advance, is known to have.

    What selections of keys may fail with is taken off delta first; where delta does not hold it, no epsilon is known.

    Args:
        events: the events; their order does not matter.
        delta: 0 <= delta < 1 [probability].
    Returns:
        tuple: epsilon, rounded up, and the order it was found at: infinity where it is the sum of the pure
        losses (always so if delta is zero). Epsilon is infinite if delta is zero and a loss is not pure.
    Raises:
        AmountRefused: delta out of range.
    Privacy: valid where the list does not depend on what was drawn; an account's claim is its calculus' own.
    """
    counted = Counter(events)
    # The pure sum holds at every delta; it is written as order infinity.
    pure = pure_total(counted.elements())
    chance = probability(delta) - Fraction(failures(counted.elements()), ATTO)
    best = (math.inf if pure is None or chance < 0 else _float_up(pure), math.inf)
    if chance <= 0 or not counted:
        return best
    return min(best, _best_conversion(tuple(counted.items()), float(chance)))


@lru_cache(maxsize=_REMEMBERED)
def _best_conversion(counted: tuple[tuple[PrivacyEvent, int], ...], chance: float) -> tuple[float, float]:
    """Find the least conversion and its order; a plan, its record and its pages ask for the same ones."""

    def at(order: float) -> float:
        # Rényi losses of one order add up.
        loss = math.fsum(count * renyi(event, order) for event, count in counted)
        return _epsilon_at(order, loss, chance)

    order = _least(at)
    return at(order), order


def best_order(epsilon: RealNumber, delta: RealNumber) -> Fraction:
    """Choose the order of an account: the one at which the most Gaussian loss fits under its cap.

    Args:
        epsilon: the cap, > 0 [dimensionless].
        delta: the cap, 0 < delta < 1 [probability].
    Returns:
        Fraction: between 1.001 and 10^6; the order with the smallest power of two as denominator at which at
        most a relative 10^-6 less rho fits than at the best real order.
    Raises:
        AmountRefused: an amount out of range, or nothing fits at any order.
    """
    budget, chance = float(exact(epsilon, what="epsilon")), float(probability(delta))
    if chance <= 0:
        raise AmountRefused("delta", delta, "a probability > 0 and < 1 for a Rényi loss")
    ideal = min(max(Fraction(_roomiest(budget, chance)), SMALLEST_ORDER), LARGEST_ORDER)
    most = _room(float(ideal), budget, chance)
    if most <= 0:
        raise AmountRefused("epsilon", epsilon, f"large enough for some loss to fit at delta {float(delta):g}")
    # The shortest binary fraction near the ideal order that loses at most 10^-6 of the room.
    for power in range(24):
        nearest = Fraction(round(ideal * 2**power), 2**power)
        in_range = SMALLEST_ORDER <= nearest <= LARGEST_ORDER
        if in_range and _room(float(nearest), budget, chance) >= (1 - _ROUNDED_ORDER_LOSS) * most:
            return nearest
    return ideal.limit_denominator(10**6)


def rho_for(epsilon: RealNumber, delta: RealNumber) -> Fraction:
    """Find how much zero-concentrated loss a release of (epsilon, delta) may have.

    It is what fits at `best_order(epsilon, delta)`, less a loss of 4.1 * 10^-9 for the roundings of its parts: split
    over at most 4,000 draws it still fits an account of the same epsilon, delta and order. From epsilon = 0.01 on
    that is at most a relative 10^-5 below the largest rho whose conversion stays within epsilon.

    Args:
        epsilon: > 0 [dimensionless].
        delta: 0 < delta < 1 [probability].
    Returns:
        Fraction: rho, a multiple of 10^-12, rounded down.
    Raises:
        AmountRefused: an amount out of range, or no rho of at least 10^-12 fits.
    Privacy: rho-zCDP is (epsilon, delta)-DP.
    """
    order = float(best_order(epsilon, delta))
    budget = exact(epsilon, what="epsilon")
    room = _room(order, float(budget), float(probability(delta))) * (1 - _ROUNDED_CURVES)
    # Each draw may be rounded up by one unit of Rényi loss, which is 1 / order of rho.
    units = max(0, math.floor(room * PICO - _ROUNDED_DRAWS / order))
    # Floats may have found a unit too much: step down until the conversion itself fits.
    while units > 0 and epsilon_at(order, renyi(ZeroConcentrated(Fraction(units, PICO)), order), delta) > budget:
        units -= 1
    if units < 1:
        raise AmountRefused("epsilon", epsilon, f"large enough at delta {float(delta):g} for a rho of 1e-12")
    return Fraction(units, PICO)


@lru_cache(maxsize=_REMEMBERED)
def _roomiest(epsilon: float, chance: float) -> float:
    """Find the order at which the most rho fits."""
    return _least(lambda order: -_room(order, epsilon, chance))


def _room(order: float, epsilon: float, chance: float) -> float:
    """Compute the rho that fits at one order; negative if none does."""
    return (epsilon - _offset(order, chance)) / order


def _float_up(value: Fraction) -> float:
    """Give the smallest double that is not below a rational."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def _least(value: Callable[[float], float]) -> float:
    """Find the order with the least value: every dip of a grid in log(order - 1), refined by golden section."""
    low, high = _DECADES
    last = (high - low) * _PER_DECADE
    exponents = [low + step / _PER_DECADE for step in range(last + 1)]
    values = [value(_order(exponent)) for exponent in exponents]
    dips = [step for step in range(last + 1) if values[step] <= min(values[max(step - 1, 0) : step + 2])]
    candidates = [exponents[step] for step in dips]
    for step in dips:
        candidates.append(_golden(value, exponents[max(step - 1, 0)], exponents[min(step + 1, last)]))
    return min((_order(exponent) for exponent in candidates), key=value)


def _golden(value: Callable[[float], float], left: float, right: float) -> float:
    """Narrow a dip between two exponents by golden section."""
    for _ in range(_REFINEMENTS):
        lower, upper = right - _GOLDEN * (right - left), left + _GOLDEN * (right - left)
        if value(_order(lower)) <= value(_order(upper)):
            right = upper
        else:
            left = lower
    return (left + right) / 2


def _order(exponent: float) -> float:
    """Give the order 1 + 10^exponent."""
    return 1 + 10**exponent
