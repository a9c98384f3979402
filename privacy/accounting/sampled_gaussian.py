"""The Rényi curve of the Poisson-sampled Gaussian: a sum over a lattice, at any real order, that nothing cancels in.

Where (one letter each)
    s   noise multiplier        q   sampling probability        h   step of the lattice, a power of two
    L(w) = exp(w/s - 1/(2 s^2)),  u = q (L - 1),  l = log(1 + u),  w standard normal
    A   the mean of (1 + u)^order; the divergence of one step is log A / (order - 1)

    A - 1 = mean of f(u),   f(u) = (1 + u)^order - 1 - order u >= 0,   since u has mean zero
          ~ h / sqrt(2 pi) * sum over k of exp(-w^2/2) f(u) at w = k h

The integrand is analytic in the strip |Im w| < pi s. With h <= min(1/2, 3 s/8) the lattice sum differs from the
integral by less than a relative 10^-15. That, and why one curve bounds both directions, is proven in
docs/derivations.md. Terms below e^-60 of the largest are left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Final

_DIGITS: Final = Context(prec=50)
# A term below exp(-60) of the largest is left out; where (order - 1) l > 40, f is (1 + u)^order to the last digit.
_NEGLIGIBLE: Final = 60.0
_SATURATED: Final = 40.0
_SERIES_BELOW: Final = 0.5
_CLIMBS: Final = 400
# The first few widths of the bell, in which f may have its first peak, are always summed.
_NEAR: Final = 6.0


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
    """

    s: float
    q: float
    order: float
    h: float
    apex: float
    tilt: tuple[float, float]

    @classmethod
    def of(cls, s: Fraction, q: Fraction, order: float) -> _Terms:
        """Compute the constants, those that cancel in 50-digit decimals."""
        # The largest power of two within the bound of the module's docstring.
        step = 2.0 ** math.floor(math.log2(min(0.5, 0.375 * float(s))))
        log_q, log_odds, inverse_square = _constants(s, q)
        with localcontext(_DIGITS):
            alpha = Decimal(order)
            apex = alpha * ((alpha - 1) * inverse_square / 2 + log_q)
            tilt = log_odds + (Decimal("0.5") - alpha) * inverse_square
            # What rounding the tilt to a double leaves is kept beside it.
            rest = float(tilt - Decimal(float(tilt)))
        return cls(float(s), float(q), order, step, float(apex), (float(tilt), rest))

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
        w, alpha = place * self.h, self.order
        weight = math.log(self.h / math.sqrt(2 * math.pi))
        exponent = w / self.s - 1 / (2 * self.s * self.s)
        surplus = exponent + math.log(self.q)
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
    if abs(log_ratio) * max(1.0, more) < _SERIES_BELOW:
        total, power, sign = 0.0, log_ratio, 1.0
        for n in range(2, 30):
            power *= log_ratio / n
            total += (more ** (n - 1) + sign) * power
            sign = -sign
        bracket = more * total
    else:
        bracket = math.expm1(more * log_ratio) + more * math.expm1(-log_ratio)
    return log_ratio + math.log(bracket) if bracket > 0 else -math.inf
