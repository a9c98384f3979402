"""The same release with less or more noise, and the largest epsilon that still fits what an account has left."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Final

from privacy.accounting.amounts import ATTO, PICO, AmountRefused, RealNumber, probability
from privacy.accounting.calculus import Calculus, PureCalculus
from privacy.accounting.events import (
    DiscreteGaussian,
    DiscreteLaplace,
    DiscreteLaplaceVector,
    ExponentialMechanism,
    Gaussian,
    KeySelection,
    PoissonSampledGaussian,
    PrivacyEvent,
    Pure,
    RegisteredEvent,
    UnsupportedEvent,
    ZeroConcentrated,
    laplace_inverse_scale,
)
from privacy.accounting.renyi import best_epsilon, pure_total, rho_for

# Epsilons of four digits from 10^-6 on, numbered: 9,000 a decade.
_DIGITS: Final = 4
_FIRST: Final = 1000
_SMALLEST: Final = Fraction(1, 10**6)
_DECADES: Final = 12
_A_DECADE: Final = 9 * _FIRST
# Factors are narrowed to a relative 2^-40, of at most 2^40 and at least 2^-40.
_FACTOR_BITS: Final = 40


def scaled(event: PrivacyEvent, factor: Fraction) -> PrivacyEvent:
    """Give the event of the same draw with its loss parameter multiplied.

    inverse_scale * f, sigma_squared / f^2, epsilon * f, rho * f^2, noise_multiplier / f. Pure losses and rho are
    rounded down to whole units of 10^-12, variances and multipliers up, so that the result never costs more.

    Args:
        event: what was planned.
        factor: f, > 0; above 1 is more loss [dimensionless].
    Returns:
        Event: of the same kind, moves, sampling and steps.
    Raises:
        AmountRefused: the factor is not positive, or a parameter leaves its range.
        UnsupportedEvent: an event of no known kind.
    Privacy: costs at most what exact scaling costs, in every calculus.
    """
    if factor <= 0:
        raise AmountRefused("factor", factor, "a Fraction > 0")
    match event:
        case DiscreteLaplace(inverse_scale, moves):
            # The loss is rounded down before it is turned into a scale.
            loss = _down(inverse_scale * sum(map(abs, moves)) * factor)
            return DiscreteLaplace(laplace_inverse_scale(loss, moves), moves)
        case DiscreteLaplaceVector(inverse_scale, move, times):
            loss = _down(inverse_scale * move * times * factor)
            return DiscreteLaplaceVector(laplace_inverse_scale(loss, (move * times,)), move, times)
        case DiscreteGaussian(sigma_squared, moves):
            return DiscreteGaussian(_up(sigma_squared / factor**2), moves)
        case Pure(epsilon):
            return Pure(_down(epsilon * factor))
        case ZeroConcentrated(rho):
            return ZeroConcentrated(_down(rho * factor**2))
        case Gaussian(noise_multiplier):
            return Gaussian(_up(noise_multiplier / factor))
        case ExponentialMechanism(epsilon):
            return ExponentialMechanism(_down(epsilon * factor))
        case PoissonSampledGaussian(noise_multiplier, sampling_probability, steps):
            return PoissonSampledGaussian(_up(noise_multiplier / factor), sampling_probability, steps)
        case KeySelection(epsilon, delta, groups):
            return KeySelection(_down(epsilon * factor), delta, groups)
        case RegisteredEvent():
            return event.scaled(factor)
    raise UnsupportedEvent(f"no scaling for {type(event).__name__}")


def largest_epsilon(
    events: Sequence[PrivacyEvent], delta: RealNumber, calculus: Calculus, remaining: int
) -> Fraction | None:
    """Find the largest epsilon that the same mix of events may have and still fit.

    A list of finite pure losses has its pure sum for epsilon; one of Gaussian noise and zCDP budgets the epsilon
    whose `rho_for` is its rho, as a spec's is; any other list its `best_epsilon` at delta.

    Args:
        events: the release's events, in any order; at least one.
        delta: the release's delta, 0 <= delta < 1 [probability].
        calculus: the account's.
        remaining: what the account has left [10^-12].
    Returns:
        Fraction: epsilon, rounded down to four significant digits; None if not even 10^-6 fits, or no epsilon is
        finite at this delta.
    Raises:
        AmountRefused: delta out of range, or no events.
        UnsupportedEvent: an event that has no finite loss in the calculus at any scale.
    Privacy: reads no data; the answer depends on the plan and on what the account has left.
    """
    if not events:
        raise AmountRefused("events", 0, "at least one event")
    counted = Counter(events)

    def fits(factor: Fraction | None) -> bool:
        return factor is not None and _cost(counted, factor, calculus) <= remaining

    pure, rho = pure_total(events), _rho_total(events)
    if pure is not None:
        return _largest_that_fits(lambda epsilon: fits(epsilon / pure))
    if probability(delta) <= 0:
        return None
    if rho is not None:
        return _largest_that_fits(lambda epsilon: fits(_rho_factor(epsilon, delta, rho)))
    return _largest_by_factor(counted, delta, fits)


def further_epsilons(calculus: Calculus, delta: int, remaining: int) -> dict[str, Fraction | None]:
    """Find the largest epsilon of one more release, by its noise: Laplace, or Gaussian at the account's delta.

    Args:
        calculus: the account's; one of pure losses holds no Gaussian noise.
        delta: the account's [10^-18].
        remaining: what the account has left [10^-12].
    Returns:
        dict: "laplace" and, where the account holds it, "gaussian"; None where nothing fits.
    Privacy: reads no data.
    """
    found = {"laplace": _one_more(Pure(Fraction(1)), 0, calculus, remaining)}
    if not isinstance(calculus, PureCalculus):
        found["gaussian"] = _one_more(ZeroConcentrated(Fraction(1, 100)), delta, calculus, remaining)
    return found


@lru_cache(maxsize=64)
def _one_more(event: PrivacyEvent, delta: int, calculus: Calculus, remaining: int) -> Fraction | None:
    """Search once for the several pages of a version that state it; delta in 10^-18."""
    return largest_epsilon((event,), Fraction(delta, ATTO), calculus, remaining)


def _cost(counted: Counter[PrivacyEvent], factor: Fraction, calculus: Calculus) -> float:
    """Add up the costs of the scaled events; infinite where one of them does not exist."""
    try:
        return sum(count * calculus.cost([scaled(event, factor)]) for event, count in counted.items())
    except AmountRefused:
        return math.inf


def _rho_total(events: Sequence[PrivacyEvent]) -> Fraction | None:
    """Add up the rho of a list of Gaussian noise and zCDP budgets; None for any other list."""
    total = Fraction(0)
    for event in events:
        match event:
            case DiscreteGaussian(sigma_squared, moves):
                total += Fraction(sum(move * move for move in moves)) / (2 * sigma_squared)
            case Gaussian(noise_multiplier):
                total += 1 / (2 * noise_multiplier**2)
            case ZeroConcentrated(rho):
                total += rho
            case _:
                return None
    return total


def _rho_factor(epsilon: Fraction, delta: RealNumber, rho: Fraction) -> Fraction | None:
    """Give a factor, rounded up, that brings rho to what a release of (epsilon, delta) may have; None if nothing."""
    try:
        wanted = rho_for(epsilon, delta) / rho
    except AmountRefused:
        return None
    shift = 2**60
    # Rounded up: the cost that is compared with what is left is not too small.
    return Fraction(math.isqrt(math.ceil(wanted * shift * shift)) + 1, shift)


def _largest_that_fits(fits: Callable[[Fraction], bool]) -> Fraction | None:
    """Search the epsilons of four digits for the largest that fits."""
    low, high = -1, _DECADES * _A_DECADE
    # The cost rises with epsilon: bisect over the numbered epsilons.
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(_four_digits(middle)) else (low, middle)
    return _four_digits(low) if low >= 0 else None


def _four_digits(place: int) -> Fraction:
    """Give the epsilon of that number: 10^-6, 1.001 * 10^-6, and so on."""
    decade, digits = divmod(place, _A_DECADE)
    return _SMALLEST * _ten(decade + 1 - _DIGITS) * (digits + _FIRST)


def _ten(power: int) -> Fraction:
    size: int = 10 ** abs(power)
    return Fraction(size) if power >= 0 else Fraction(1, size)


def _largest_by_factor(
    counted: Counter[PrivacyEvent], delta: RealNumber, fits: Callable[[Fraction], bool]
) -> Fraction | None:
    """Search the factors for the largest that fits, and convert what it leaves to four digits."""
    low, high = _bracket(fits)
    if low is None:
        return None
    for _ in range(_FACTOR_BITS):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    epsilon, _ = best_epsilon([scaled(event, low) for event in counted.elements()], delta)
    if not float(_SMALLEST) <= epsilon < math.inf:
        return None
    digit = _ten(math.floor(math.log10(epsilon)) - _DIGITS + 1)
    return digit * math.floor(Fraction(epsilon) / digit)


def _bracket(fits: Callable[[Fraction], bool]) -> tuple[Fraction | None, Fraction]:
    """Find a power of two that fits and whose double does not; None if none fits."""
    powers = range(-_FACTOR_BITS, _FACTOR_BITS + 1)
    low = next((power for power in range(0, powers[0] - 1, -1) if fits(Fraction(2) ** power)), None)
    if low is None:
        return None, Fraction(1)
    while low < powers[-1] and fits(Fraction(2) ** (low + 1)):
        low += 1
    return Fraction(2) ** low, Fraction(2) ** (low + 1)


def _down(loss: Fraction) -> Fraction:
    """Round a loss down to whole units of 10^-12."""
    return Fraction(math.floor(loss * PICO), PICO)


def _up(width: Fraction) -> Fraction:
    """Round a width of noise up to whole units of 10^-12."""
    return Fraction(math.ceil(width * PICO), PICO)
