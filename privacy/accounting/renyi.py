"""Rényi curves of the events, conversion to (epsilon, delta), rounded up, and back to budgets, rounded down."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Final

from privacy.accounting.amounts import ATTO, PICO, AmountRefused, RealNumber, exact, probability
from privacy.accounting.events import (
    ComposableEvent,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    DiscreteLaplaceVector,
    ExponentialMechanism,
    Gaussian,
    KeySelection,
    PoissonSampled,
    PoissonSampledGaussian,
    PrivacyEvent,
    Pure,
    RegisteredEvent,
    SelfComposed,
    UnsupportedEvent,
    ZeroConcentrated,
    composition,
    failure_of,
    failures,
)

# --- The exact Rényi curve of a private choice.
# Where (one letter each)
#     e   the range epsilon        a = (order - 1) e        b = order e = a + e
#     k(x) = log(sinh(x/2) / (x/2))
#
#     divergence = (order k(b) - (order - 1) k(a) - k(e)) / (order - 1)
#                = (k(b) - k(a)) + (k(b) - k(e)) / (order - 1)
#
# It is order e^2/8 for small e, below that always, and tends to e with the order. The derivation is in
# docs/derivations.md.


# Above it exp(-x) is nothing beside x, and sinh(x/2) may overflow.
_LARGE: Final = 60.0
_COTH_SERIES_BELOW: Final = 0.3
_SINH_SERIES_BELOW: Final = 1.0
# x coth(x) - 1 = sum of _COTH[j] x^(2j + 2)
_COTH: Final = (1 / 3, -1 / 45, 2 / 945, -1 / 4725, 2 / 93555, -1382 / 638512875, 4 / 18243225, -3617 / 162820783125)


def bounded_range_divergence(epsilon: float, order: float) -> float:
    """Compute the largest Rényi divergence of all pairs of epsilon-bounded range, without a margin.

    Args:
        epsilon: e, > 0 [dimensionless].
        order: > 1, finite [dimensionless].
    Returns:
        float: the divergence; the larger of both directions, which are the same.
    Source: bounded range: Dong, Durfee, Rogers 2020; the curve: docs/derivations.md.
    """
    other = (order - 1) * epsilon
    # The second form of the divergence: both differences are positive, so nothing cancels.
    return _growth(other, epsilon) + _growth(epsilon, other) / (order - 1)


def _growth(x: float, step: float) -> float:
    """Compute k(x + step) - k(x), from terms of one sign where they would cancel.

    (x + step) (exp(k(x + step) - k(x)) - 1) = 2 x sinh(step/4)^2 + (x coth(x/2) - 2) sinh(step/2)
                                                + 2 sinh(step/2) - step
    """
    if step > _LARGE:
        # log sinh(x/2) = x/2 - log 2 + log(1 - exp(-x)): no exponential that grows.
        return step / 2 - math.log1p(step / x) + math.log(math.expm1(-x - step) / math.expm1(-x))
    bend = 2 * x * math.sinh(step / 4) ** 2
    # x coth(x/2) - 2 and 2 sinh(step/2) - step are twice the excesses below.
    excess = bend + 2 * _coth_excess(x / 2) * math.sinh(step / 2) + 2 * _sinh_excess(step / 2)
    return math.log1p(excess / (x + step))


def _coth_excess(x: float) -> float:
    """Compute x coth(x) - 1."""
    if x > _COTH_SERIES_BELOW:
        return x / math.tanh(x) - 1
    # x coth(x) - 1 is about x²/3: near 0 the difference would cancel, the series does not.
    square = x * x
    return square * math.fsum(term * square**j for j, term in enumerate(_COTH))


def _sinh_excess(x: float) -> float:
    if x > _SINH_SERIES_BELOW:
        return math.sinh(x) - x
    # Near 0 sinh(x) - x would cancel; its series has terms of one sign.
    return math.fsum(x ** (2 * j + 1) / math.factorial(2 * j + 1) for j in range(1, 11))


# --- The curve of the Poisson-sampled Gaussian: a sum over a lattice, at any real order, that nothing cancels in.
# Where (one letter each)
#     s   noise multiplier        q   sampling probability        h   step of the lattice, a power of two
#     L(w) = exp(w/s - 1/(2 s^2)),  u = q (L - 1),  l = log(1 + u),  w standard normal
#     A   the mean of (1 + u)^order; the divergence of one step is log A / (order - 1)
#
#     A - 1 = mean of f(u),   f(u) = (1 + u)^order - 1 - order u >= 0,   since u has mean zero
#           ~ h / sqrt(2 pi) * sum over k of exp(-w^2/2) f(u) at w = k h
#
# The integrand is analytic in the strip |Im w| < pi s. With h <= min(1/2, 3 s/8) the lattice sum differs from the
# integral by less than a relative 10^-15. That, and why one curve bounds both directions, is proven in
# docs/derivations.md. Terms below e^-60 of the largest are left out.


_DIGITS: Final = Context(prec=50)
# A term below exp(-60) of the largest is left out; where (order - 1) l > 40, f is (1 + u)^order to the last digit.
_NEGLIGIBLE: Final = 60.0
_SATURATED: Final = 40.0
_POWER_SERIES_BELOW: Final = 0.5
_NO_DIGIT: Final = 2.0**-55
_CLIMBS: Final = 400
# Divergences that are kept: a plan is made again when it is charged, recorded and verified.
_DIVERGENCES: Final = 4096
# The first few widths of the bell, in which f may have its first peak, are always summed.
_NEAR: Final = 6.0


@lru_cache(maxsize=_DIVERGENCES)
def sampled_gaussian_divergence(noise_multiplier: Fraction, sampling_probability: Fraction, order: float) -> float:
    """Compute the Rényi divergence of one step, as it is, without a margin.

    Args:
        noise_multiplier: s, 0.1 <= s <= 10^9 [dimensionless].
        sampling_probability: q, 10^-12 <= q <= 1 [probability].
        order: > 1, finite [dimensionless].
    Returns:
        float: the divergence of (1 - q) N(0, s^2) + q N(1, s^2) from N(0, s^2).
    Source: Mironov, Talwar, Zhang 2019, section 3; the lattice sum and its error: docs/derivations.md.
    """
    unsampled = order * float(1 / (2 * noise_multiplier**2))
    if sampling_probability == 1:
        return unsampled
    terms = _Terms.of(noise_multiplier, sampling_probability, order).around_the_peaks()
    largest = max(terms)
    # The sum relative to its largest term: no exponential overflows.
    log_excess = largest + math.log(math.fsum(math.exp(term - largest) for term in terms))
    # log(1 + e^x) is x + e^-x to the last digit where x is large.
    log_moment = math.log1p(math.exp(log_excess)) if log_excess < _SATURATED else log_excess + math.exp(-log_excess)
    # Sampling never costs: the divergence is jointly quasi-convex.
    return min(unsampled, log_moment / (order - 1))


@dataclass(frozen=True)
class _Terms:
    """The lattice's terms as logarithms, the factor h / sqrt(2 pi) included.

    Far out, where -w^2/2 and order * l are large and cancel, a term is taken relative to the unsampled peak at
    w = order/s + v:  log term = apex - v^2/2 + order log1p(exp(tilt - v/s)).

    Args:
        s: noise multiplier.
        q: sampling probability.
        order: order.
        h: step.
        apex: order ((order - 1) / (2 s^2) + log q), rounded once.
        tilt: log((1 - q) / q) + (1/2 - order) / s^2, and what its rounding left.
        weight: log(h / sqrt(2 pi)).
        shift: 1 / (2 s^2).
        log_q: log q.
    """

    s: float
    q: float
    order: float
    h: float
    apex: float
    tilt: tuple[float, float]
    weight: float
    shift: float
    log_q: float

    @classmethod
    def of(cls, s: Fraction, q: Fraction, order: float) -> _Terms:
        """Compute the constants, those that cancel in 50-digit decimals."""
        # The largest power of two within the bound above.
        step = 2.0 ** math.floor(math.log2(min(0.5, 0.375 * float(s))))
        log_q, log_odds, inverse_square = _constants(s, q)
        with localcontext(_DIGITS):
            alpha = Decimal(order)
            apex = alpha * ((alpha - 1) * inverse_square / 2 + log_q)
            tilt = log_odds + (Decimal("0.5") - alpha) * inverse_square
            # What rounding the tilt to a double leaves is kept beside it.
            rest = float(tilt - Decimal(float(tilt)))
        near, chance, weight = float(s), float(q), math.log(step / math.sqrt(2 * math.pi))
        shift = 1 / (2 * near * near)
        return cls(near, chance, order, step, float(apex), (float(tilt), rest), weight, shift, math.log(chance))

    def around_the_peaks(self) -> list[float]:
        """List the terms that count: from the bell's middle to the first peak, and around the far peak.

        Beyond `_NEAR` the integrand has at most two peaks: the first is climbed to from below, the last from above,
        with steps that pass no peak (its logarithm curves down by hardly more than one). Around each, terms are
        taken while they grow or count.
        """
        near = math.ceil(max(2 / self.s, _NEAR) / self.h)
        far = math.ceil((max(self.order, 2.0) / self.s + 2) / self.h)
        known = {place: self.log_term(place) for place in range(near + 1)}
        largest = max(known.values())
        last, first = self._climbed(far, up=False), self._climbed(near, up=True)
        for start, direction in ((last, -1), (last, 1), (first, -1), (first, 1), (0, -1)):
            largest = self._walk(known, start, direction, largest)
        return [term for term in known.values() if term > largest - _NEGLIGIBLE]

    def _walk(self, terms: dict[int, float], place: int, direction: int, largest: float) -> float:
        """Take terms in one direction until one has fallen and does not count; return the largest so far."""
        before, fallen = -math.inf, False
        while True:
            term = terms[place] = terms[place] if place in terms else self.log_term(place)
            largest, fallen = max(largest, term), fallen or term <= before
            if fallen and term <= largest - _NEGLIGIBLE:
                return largest
            before, place = term, place + direction

    def _climbed(self, place: int, *, up: bool) -> int:
        """Climb from a place upwards, or from a place beyond the last peak downwards, to about a peak."""
        for _ in range(_CLIMBS):
            slope = (self.log_term(place + 1) - self.log_term(place)) / self.h
            if (slope <= 0) if up else (slope >= 0 or place <= 0):
                break
            # The logarithm's curvature is hardly above 1 in size, so that slope / 1.25 passes no peak.
            stride = max(1, int(abs(slope) / self.h / 1.25))
            place += stride if up else -stride
        return place

    def log_term(self, place: int) -> float:
        """Compute the logarithm of one term of the sum."""
        w, alpha, weight = place * self.h, self.order, self.weight
        exponent = w / self.s - self.shift
        surplus = exponent + self.log_q
        # log(1 - q + q L), from whichever part is the larger
        log_ratio = (
            math.log1p(self.q * math.expm1(exponent))
            if surplus < 0
            else surplus + math.log1p((1 - self.q) * math.exp(-surplus))
        )
        if (alpha - 1) * log_ratio <= _SATURATED:
            return weight - w * w / 2 + _log_excess(log_ratio, alpha)
        # f = (1 + u)^order (1 - order (1 + u)^(1 - order)), to the last digit.
        rest = math.log1p(-alpha * math.exp(-(alpha - 1) * log_ratio))
        if surplus < 0:
            return weight - w * w / 2 + alpha * log_ratio + rest
        # Far out: relative to the unsampled peak, as the class says.
        v = w - alpha / self.s
        absent = math.exp(self.tilt[0] - v / self.s) * (1 + self.tilt[1])
        return weight + self.apex - v * v / 2 + alpha * math.log1p(absent) + rest


@lru_cache(maxsize=64)
def _constants(s: Fraction, q: Fraction) -> tuple[Decimal, Decimal, Decimal]:
    """Compute log q, log((1 - q) / q) and 1/s^2 with 50 digits."""
    with localcontext(_DIGITS):
        chance = Decimal(q.numerator) / Decimal(q.denominator)
        absent = Decimal((1 - q).numerator) / Decimal((1 - q).denominator)
        inverse_square = 1 / s**2
        return (
            chance.ln(),
            (absent / chance).ln(),
            Decimal(inverse_square.numerator) / Decimal(inverse_square.denominator),
        )


def _log_excess(log_ratio: float, order: float) -> float:
    """Compute log f: f = exp(l) (expm1((order - 1) l) + (order - 1) expm1(-l)), by a series where that cancels."""
    more = order - 1
    # Near l = 0 the two parts would cancel: their series are added term by term.
    if abs(log_ratio) * max(1.0, more) < _POWER_SERIES_BELOW:
        total, power, sign = 0.0, log_ratio, 1.0
        for n in range(2, 30):
            power *= log_ratio / n
            grown = more ** (n - 1)
            total += (grown + sign) * power
            # All later terms are smaller: below a quarter of the last digit, none of them changes the sum.
            if (grown + 1.0) * abs(power) <= total * _NO_DIGIT:
                break
            sign = -sign
        bracket = more * total
    else:
        bracket = math.expm1(more * log_ratio) + more * math.expm1(-log_ratio)
    return log_ratio + math.log(bracket) if bracket > 0 else -math.inf


# --- Rényi curves of the events.
# Where (one letter each, in `_laplace_log_moment` only)
#     t   inverse scale of the discrete Laplace        d   the shift of the worst neighbour
#     a = (order - 1) t,  b = order t,  u = (a + b) / 2,  v = t / 2,  r = exp(-t)
#     M   sum over x of P(x)^order Q(x)^(1 - order), with Q = P shifted by d; the divergence is log M / (order - 1)
#
#     M = exp(-v d) (cosh(u d) + tanh(v) / tanh(u) sinh(u d))
#       = A exp(a d) + (1 - A) exp(-b d),   1 - A = r / (1 + r) (1 - exp(-2a)) / (1 - exp(-2u))
#
# The derivation, and why the shift concentrated in one cell is the worst neighbour, are in docs/derivations.md.


# The formulas lose less than 2e-14 of the value (tests compare them with sums and integrals of 50 digits and more).
RELATIVE_MARGIN: Final = 1e-12
ABSOLUTE_MARGIN: Final = 1e-15
# x / tanh(x) = sum of _COTH_SERIES[j] x^(2j)
_COTH_SERIES: Final = (1.0, 1 / 3, -1 / 45, 2 / 945, -1 / 4725, 2 / 93555, -1382 / 638512875)
_TANH_SERIES_BELOW: Final = 0.25


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

    Of a selection of keys it is that of its outcome where it does not fail (`KeySelection`).

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
    """Compute log M, as above; every factor is free of cancellation."""
    a, b = (order - 1) * t, order * t
    # M is near 1 here, and the closed form would lose its digits.
    if (a + b) / 2 * d < _TANH_SERIES_BELOW:
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
    for k in range(1, len(_COTH_SERIES)):
        difference += power * math.fsum(
            _COTH_SERIES[k - i] * float(d) ** (2 * i + 1) / math.factorial(2 * i + 1) for i in range(k + 1)
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
        float: the offset, raised by `upwards`; infinite if delta is zero.
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


# --- A budget for draws that are chosen on the way.


Budget = ZeroConcentrated | Pure


def budget_of(planned: Iterable[PrivacyEvent]) -> Budget | None:
    """Return the budget among planned events, if there is one.

    Raises:
        UnsupportedEvent: more than one.
    """
    budgets = [event for event in planned if isinstance(event, ZeroConcentrated | Pure)]
    if len(budgets) > 1:
        raise UnsupportedEvent(f"{len(budgets)} budgets in one plan; allowed: one")
    return budgets[0] if budgets else None


def limit(budget: Budget) -> Fraction:
    """Return rho or epsilon."""
    return budget.rho if isinstance(budget, ZeroConcentrated) else budget.epsilon


def share(budget: Budget, event: PrivacyEvent) -> Fraction:
    """Return what an event takes from a budget, exactly.

    Raises:
        UnsupportedEvent: its loss is infinite in the budget's terms, or not known as one number.
    Source: pure to zCDP: Bun, Steinke 2016, proposition 1.4; bounded range to zCDP: Cesar, Rogers 2021, lemma 8.
    """
    return concentrated_loss(event) if isinstance(budget, ZeroConcentrated) else _pure(event)


def concentrated_loss(event: PrivacyEvent) -> Fraction:
    """Return the rho of an event.

    Raises:
        UnsupportedEvent: a sampled Gaussian, whose curve no single rho describes well.
    """
    match event:
        case DiscreteGaussian():
            return Fraction(sum(move * move for move in event.moves)) / (2 * event.sigma_squared)
        case Gaussian():
            return 1 / (2 * event.noise_multiplier**2)
        case ZeroConcentrated():
            return event.rho
        case ExponentialMechanism():
            return event.epsilon**2 / 8
        case DiscreteLaplace() | Pure():
            return _pure(event) ** 2 / 2
    raise UnsupportedEvent(f"{event.kind} takes no share of a zCDP budget; allowed: noise with one rho")


def _pure(event: PrivacyEvent) -> Fraction:
    # What may fail is planned by itself: a budget is a loss, and has no part of delta.
    loss = None if failure_of(event) else pure_loss(event)
    if loss is None:
        raise UnsupportedEvent(f"{event.kind} takes no share of a pure budget; allowed: noise of finite pure loss")
    return loss


def unplanned(planned: Sequence[PrivacyEvent], drawn: Iterable[PrivacyEvent]) -> list[PrivacyEvent]:
    """Return the drawn events that were not planned one by one, in order: those that take from the budget."""
    # A planned event pays for one draw of its kind; whatever is drawn beyond takes from the budget.
    left = Counter(planned)
    rest = []
    for event in drawn:
        if left[event] > 0 and not isinstance(event, ZeroConcentrated | Pure):
            left[event] -= 1
        else:
            rest.append(event)
    return rest
