"""95 % intervals for the exact count of every cell, from its noisy value and the declared noise alone.

For each possible count x, those noisy values are accepted that occur with probability 95 % or more if the cell
holds x; the interval of a noisy value v is then the range of the x that accept it. With q(p) the least whole number
that the noise exceeds with probability p at most, x accepts
    v ≤ q(5 %)                             x = 0: nothing under zero speaks against it
    x - q(4.5 %) ≤ v ≤ x + q(0.5 %)        0 < x < split
    x - q(2.5 %) ≤ v ≤ x + q(2.5 %)        x ≥ split = 2 q(2.5 %)
so that whatever a cell holds, its interval misses it in 5 % of draws at most. A noisy value below 0 has the interval
of 0: from 0 to q(4.5 %), one-sided. Its own, of which a value far below 0 leaves the one point 0, would tell counts
apart that the noise does not. That only adds to intervals. They hold cell by cell, need no prior and no other cell,
and hold for any selection of cells that does not look at their noise. Small counts spend
their 5 % on the side of zero, where most cells of a wide table lie: that makes the intervals of empty cells shorter
than noise alone, cut at 0 in the same way, would.
A published interval is made to hold its refined count too; it only grows by that.

Bootstrap intervals (of `posterior`) are far shorter and hold 95 % of all cells, but of the small counts among many
empty cells as little as 13 % (national mesh, ε = 0.1): `benchmarks/results/intervals.json`.
Source: Neyman 1937 (inversion of tests); Pratt 1961 and Yu and Hoff 2018 for spending the error where the expected
length falls most. Deviation: the spending is fixed beforehand, not fitted, so the coverage does not lean on a fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contracts.message import message
from privacy.accounting.events import CountNoise
from privacy.arrays import Numbers
from privacy.marginals.count_noise import half_width
from privacy.refine.simplex import over_chunks

CONFIDENCE: Final = 0.95
_BY_NOISE: Final = message("the noise alone: the noisy count plus or minus what 95 % of its noise reaches")
_BY_TESTS: Final = message(
    "inverted tests of the noisy count under its declared noise, widened to hold the refined count: whatever the "
    "exact count of a cell is, its interval holds it in at least 95 % of draws"
)
_MISS: Final = 0.05
_SMALL_ABOVE: Final = 0.005
"""Of the 5 %, what a small count may spend on noisy values that are too large for it."""


@dataclass(frozen=True)
class Intervals:
    """The interval of every cell, both ends included.

    Args:
        lower: least count, int64, shape of the table [units].
        upper: largest count, same shape [units].
    """

    lower: NDArray[np.int64]
    upper: NDArray[np.int64]

    def holding(self, counts: Numbers) -> Intervals:
        """Return the intervals, each widened where need be to hold the cell's count."""
        if counts.dtype == np.int64:
            return Intervals(np.minimum(self.lower, counts), np.maximum(self.upper, counts))
        below, above = (np.asarray(side(counts), np.int64) for side in (np.floor, np.ceil))
        return Intervals(np.minimum(self.lower, below), np.maximum(self.upper, above))

    def with_zeros(self, impossible: NDArray[np.bool_]) -> Intervals:
        """Return the intervals with 0 to 0 in the cells that are declared impossible."""
        if not impossible.any():
            return self
        return Intervals(np.where(impossible, 0, self.lower), np.where(impossible, 0, self.upper))


def count_intervals(noisy: NDArray[np.int64], event: CountNoise) -> Intervals:
    """Return the 95 % interval of each cell's exact count, which is at least 0.

    Args:
        noisy: exact counts plus noise, any shape, within ±2^62 [units].
        event: the noise.
    Returns:
        Intervals: 0 ≤ lower ≤ upper; max(noisy, 0) lies inside; equal noisy values have equal intervals.
    Privacy: post-processing; deterministic, whole numbers only, no seed.
    Source: see the module.
    """
    values = np.ascontiguousarray(noisy, np.int64).reshape(-1)
    lower, upper = np.empty_like(values), np.empty_like(values)
    reach = _Reach.of(event)

    def fill(cells: slice) -> None:
        lower[cells], upper[cells] = reach.ends(values[cells])

    over_chunks(fill, values.size)
    return Intervals(lower.reshape(noisy.shape), upper.reshape(noisy.shape))


def noise_intervals(noisy: NDArray[np.int64], event: CountNoise) -> Intervals:
    """Return noisy count plus or minus the reach of 95 % of the noise: of unrefined counts, which may be negative."""
    width = half_width(event, CONFIDENCE)
    return Intervals(noisy - width, noisy + width)


def refined_intervals(
    noisy: NDArray[np.int64], counts: Numbers, event: CountNoise, *, impossible: NDArray[np.bool_]
) -> Intervals:
    """Return the intervals that are published beside refined counts.

    Args:
        noisy: noisy counts [units].
        counts: what refinement made of them, ≥ 0, same shape [units].
        event: the noise.
        impossible: declared structural zeros, same shape.
    Privacy: post-processing; deterministic.
    """
    return count_intervals(noisy, event).holding(counts).with_zeros(impossible)


def interval_statement(method: str, *, consistent: bool = False) -> str:
    """Say how the intervals of a table refined by that method were made, as the record tells it."""
    noise = message("{how}, widened to hold the published count", how=_BY_NOISE) if consistent else _BY_NOISE
    return message(
        "95 %, from {how}. Measured: {file}",
        how=noise if method == "none" else _BY_TESTS,
        file="benchmarks/results/intervals.json",
    )


@dataclass(frozen=True)
class _Reach:
    """The q of the module's docstring [units]."""

    zero: int
    small_below: int
    small_above: int
    large: int
    split: int

    @staticmethod
    def of(event: CountNoise) -> _Reach:
        """Compute them: by symmetry, noise exceeds q with probability p where |noise| does with 2 p."""
        large = half_width(event, 1 - _MISS)
        return _Reach(
            zero=half_width(event, 1 - 2 * _MISS),
            small_below=half_width(event, 1 - 2 * (_MISS - _SMALL_ABOVE)),
            small_above=half_width(event, 1 - 2 * _SMALL_ABOVE),
            large=large,
            split=max(1, 2 * large),
        )

    def ends(self, noisy: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the least and the largest count that accept each noisy value, or 0 where that is negative."""
        noisy = np.maximum(noisy, 0)
        # The least count that accepts v: 0 up to q(5 %), then v - q(0.5 %), and v - q(2.5 %) from the split on.
        small, large = noisy - self.small_above, noisy - self.large
        positive = np.where(small < self.split, np.maximum(small, 1), np.maximum(large, self.split))
        lower = np.where(noisy <= self.zero, 0, positive)
        # The largest: v + q(2.5 %) from the split on, v + q(4.5 %) below it.
        upper = noisy + self.large
        return lower, np.where(upper >= self.split, upper, noisy + self.small_below)
