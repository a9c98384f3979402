"""The exact Rényi curve of a private choice: the worst pair whose log-likelihood ratios have a bounded range.

Where (one letter each)
    e   the range epsilon        a = (order - 1) e        b = order e = a + e
    k(x) = log(sinh(x/2) / (x/2))

    divergence = (order k(b) - (order - 1) k(a) - k(e)) / (order - 1)
               = (k(b) - k(a)) + (k(b) - k(e)) / (order - 1)

It is order e^2/8 for small e, below that always, and tends to e with the order. The derivation is in
docs/derivations.md.
"""

from __future__ import annotations

import math
from typing import Final

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
    """Compute sinh(x) - x."""
    if x > _SINH_SERIES_BELOW:
        return math.sinh(x) - x
    # Near 0 sinh(x) - x would cancel; its series has terms of one sign.
    return math.fsum(x ** (2 * j + 1) / math.factorial(2 * j + 1) for j in range(1, 11))
