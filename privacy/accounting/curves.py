"""Rényi curves of the events: upper bounds of the divergence of every order, and the pure loss where it is finite.

Where (one letter each, in `_laplace_log_moment` only)
    t   inverse scale of the discrete Laplace        d   the shift of the worst neighbour
    a = (order - 1) t,  b = order t,  u = (a + b) / 2,  v = t / 2,  r = exp(-t)
    M   sum over x of P(x)^order Q(x)^(1 - order), with Q = P shifted by d; the divergence is log M / (order - 1)

    M = exp(-v d) (cosh(u d) + tanh(v) / tanh(u) sinh(u d))
      = A exp(a d) + (1 - A) exp(-b d),   1 - A = r / (1 + r) (1 - exp(-2a)) / (1 - exp(-2u))

The derivation, and why the shift concentrated in one cell is the worst neighbour, are in docs/derivations.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Final

from privacy.accounting.bounded_range import bounded_range_divergence
from privacy.accounting.composition import (
    ComposableEvent,
    Composed,
    PoissonSampled,
    SelfComposed,
    composition,
)
from privacy.accounting.event import RegisteredEvent, UnsupportedEvent
from privacy.accounting.events import (
    DiscreteGaussian,
    DiscreteLaplace,
    DiscreteLaplaceVector,
    ExponentialMechanism,
    Gaussian,
    PoissonSampledGaussian,
    PrivacyEvent,
    Pure,
    ZeroConcentrated,
)
from privacy.accounting.key_selection import KeySelection
from privacy.accounting.sampled_gaussian import sampled_gaussian_divergence

# The formulas lose less than 2e-14 of the value (tests compare them with sums and integrals of 50 digits and more).
RELATIVE_MARGIN: Final = 1e-12
ABSOLUTE_MARGIN: Final = 1e-15
# x / tanh(x) = sum of _COTH[j] x^(2j)
_COTH: Final = (1.0, 1 / 3, -1 / 45, 2 / 945, -1 / 4725, 2 / 93555, -1382 / 638512875)
_SERIES_BELOW: Final = 0.25


def upwards(value: float, magnitude: float | None = None) -> float:
    """Raise a computed value above the exact one: by a relative 1e-12 of its terms and an absolute 1e-15.

    Args:
        value: the computed value.
        magnitude: the sum of the absolute values of its terms; the value's own where it has one term.
    Returns:
        float: an upper bound of the exact value.
    """
    size = abs(value) if magnitude is None else magnitude
    return value + RELATIVE_MARGIN * size + ABSOLUTE_MARGIN


def renyi(event: ComposableEvent, order: float) -> float:
    """Bound the Rényi divergence of an event from above, over all its neighbours and both directions.

    Of a selection of keys it is that of its outcome where it does not fail (`key_selection`).

    Args:
        event: what was drawn, or a composition.
        order: > 1, finite [dimensionless]; the double itself is the order.
    Returns:
        float: the exact divergence of the worst neighbour (discrete Laplace, pure, exponential mechanism, Gaussian,
        sampled Gaussian), or its bound by concentration (discrete Gaussian, zCDP: order * rho), raised by `upwards`.
    Raises:
        UnsupportedEvent: an event of no known kind.
        ValueError: an order that is not above 1 and finite.
    Source: discrete Laplace: docs/derivations.md; discrete Gaussian: Canonne, Kamath, Steinke 2020; pure:
        randomized response is the worst case (Steinke 2024, "Sharp RDP & zCDP from Pure DP", Theorem 4);
        sampled Gaussian: Mironov, Talwar, Zhang 2019; all of them: docs/derivations.md.
    """
    if not 1 < order < math.inf:
        raise ValueError(f"order is {order}; allowed: above 1 and finite")
    return upwards(_divergence(event, order))


def _divergence(event: ComposableEvent, order: float) -> float:
    """Compute the divergence as it is, without a margin."""
    match event:
        case DiscreteLaplace():
            t = float(event.inverse_scale)
            return math.fsum(_laplace_log_moment(t, abs(move), order) for move in event.moves) / (order - 1)
        case DiscreteLaplaceVector(inverse_scale, move, times):
            return times * _laplace_log_moment(float(inverse_scale), move, order) / (order - 1)
        case DiscreteGaussian():
            return order * float(Fraction(sum(move * move for move in event.moves)) / (2 * event.sigma_squared))
        case Pure():
            # Randomized response, the worst pure step: discrete Laplace noise against itself moved by one.
            return _laplace_log_moment(float(event.epsilon), 1, order) / (order - 1)
        case ZeroConcentrated():
            return order * float(event.rho)
        case Gaussian():
            return order * float(1 / (2 * event.noise_multiplier**2))
        case ExponentialMechanism():
            return bounded_range_divergence(float(event.epsilon), order)
        case PoissonSampled(sampling_probability, Gaussian(noise_multiplier)):
            return sampled_gaussian_divergence(noise_multiplier, sampling_probability, order)
        case SelfComposed(repeated, count):
            return count * _divergence(repeated, order)
        case Composed(events):
            return math.fsum(_divergence(each, order) for each in events)
        case PoissonSampledGaussian():
            return _divergence(composition(event), order)
        case KeySelection(epsilon, _, groups):
            # Where it does not fail: a pure step for each of the unit's keys.
            return groups * _laplace_log_moment(float(epsilon), 1, order) / (order - 1)
        case RegisteredEvent():
            return event.divergence(order)
    raise UnsupportedEvent(f"no Rényi curve for {type(event).__name__}")


def _laplace_log_moment(t: float, d: int, order: float) -> float:
    """Compute log M of the module's docstring; every factor is free of cancellation."""
    a, b = (order - 1) * t, order * t
    # M is near 1 here, and the closed form would lose its digits.
    if (a + b) / 2 * d < _SERIES_BELOW:
        return math.log1p(_small_excess(a, b, t, d))
    r = math.exp(-t)
    # M = exp(a d) (1 - (1 - A) (1 - exp(-(a + b) d))): every factor is computed by itself.
    lost = r / (1 + r) * (math.expm1(-2 * a) / math.expm1(-(a + b))) * -math.expm1(-(a + b) * d)
    return a * d + math.log1p(-lost)


