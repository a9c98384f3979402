"""Calibration of DP-SGD: how much noise a schedule needs for an (epsilon, delta). Reads no data."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final

from privacy.accounting.amounts import PICO, Number, exact
from privacy.accounting.calculus import RenyiCalculus
from privacy.accounting.convert import best_epsilon, epsilon_at
from privacy.accounting.curves import renyi
from privacy.accounting.events import Event, PoissonSampledGaussian
from privacy.learning.errors import CannotTrain
from privacy.learning.plan import Schedule

_DIGITS: Final = 10_000
"""Multipliers are whole multiples of 1/10,000."""
_SMALLEST: Final = 1_000
_LARGEST: Final = 10**7
_ROUNDS: Final = 4
_ORDERS: Final = tuple(1 + 10 ** (step / 8) for step in range(-8, 33))
_ROUNDED: Final = 1e-9 + 4096 / PICO
"""Each draw is rounded up to 10^-12 of its own; 4,096 of them are allowed for."""


def calibrated_multiplier(
    schedule: Schedule,
    *,
    epsilon: Number,
    delta: Number,
    beside: Sequence[Event] = (),
    calculus: RenyiCalculus | None = None,
) -> Fraction:
    """Find the least noise multiplier with which the schedule, its reserve and what is beside it fit.

    Args:
        schedule: sampling, steps, checkpoints and reserve.
        epsilon: what all may cost, > 0 [dimensionless].
        delta: at this probability, 0 < delta < 1.
        beside: the other events of the release, fixed beforehand.
        calculus: where an account fixes the Rényi order, its calculus: then the cost there must fit as well.
    Returns:
        Fraction: a multiple of 1/10,000, rounded up: more noise [dimensionless].
    Raises:
        CannotTrain: no multiplier up to 1,000 will do; with the epsilon at which it would.
        AmountRefused: an amount out of range.
    Privacy: the events together are (epsilon, delta)-DP by their best Rényi order (`best_epsilon`).
    """
    budget = float(exact(epsilon, what="epsilon"))

    def events(units: int) -> list[Event]:
        steps = schedule.steps + schedule.reserve * schedule.checkpoint_every
        return [PoissonSampledGaussian(Fraction(units, _DIGITS), schedule.sampling_probability, steps), *beside]

    def cost_at(order: float) -> Callable[[int], float]:
        return lambda units: epsilon_at(order, _loss(events(units), order), delta)

    if calculus is not None:
        return _at_order(cost_at(float(calculus.order)), budget, calculus)
    least, _ = best_epsilon(events(_LARGEST), delta)
    if least > _room(budget):
        remedy = f"an epsilon of at least {least * 1.01:.3g}, fewer epochs, or a smaller batch"
        raise CannotTrain(
            "epsilon", f"{budget:g}", "an epsilon that some noise multiplier up to 1,000 reaches", remedy
        )
    units = _smallest(lambda units: min(cost_at(order)(units) for order in _ORDERS), budget, _LARGEST)
    for _ in range(_ROUNDS):
        order = best_epsilon(events(units), delta)[1]
        fewer = _smallest(cost_at(order), budget, units)
        if fewer >= units:
            break
        units = fewer
    return Fraction(units, _DIGITS)


def _at_order(cost: Callable[[int], float], budget: float, calculus: RenyiCalculus) -> Fraction:
    if cost(_LARGEST) > _room(budget):
        raise CannotTrain("epsilon", f"{budget:g}", f"an epsilon that fits at the account's order {calculus.order}")
    return Fraction(_smallest(cost, budget, _LARGEST), _DIGITS)


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


def _loss(events: Sequence[Event], order: float) -> float:
    counted = Counter(events)
    return math.fsum(count * renyi(event, order) for event, count in counted.items())
