"""Calibration of DP-SGD: how much noise a schedule needs for an (epsilon, delta). Reads no data."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Final

from privacy.accounting.amounts import PICO, RealNumber, exact
from privacy.accounting.convert import epsilon_at
from privacy.accounting.curves import renyi
from privacy.accounting.events import PoissonSampledGaussian, PrivacyEvent
from privacy.learning.errors import CannotTrain
from privacy.learning.plan import Schedule

_DIGITS: Final = 10_000
"""Multipliers are whole multiples of 1/10,000."""
_SMALLEST: Final = 1_000
_LARGEST: Final = 10**7
_ROUNDS: Final = 3
_NARROW: Final = 2e-3
_GOLDEN: Final = (math.sqrt(5) - 1) / 2
_ORDERS: Final = tuple(1 + 10 ** (step / 8) for step in range(-8, 33))
_ROUNDED: Final = 1e-9 + 4096 / PICO
"""Each draw is rounded up to 10^-12 of its own; 4,096 of them are allowed for."""


def calibrated_multiplier(
    schedule: Schedule, *, epsilon: RealNumber, delta: RealNumber, beside: Sequence[PrivacyEvent] = ()
) -> Fraction:
    """Find the least noise multiplier with which the schedule, its reserve and what is beside it fit.

    Args:
        schedule: sampling, steps, checkpoints and reserve.
        epsilon: what all may cost, > 0 [dimensionless].
        delta: at this probability, 0 < delta < 1.
        beside: the other events of the release, fixed beforehand.
    Returns:
        Fraction: a multiple of 1/10,000, rounded up: more noise [dimensionless].
    Raises:
        CannotTrain: no multiplier up to 1,000 will do; with the epsilon at which it would.
        AmountRefused: an amount out of range.
    Privacy: the events together are (epsilon, delta)-DP by the Rényi order that it was found at.
    """
    budget = float(exact(epsilon, what="epsilon"))

    def cost(units: int, order: float) -> float:
        steps = schedule.steps + schedule.reserve * schedule.checkpoint_every
        training = PoissonSampledGaussian(Fraction(units, _DIGITS), schedule.sampling_probability, steps)
        return epsilon_at(order, _loss([training, *beside], order), delta)

    least = min(cost(_LARGEST, order) for order in _ORDERS)
    if least > _room(budget):
        remedy = f"an epsilon of at least {least * 1.01:.3g}, fewer epochs, or a smaller batch"
        raise CannotTrain(
            "epsilon", f"{budget:g}", "an epsilon that some noise multiplier up to 1,000 reaches", remedy
        )
    low, units = _SMALLEST - 1, _LARGEST
    # Bisect the logarithm of the multiplier: cost falls as it grows, over many powers of ten.
    while units > 1.1 * low:
        middle = math.isqrt(low * units)
        fits = min(cost(middle, order) for order in _ORDERS) <= _room(budget)
        low, units = (low, middle) if fits else (middle, units)
    for _ in range(_ROUNDS):
        # The best order hangs on the multiplier and the other way round: find them in turn. Any order is a valid
        # bound, so that a narrow search costs noise, never privacy.
        order = _best_order(partial(cost, units))
        fewer = _smallest(partial(cost, order=order), budget, units)
        if fewer >= units:
            break
        units = fewer
    return Fraction(units, _DIGITS)


def _best_order(cost: Callable[[float], float]) -> float:
    """Narrow the best of the orders to a thousandth of its distance from 1, by golden section."""
    place = min(range(len(_ORDERS)), key=lambda place: cost(_ORDERS[place]))
    left, right = (math.log(_ORDERS[min(max(place + by, 0), len(_ORDERS) - 1)] - 1) for by in (-1, 1))
    while right - left > _NARROW:
        lower, upper = right - _GOLDEN * (right - left), left + _GOLDEN * (right - left)
        left, right = (left, upper) if cost(1 + math.exp(lower)) <= cost(1 + math.exp(upper)) else (lower, right)
    return 1 + math.exp((left + right) / 2)


def _smallest(cost: Callable[[int], float], budget: float, fits: int) -> int:
    """Search below a multiplier that fits for the least that does."""
    low, high = _SMALLEST - 1, fits
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if cost(middle) <= _room(budget) else (middle, high)
    return high


def _room(budget: float) -> float:
    """Leave what the roundings of the draws may take."""
    return budget - _ROUNDED


def _loss(events: Sequence[PrivacyEvent], order: float) -> float:
    counted = Counter(events)
    return math.fsum(count * renyi(event, order) for event, count in counted.items())
