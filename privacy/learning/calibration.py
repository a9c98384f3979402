"""Calibration of DP-SGD: how much noise a schedule needs for an (epsilon, delta). Reads no data."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

from privacy.accounting.amounts import PICO, RealNumber, exact, probability
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
_GROWS: Final = 1 - 1e-9
"""Of a loss, what a larger order's is at least, computed."""
_POSITIVE: Final = 1e-300
"""A loss of no order is less."""
_ROUNDED: Final = 1e-9 + 4096 / PICO
"""Each draw is rounded up to 10^-12 of its own; 4,096 of them are allowed for."""
_REMEMBERED: Final = 64
"""Calibrations whose results are kept: each is a function of its arguments alone."""


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
    return _calibrated(schedule, float(exact(epsilon, what="epsilon")), probability(delta), tuple(beside))


@lru_cache(maxsize=_REMEMBERED)
def _calibrated(schedule: Schedule, budget: float, delta: Fraction, beside: tuple[PrivacyEvent, ...]) -> Fraction:
    """Find it; a plan is made again when its charge is checked, and by everyone who verifies."""

    def costs(units: int) -> _Costs:
        steps = schedule.steps + schedule.reserve * schedule.checkpoint_every
        training = PoissonSampledGaussian(Fraction(units, _DIGITS), schedule.sampling_probability, steps)
        return _Costs((training, *beside), delta)

    # The largest multiplier costs least: where it does not fit, none does.
    if not costs(_LARGEST).fit(_room(budget)):
        _, least = costs(_LARGEST).best()
        remedy = f"an epsilon of at least {least * 1.01:.3g}, fewer epochs, or a smaller batch"
        raise CannotTrain(
            "epsilon", f"{budget:g}", "an epsilon that some noise multiplier up to 1,000 reaches", remedy
        )
    low, units = _SMALLEST - 1, _LARGEST
    # Bisect the logarithm of the multiplier: cost falls as it grows, over many powers of ten.
    while units > 1.1 * low:
        middle = math.isqrt(low * units)
        low, units = (low, middle) if costs(middle).fit(_room(budget)) else (middle, units)
    for _ in range(_ROUNDS):
        # The best order hangs on the multiplier and the other way round: find them in turn. Any order is a valid
        # bound, so that a narrow search costs noise, never privacy.
        order = _best_order(costs(units))
        fewer = _smallest(costs, order, budget, units)
        if fewer >= units:
            break
        units = fewer
    return Fraction(units, _DIGITS)


@dataclass(frozen=True)
class _Costs:
    """What events cost at a delta by each order.

    A Rényi loss grows with its order. So one order's loss bounds from below what all larger ones cost, and those that
    this rules out are never summed: the sum is what takes time.
    """

    events: tuple[PrivacyEvent, ...]
    delta: RealNumber

    def at(self, order: float) -> float:
        """Cost by an order."""
        return epsilon_at(order, _loss(self.events, order), self.delta)

    def fit(self, room: float) -> bool:
        """Say whether they cost at most that by one of the orders."""
        return any(cost <= room for _, cost in self._below(room))

    def best(self) -> tuple[int, float]:
        """Return the place of the best order, and what they cost by it."""
        ceiling = min(self.at(order) for order in _ORDERS[::8])
        return min(self._below(ceiling), key=lambda found: found[1])

    def _below(self, ceiling: float) -> Iterator[tuple[int, float]]:
        """Yield places and costs of the orders that are not known to cost more than a ceiling, or than one before."""
        least = _POSITIVE
        for place, order in enumerate(_ORDERS):
            # The loss by a smaller order bounds this one's from below: an order that cannot win is not summed.
            if epsilon_at(order, least, self.delta) <= ceiling:
                loss = _loss(self.events, order)
                cost, least = epsilon_at(order, loss, self.delta), loss * _GROWS
                ceiling = min(ceiling, cost)
                yield place, cost


def _best_order(costs: _Costs) -> float:
    """Narrow the best of the orders to a thousandth of its distance from 1, by golden section."""
    place, _ = costs.best()
    # The optimum lies between the best order's neighbours; the search is over the logarithm of order - 1.
    left, right = (math.log(_ORDERS[min(max(place + by, 0), len(_ORDERS) - 1)] - 1) for by in (-1, 1))
    while right - left > _NARROW:
        lower, upper = right - _GOLDEN * (right - left), left + _GOLDEN * (right - left)
        left, right = (
            (left, upper) if costs.at(1 + math.exp(lower)) <= costs.at(1 + math.exp(upper)) else (lower, right)
        )
    return 1 + math.exp((left + right) / 2)


def _smallest(costs: Callable[[int], _Costs], order: float, budget: float, fits: int) -> int:
    """Search below a multiplier that fits for the least that does, by one order."""
    # Only multipliers that fit become `high`; where none below fits, the one that was known to fit comes back.
    low, high = _SMALLEST - 1, fits
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if costs(middle).at(order) <= _room(budget) else (middle, high)
    return high


def _room(budget: float) -> float:
    """Leave what the roundings of the draws may take."""
    return budget - _ROUNDED


def _loss(events: Sequence[PrivacyEvent], order: float) -> float:
    counted = Counter(events)
    return math.fsum(count * renyi(event, order) for event, count in counted.items())