def _small_excess(a: float, b: float, t: float, d: int) -> float:
    """Compute M - 1 for u d < 1/4, where the closed form would cancel.

    exp(v d) (M - 1) = 2 sinh(a d / 2) sinh(b d / 2) + tanh(v) (h(u) - h(v)),  h(x) = sinh(d x) / tanh(x);
    h is expanded in powers of x^2, and u^2 - v^2 = a b is factored out.
    """
    u_squared, v_squared = ((a + b) / 2) ** 2, (t / 2) ** 2
    difference, power, v_power = 0.0, 1.0, 1.0
    for k in range(1, len(_COTH)):
        difference += power * math.fsum(
            _COTH[k - i] * float(d) ** (2 * i + 1) / math.factorial(2 * i + 1) for i in range(k + 1)
        )
        v_power *= v_squared
        # (u^2k - v^2k) / (u^2 - v^2) for the next k, without a difference.
        power = power * u_squared + v_power
    return math.exp(-t * d / 2) * (
        2 * math.sinh(a * d / 2) * math.sinh(b * d / 2) + math.tanh(t / 2) * a * b * difference
    )


def pure_loss(event: PrivacyEvent) -> Fraction | None:
    """Give the pure epsilon of an event, exactly; of a selection of keys that of its outcome where it does not fail.

    Returns:
        Fraction: epsilon; None where it is infinite (Gaussian noise, sampled or not, zCDP).
    Raises:
        UnsupportedEvent: an event of no known kind.
    """
    match event:
        case DiscreteLaplace():
            return event.inverse_scale * sum(abs(move) for move in event.moves)
        case DiscreteLaplaceVector():
            return event.inverse_scale * event.move * event.times
        case Pure() | ExponentialMechanism():
            return event.epsilon
        case DiscreteGaussian() | ZeroConcentrated() | Gaussian() | PoissonSampledGaussian():
            return None
        case KeySelection():
            return event.epsilon * event.groups
        case RegisteredEvent():
            return event.pure_loss
    raise UnsupportedEvent(f"no pure loss for {type(event).__name__}")


def pure_total(events: Iterable[PrivacyEvent]) -> Fraction | None:
    """Add up the pure losses of a list of events; None where one of them is infinite."""
    losses = [pure_loss(event) for event in events]
    finite = [loss for loss in losses if loss is not None]
    return sum(finite, Fraction(0)) if len(finite) == len(losses) else None
