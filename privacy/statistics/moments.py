"""Counts, sums, means and variances per cell from noisy moments: post-processing of what one draw released.

A row whose value lies at p of the clip, p from 0 to 1, adds U steps to its cell, in three parts:

    a   (1 - p)^2    at the lower end
    b   2 p (1 - p)  between
    c   p^2          at the upper end

Bernstein's polynomials of degree 2. So without noise a + b + c is U times the rows, c + b/2 the sum of p, and a + b/2
that of 1 - p: everything that two sums give (`privacy.statistics.estimates`), and the sum of squares too.

    rows with a value  (a + b + c) / U        sum  (high c + (low + high) b / 2 + low a) / U
    mean               low + (high - low) q,  q = (c + b/2) / (a + b + c)
    variance           (high - low)^2 (a c - b^2 / 4) / (a + b + c)^2         of the rows, not of a sample

Where squares are no whole steps, a and c are rounded down and b takes what is left: p is off by less than 1/2U, and
the variance is below the true one by less than 1.25/U of (high - low)^2. Intervals are as much wider.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from contracts.domains.addends import ValueMoments
from privacy.accounting.events import CountNoise
from privacy.arrays import Floats
from privacy.statistics.estimates import (
    Estimates,
    bounded_estimates,
    mean_margins,
    share_intervals,
    variance_intervals,
)
from privacy.statistics.noise_sums import even_quantile, quantile, six_digits_up

_ROUNDING: Final = 2.0**-48
_SHIFT: Final = 0.5
_SINK: Final = 1.25
"""By how many steps a row's mean may be off, and its variance too low, where squares are rounded."""


@dataclass(frozen=True)
class NoisyMoments:
    """The noisy moments of a column by cell.

    Args:
        values: noisy numbers, int64, shape (*cells, 3 or 4): at the lower end, between, at the upper end, missing
            [steps].
        moments: what was added up.
        event: the noise of each number [steps].
        confidence: how often an interval covers, in (0, 1).
    """

    values: NDArray[np.int64]
    moments: ValueMoments
    event: CountNoise
    confidence: float

    def counts(self) -> Estimates:
        """Estimate the rows of each cell, with and without a value; intervals are cut at 0. Post-processing."""
        weights = [1 / self.moments.whole] * self.moments.parts
        margin = even_quantile([(weight, self.event) for weight in weights], self.confidence)
        return self._weighted(weights, margin, 0.0, np.inf)

    def sums(self) -> Estimates:
        """Estimate the sum of the clipped values in each cell. Post-processing."""
        low, high, whole = self._low, self._high, self.moments.whole
        weights = [float(each / whole) for each in (low, (low + high) / 2, high)]
        margin = quantile(self.event, weights, self.confidence)
        least, most = 0.0 if low >= 0 else -np.inf, 0.0 if high <= 0 else np.inf
        found = self._weighted(weights, margin, least, most)
        if self.moments.exact:
            return found
        rows = np.maximum(self.counts().upper, 0.0)
        shift = rows * (_SHIFT / whole * float(high - low))
        return Estimates(found.values, np.maximum(found.lower - shift, least), np.minimum(found.upper + shift, most))

    def means(self) -> Estimates:
        """Estimate the mean of the clipped values in each cell, by Fieller's set, as of two sums. Post-processing."""
        shares = share_intervals(*self._sides, mean_margins(self.event, self.confidence))
        least, most = float(self._low), float(self._high)
        shift = 0.0 if self.moments.exact else _SHIFT / self.moments.whole
        rounding = _ROUNDING * max(abs(least), abs(most)) + shift * (most - least)
        placed = (least + float(self._high - self._low) * shares).reshape(3, *self.values.shape[:-1])
        values, lower, upper = (
            np.clip(each, least, most) for each in (placed[0], placed[1] - rounding, placed[2] + rounding)
        )
        return Estimates(values, lower, upper)

    def variances(self) -> Estimates:
        """Estimate the variance of the clipped values in each cell, over its rows with a value. Post-processing.

        Estimates and intervals lie in [0, (high - low)^2 / 4]; the interval is all of it where nothing can be told.
        """
        square = float((self._high - self._low) ** 2)
        sink = 0.0 if self.moments.exact else _SINK / self.moments.whole
        found = variance_intervals(self._parts, event=self.event, confidence=self.confidence, sink=sink) * square
        values, lower, upper = found.reshape(3, *self.values.shape[:-1])
        return Estimates(values, lower, upper)

    def deviations(self) -> Estimates:
        """Estimate the standard deviation: the root of the variance and of the ends of its interval."""
        found = self.variances()
        return Estimates(*(np.sqrt(each) for each in (found.values, found.lower, found.upper)))

    @property
    def _low(self) -> Fraction:
        return Fraction(self.moments.lattice.low)

    @property
    def _high(self) -> Fraction:
        return Fraction(self.moments.lattice.high)

    @property
    def _parts(self) -> Floats:
        """The numbers of rows with a value, shape (3, cells)."""
        return np.ascontiguousarray(self.values.reshape(-1, self.moments.parts)[:, :3].T, dtype=np.float64)

    @property
    def _sides(self) -> tuple[Floats, Floats]:
        """What two sums would be: above the lower end, and below the upper end."""
        at_low, between, at_high = self._parts
        return at_high + between / 2, at_low + between / 2

    def _weighted(self, weights: Sequence[float], margin: float, least: float, most: float) -> Estimates:
        """Return a weighted sum of the numbers and its interval, cut to what a true table can have."""
        terms = [weight * self.values[..., place].astype(np.float64) for place, weight in enumerate(weights)]
        values: Floats = np.sum(terms, axis=0)
        margins = six_digits_up(margin) * (1 + _ROUNDING) + _ROUNDING * np.sum(np.abs(terms), axis=0)
        return bounded_estimates(values, margins, least=least, most=most)
