"""Ratios of two noisy sums of columns that are nowhere below 0; intervals hold where the lower sum is near 0 too.

Of two draws, S1 = (high1 A1 + low1 B1) / width1 and S2 alike. In units of their noise, a = S1 / s1 and b = S2 / s2,
a ratio r is a share u of [0, 1]:

    r = (s1 / s2) u / (1 - u),   u = a / (a + b)

and the true share lies in Fieller's set {u : |(1 - u) a - u b| <= c(u)}, c(u) a quantile of the same combination of
noises. The share 1 is a ratio without an upper end.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.accounting.events import CountNoise
from privacy.arrays import Floats
from privacy.marginals.uncertainty import variance
from privacy.statistics.estimates import Estimates, share_intervals
from privacy.statistics.noise_quantiles import PIECES, mixed_quantile, six_digits_up

_UNIT: Final = 1.0
_LEAST_VARIANCE: Final = 1e-12
"""Noise that is almost never there has a variance of 0 in doubles; any unit above 0 will do."""


@dataclass(frozen=True)
class NoisySums:
    """The noisy numbers of a column by cell.

    Args:
        above, below: one shape, int64 [lattice steps].
        low, high: the clip, 0 <= low < high [units of the column].
        width: steps from low to high, >= 1.
        event: the noise of each number [lattice steps].
    """

    above: NDArray[np.int64]
    below: NDArray[np.int64]
    low: Fraction
    high: Fraction
    width: int
    event: CountNoise

    @property
    def weights(self) -> tuple[float, float]:
        """What a step above, and one below, adds to the sum [units of the column]."""
        return float(self.high / self.width), float(self.low / self.width)

    @property
    def deviation(self) -> float:
        """About the standard deviation of the sum's noise, to six digits, and above 0 [units of the column]."""
        spread = max(variance(self.event), _LEAST_VARIANCE)
        return six_digits_up(sqrt(spread * sum(weight * weight for weight in self.weights)))

    @property
    def sums(self) -> Floats:
        """The noisy sums [units of the column]."""
        first, second = self.weights
        return first * self.above.astype(np.float64) + second * self.below.astype(np.float64)


def estimate_ratios(upper: NoisySums, lower: NoisySums, *, confidence: float) -> Estimates:
    """Estimate the ratio of the sums of two columns per cell.

    Args:
        upper, lower: of independent draws, over the same cells.
        confidence: how often an interval covers the true ratio of a cell whose lower sum is above 0, in (0, 1).
    Returns:
        Estimates: values from 0 on; infinite where the lower sum cannot be told from 0 at all. An interval without an
        upper end has infinity there [units of the upper column per unit of the lower one].
    Raises:
        ValueError: a clip that begins below 0; confidence outside (0, 1).
    Privacy: post-processing.
    Source: Fieller 1954, with the quantiles of the declared noise.
    """
    if min(upper.low, lower.low) < 0:
        raise ValueError("ratios are of columns whose clips begin at 0 or above")
    unit, other = upper.deviation, lower.deviation
    first, second = upper.sums, lower.sums
    bounds = _bounds(upper.weights, upper.event, unit, lower.weights, lower.event, other, confidence)
    shares = share_intervals((first / unit).ravel(), (second / other).ravel(), bounds)
    ends = _ratios(shares[1:], unit / other).reshape(2, *first.shape)
    above, below = np.maximum(first, 0.0), np.maximum(second, 0.0)
    values = np.where(below > 0, above / np.where(below > 0, below, 1.0), np.inf)
    return Estimates(values, np.minimum(ends[0], values), np.maximum(ends[1], values))


def _ratios(shares: Floats, unit: float) -> Floats:
    """Return the ratios that shares stand for."""
    left = _UNIT - shares
    return np.where(left > 0, unit * shares / np.where(left > 0, left, 1.0), np.inf)


@lru_cache(maxsize=64)
def _bounds(
    upper: tuple[float, float],
    upper_event: CountNoise,
    unit: float,
    lower: tuple[float, float],
    lower_event: CountNoise,
    other: float,
    confidence: float,
) -> Floats:
    """Return bounds on the combined noise, one a piece of [0, 1]: both of its weights are at their largest there."""
    found = np.empty(PIECES)
    for piece in range(PIECES):
        most = (1 - piece / PIECES) / unit, (piece + 1) / PIECES / other
        terms = [(most[0] * weight, upper_event) for weight in upper]
        terms += [(most[1] * weight, lower_event) for weight in lower]
        found[piece] = six_digits_up(mixed_quantile(terms, confidence))
    found.flags.writeable = False
    return found
