"""The minimum-frequency rule on noisy counts: threshold, how often it errs, and what it does to what is published.

A cell is published if its noisy count is at least the threshold k + t. It is post-processing: a function of the noisy
count and of public parameters, applied by the grant before the draw is written down, so that no noisy value below the
threshold is ever stored or seen. A suppressed cell reads "below the threshold"; in an array it has the value
threshold - 1, which no published cell has.

Where x is an exact count and X the noise:
    published with probability   P(X >= k + t - x), which grows with x
    so that for x < k            it is at most P(X >= t + 1), the value at x = k - 1
    bias of a published count    E[X | X >= k + t - x], above 0: counts near the threshold are published when they
                                 came out high
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from privacy.marginals.count_noise import least_margin, mean_above, tail

if TYPE_CHECKING:
    from contracts.release.tables.tables import MinimumFrequency
    from privacy.accounting.events import CountNoise

_UP: Final = Context(prec=6, rounding=ROUND_CEILING)
_MARGIN: Final = Decimal("1.000000001")
"""What the computed tail may be below the exact one."""


@dataclass(frozen=True)
class Threshold:
    """The rule on one draw.

    Args:
        k: the least exact count that the rule lets out [rows].
        t: the margin for noise [rows].
    """

    k: int
    t: int

    @property
    def value(self) -> int:
        """Least noisy count that is published."""
        return self.k + self.t

    def censored(self, noisy: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return noisy counts with everything below the threshold replaced by threshold - 1.

        Privacy: post-processing of noisy counts.
        """
        return np.maximum(noisy, self.value - 1)

    def suppressed(self, censored: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which cells are suppressed."""
        return np.asarray(censored < self.value)


def threshold_for(terms: MinimumFrequency, event: CountNoise) -> Threshold:
    """Find the threshold of a draw from public parameters.

    Args:
        terms: the rule of the spec.
        event: the noise of the draw.
    Returns:
        Threshold: with the written t, or the smallest that keeps to `at_most`.
    Privacy: reads no data.
    """
    if isinstance(terms.t, int):
        return Threshold(terms.k, terms.t)
    at_most = terms.at_most or Decimal(0)
    # The computed tail may be too small by the margin: asking for less keeps the exact tail within `at_most`.
    return Threshold(terms.k, least_margin(event, float(at_most / _MARGIN)))


def published_below(threshold: Threshold, event: CountNoise) -> str:
    """Return a bound of the probability that a cell with an exact count below k is published, rounded up."""
    # The chance grows with the exact count: the bound at k - 1 holds for all counts below k.
    chance = Decimal(tail(event, threshold.t + 1))
    return format(_UP.multiply(chance, _MARGIN), "g")


def effect(threshold: Threshold, event: CountNoise) -> list[dict[str, Any]]:
    """Tabulate what the rule does to cells of a few exact counts: how often they go, how high the others come out.

    Returns:
        list: for exact counts 0, 1, k - 1, k, the threshold, twice and four times that: the probability that such a
        cell is suppressed, and the mean difference of a published noisy count from the exact one [rows]; six digits.
    Privacy: reads no data.
    """
    k, value = threshold.k, threshold.value
    sizes = sorted({0, 1, k - 1, k, value, 2 * value, 4 * value})
    return [
        {
            "exact": size,
            "suppressed": f"{tail(event, size - value + 1):.6g}",  # P(X < value - size), by symmetry
            "bias_if_published": f"{mean_above(event, value - size):.6g}",
        }
        for size in sizes
    ]


def rule_statement(terms: MinimumFrequency, event: CountNoise) -> dict[str, Any]:
    """Say what the rule is and does to one table, as the record tells it."""
    threshold = threshold_for(terms, event)
    return {
        "k": threshold.k,
        "t": threshold.t,
        "threshold": threshold.value,
        "published_although_below_k": published_below(threshold, event),
        "effect": effect(threshold, event),
    }
