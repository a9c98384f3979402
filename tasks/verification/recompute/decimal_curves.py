"""Rényi divergences in decimals, for the auditor: sums over the support, two points, Gauss's rule.

Nothing here is shared with `privacy.accounting`, neither code nor numerics. The caller's context sets the digits;
the sampled Gaussian has a context of 50 of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from functools import cache
from typing import Final

from tasks.verification.recompute.event_forms import DECIMAL_FUNCTION, spend

_SUMMED_POINTS: Final = 4096
_FIFTY: Final = Context(prec=50, Emax=MAX_EMAX, Emin=MIN_EMIN)
_POINTS: Final = 12
_COUNTS: Final = Decimal("1e-25")
_NEAR: Final = 6.0
_ITERATIONS: Final = 300
_E: Final = 2.718281828459045


def laplace(inverse_scale: Decimal, moves: Sequence[int], order: Decimal) -> Decimal:
    """Sum the divergence of discrete Laplace noise over its support, cell by cell, at order > 1.

    At a shift by d the terms exp(-t (order |x| + (1 - order) |x - d|)) are, in units of the largest, 1 at x = 0 and
    g^x up to x = d with g = exp(-(2 order - 1) t); outside, both tails are geometric with ratio r = exp(-t).
    """
    ratio, inner = (-inverse_scale).exp(), (-(2 * order - 1) * inverse_scale).exp()
    total = Decimal(0)
    for move, times in Counter(map(abs, moves)).items():
        spend(3 * DECIMAL_FUNCTION + min(move, _SUMMED_POINTS))
        tails = (1 + (-(2 * order - 1) * inverse_scale * move).exp()) / (1 - ratio)
        terms = (tails + _between(inner, move)) * (1 - ratio) / (1 + ratio)
        total += times * ((order - 1) * inverse_scale * move + terms.ln())
    return total / (order - 1)


def _between(inner: Decimal, move: int) -> Decimal:
    """Sum g^x over 0 < x < d: term by term, or as a geometric series where d is large."""
    if move > _SUMMED_POINTS:
        return (inner - inner**move) / (1 - inner)
    total, term = Decimal(0), Decimal(1)
    for _ in range(move - 1):
        term *= inner
        total += term
    return total


def two_points(epsilon: Decimal, order: Decimal) -> Decimal:
    """Sum the divergence of randomized response, the worst pure step, over its two answers."""
    spend(3 * DECIMAL_FUNCTION)
    truth = 1 / (1 + (-epsilon).exp())
    lie = (-epsilon).exp() * truth
    # In units of exp((order - 1) epsilon): truth^order lie^(1 - order) and its mirror image.
    terms = truth + lie * (-2 * (order - 1) * epsilon).exp()
    return epsilon + terms.ln() / (order - 1)


def bounded_range(epsilon: Decimal, order: Decimal) -> Decimal:
    """Sum the divergence of the worst pair of epsilon-bounded range over its two answers.

    The log-ratios are t and t - epsilon; that the ratio's mean is one gives the answers' probabilities. The moment
    is B exp((order - 1) t) - C exp(order t) up to a factor, largest where (order - 1) B = order C exp(t).
    """
    spend(6 * DECIMAL_FUNCTION)
    shrunk = (-(order - 1) * epsilon).exp()
    t = ((order - 1) * (epsilon.exp() - shrunk) / (order * (1 - shrunk))).ln()
    high = ((epsilon - t).exp() - 1) / (epsilon.exp() - 1)
    # In units of exp(order t).
    return (order * t + (high + (1 - high) * (-order * epsilon).exp()).ln()) / (order - 1)


class SampledGaussian:
    """The divergence of one step of the Poisson-sampled Gaussian, by Gauss's rule of 12 points on panels.

    With u = q (L - 1), L the likelihood ratio of N(1, s^2) and N(0, s^2) and w standard normal, the moment less one
    is the mean of (1 + u)^order - 1 - order u, which is integrated as it stands. Panels are as wide as the
    integrand is smooth: 2, or 2 s if that is less. What does not depend on the order is kept for the next one.
    """

    def __init__(self, noise_multiplier: Fraction, sampling_probability: Fraction) -> None:
        with localcontext(_FIFTY):
            self._s = Decimal(noise_multiplier.numerator) / Decimal(noise_multiplier.denominator)
            self._q = Decimal(sampling_probability.numerator) / Decimal(sampling_probability.denominator)
            self._half = min(Decimal(1), self._s)
            self._bell = self._half / (2 * Decimal("3.14159265358979323846264338327950288419716939937511")).sqrt()
        self._panels: dict[int, list[tuple[Decimal, Decimal, Decimal]]] = {}

    def divergence(self, order: Decimal) -> Decimal:
        """Integrate the divergence at an order > 1."""
        with localcontext(_FIFTY):
            if self._q == 1:
                return order / (2 * self._s * self._s)
            return (1 + self._excess(order)).ln() / (order - 1)

    def _excess(self, order: Decimal) -> Decimal:
        """Integrate from the bell's middle to the first peak, and around the last one, while panels grow or count."""
        s, alpha, width = float(self._s), float(order), 2 * float(self._half)
        near = max(2 / s, _NEAR)
        first, last = self._settled(near, s, alpha), self._settled(max(alpha / s, near), s, alpha)
        parts = {place: self._part(place, order) for place in range(int(near / width) + 2)}
        largest = max(parts.values())
        lowest, highest = int(first / width), int(last / width)
        for place, direction in ((highest, -1), (highest, 1), (lowest, -1), (lowest, 1), (0, -1)):
            largest = self._walk(parts, place, direction, order, largest)
        return sum(parts.values(), Decimal(0))

    def _walk(
        self, parts: dict[int, Decimal], place: int, direction: int, order: Decimal, largest: Decimal
    ) -> Decimal:
        """Integrate panels in one direction while they grow or count; return the largest so far."""
        before, fallen = Decimal(-1), False
        while True:
            part = parts[place] = parts[place] if place in parts else self._part(place, order)
            largest, fallen = max(largest, part), fallen or part <= before
            if fallen and part < _COUNTS * largest:
                return largest
            before, place = part, place + direction

    def _settled(self, w: float, s: float, order: float) -> float:
        """Follow w -> order / s * (the sampled share of the ratio at w) to where it settles, near a peak."""
        q = float(self._q)
        for _ in range(_ITERATIONS):
            log_ratio = min(600.0, max(-600.0, w / s - 1 / (2 * s * s)))
            ratio: float = q * _E**log_ratio
            after = order / s * ratio / (1 - q + ratio)
            if abs(after - w) < 0.5 * min(1.0, s) or after < _NEAR:
                return max(after, 0.0)
            w = after
        return w

    def _part(self, place: int, order: Decimal) -> Decimal:
        """Integrate one panel."""
        spend(_POINTS * DECIMAL_FUNCTION)
        panel = self._panels.get(place) or self._panel(place)
        return sum((weight * ((order * log).exp() - 1 - order * u) for weight, log, u in panel), Decimal(0))

    def _panel(self, place: int) -> list[tuple[Decimal, Decimal, Decimal]]:
        """List a panel's points: weight with the normal density, log(1 + u), u."""
        points = []
        for x, weight in _gauss():
            w = (2 * place + x) * self._half
            u = self._q * ((w / self._s - 1 / (2 * self._s * self._s)).exp() - 1)
            points.append((weight * self._bell * (-w * w / 2).exp(), (1 + u).ln(), u))
        self._panels[place] = points
        return points


@cache
def _gauss() -> tuple[tuple[Decimal, Decimal], ...]:
    """Find the points and weights of Gauss's rule on [-1, 1]: the zeros of a Legendre polynomial, by Newton."""
    points = []
    with localcontext(_FIFTY):
        for place in range(_POINTS):
            # Zeros interlace with these guesses closely enough for Newton's method.
            x = Decimal(_cosine(3.141592653589793 * (place + 0.75) / (_POINTS + 0.5)))
            for _ in range(8):
                before, value = Decimal(1), x
                for n in range(2, _POINTS + 1):
                    before, value = value, ((2 * n - 1) * x * value - (n - 1) * before) / n
                slope = _POINTS * (x * value - before) / (x * x - 1)
                x -= value / slope
            points.append((x, 2 / ((1 - x * x) * slope * slope)))
    return tuple(points)


def _cosine(angle: float) -> float:
    """Compute a cosine by its series; the angle is at most pi."""
    total, term = 1.0, 1.0
    for n in range(1, 20):
        term *= -angle * angle / ((2 * n - 1) * (2 * n))
        total += term
    return total
