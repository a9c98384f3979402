"""Counts, sums and means per cell, with intervals, from noisy sums: post-processing of what one draw released.

A column's clipped value lies on a lattice, x = low + step v with v = 0 to width, width = (high - low) / step whole.
Per cell one draw releases integers, with independent noises X, Y, Z of one event [lattice steps]:

    above    A = sum of v over the rows with a value          + X
    below    B = sum of (width - v) over the same rows        + Y
    missing  M = width times the rows whose value is missing  + Z   (only where a value may be missing)

Every estimate but the mean is a weighted sum of them, hence unbiased:

    rows with a value  (A + B) / width          all rows  (A + B + M) / width          sum  (high A + low B) / width

The mean is low + (high - low) q, where q = A / (A + B) without noise. With noise, A (1 - q) - B q = X (1 - q) - Y q
at the true q. So the interval is Fieller's: every q for which |A (1 - q) - B q| is at most the quantile of the
noise's contrast at this q. It covers the true mean of a cell with at least one value as often as stated, however few
the rows.

What is known of every true table (counts are not negative) cuts the intervals: it takes away only what is false, so
they cover as often as before. A noisy number below what is possible has the interval of the least possible one, and
one above it that of the largest. That holds all of its own interval that is possible, so it covers at least as often,
and it is never shorter than what the noise can tell apart: "0 to 0" is not published. The same goes for A and B of a
mean. Intervals are widened by what floats round. They hold per cell, not for all together.

A cell's variance takes a third number in the draw (`privacy.statistics.moments`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.accounting.events import CountNoise
from privacy.arrays import Floats
from privacy.statistics.noise_quantiles import PIECES, contrast_quantiles, quantile, six_digits_up

_ROUNDING: Final = 2.0**-49
_CHUNK: Final = 2**13


@dataclass(frozen=True)
class Estimates:
    """One estimate per cell and the interval around it.

    Args:
        values: the estimates, shape of the cells, float64 [units of the statistic].
        lower, upper: the ends of the intervals, same shape [same units].
    Privacy: post-processing.
    """

    values: Floats
    lower: Floats
    upper: Floats


def bounded_estimates(values: Floats, margins: Floats | float, *, least: float, most: float) -> Estimates:
    """Return estimates with their intervals, where the truth is known to lie between two ends.

    Formula: [max(least, c - margin), min(most, c + margin)], c the value or the end next to it.

    Args:
        values: unbiased estimates.
        margins: what their noise stays within as often as stated, of the same shape or one for all.
        least, most: least < most, the ends of what is possible; may be infinite.
    Returns:
        Estimates: the values as they are; intervals of at least one margin, or of all that is possible.
    Privacy: post-processing.
    Source: Mandelkern and Schultz 2000, The statistical analysis of Gaussian and Poisson signals near physical
    boundaries: an interval about the estimate that is possible.
    """
    centre = np.clip(values, least, most)
    return Estimates(values, np.maximum(centre - margins, least), np.minimum(centre + margins, most))


def estimate_counts(
    above: NDArray[np.int64],
    below: NDArray[np.int64],
    missing: NDArray[np.int64] | None,
    *,
    width: int,
    event: CountNoise,
    confidence: float,
) -> Estimates:
    """Estimate the number of rows per cell, with and without a value.

    Formula: (A + B + M) / width; without M where every row has a value.

    Args:
        above, below, missing: the noisy sums, one shape, int64 [lattice steps].
        width: steps from low to high, >= 1.
        event: the noise of each sum [lattice steps].
        confidence: how often an interval covers the true count, in (0, 1).
    Returns:
        Estimates: unbiased values, which may be negative or broken, and intervals cut at 0 [rows].
    Raises:
        ValueError: arrays that are not int64 of one shape, width below 1, confidence outside (0, 1).
    Privacy: post-processing.
    """
    sums = [above, below] if missing is None else [above, below, missing]
    _check(sums, width)
    return _weighted(sums, [1 / width] * len(sums), event, confidence, least=0.0)


def estimate_sums(
    above: NDArray[np.int64],
    below: NDArray[np.int64],
    *,
    low: float | Fraction,
    high: float | Fraction,
    width: int,
    event: CountNoise,
    confidence: float,
) -> Estimates:
    """Estimate the sum of the clipped values per cell.

    Formula: (high A + low B) / width.

    Args:
        above, below: the noisy sums, one shape, int64 [lattice steps].
        low, high: the clip, low < high [units of the column].
        width: steps from low to high, >= 1.
        event: the noise of each sum [lattice steps].
        confidence: how often an interval covers the true sum, in (0, 1).
    Returns:
        Estimates: unbiased values; intervals cut at 0 where the clip has one sign [units of the column].
    Raises:
        ValueError: arrays that are not int64 of one shape, width below 1, low not below high, confidence outside
            (0, 1).
    Privacy: post-processing.
    """
    _check([above, below], width, low, high)
    weights = [float(Fraction(high) / width), float(Fraction(low) / width)]
    least = 0.0 if low >= 0 else -np.inf
    most = 0.0 if high <= 0 else np.inf
    return _weighted([above, below], weights, event, confidence, least=least, most=most)


def estimate_lone_sums(
    sums: NDArray[np.int64], positive: bool, negative: bool, *, step: Fraction, event: CountNoise, confidence: float
) -> Estimates:
    """Estimate the sum of the clipped values per cell where it was drawn alone.

    Args:
        sums: the noisy sums, int64 [lattice steps].
        positive, negative: whether no value is below 0, or above.
        step: what a step is [units of the column].
        event: the noise of each sum [lattice steps].
        confidence: how often an interval covers the true sum, in (0, 1).
    Returns:
        Estimates: unbiased values; intervals cut at 0 where the clip has one sign [units of the column].
    Raises:
        ValueError: sums that are not int64, confidence outside (0, 1).
    Privacy: post-processing.
    """
    _check([sums], 1)
    least, most = 0.0 if positive else -np.inf, 0.0 if negative else np.inf
    return _weighted([sums], [float(step)], event, confidence, least=least, most=most)


def estimate_means(
    above: NDArray[np.int64],
    below: NDArray[np.int64],
    *,
    low: float | Fraction,
    high: float | Fraction,
    width: int,
    event: CountNoise,
    confidence: float,
) -> Estimates:
    """Estimate the mean of the clipped values per cell.

    Formula: low + (high - low) A / (A + B), A and B not below 0; the middle of the clip where both are 0.

    Args:
        above, below: the noisy sums, one shape, int64 [lattice steps].
        low, high: the clip, low < high [units of the column].
        width: steps from low to high, >= 1.
        event: the noise of each sum [lattice steps].
        confidence: how often an interval covers the true mean of a cell that has a value, in (0, 1).
    Returns:
        Estimates: values in the clip, not unbiased; the hull of Fieller's set for A and B not below 0, or the whole
        clip where A + B <= 0 [units of the column].
    Raises:
        ValueError: arrays that are not int64 of one shape, width below 1, low not below high, confidence outside
            (0, 1).
    Privacy: post-processing.
    Source: Fieller 1954, with the quantile of the declared noise in place of Student's; it depends on q.
    """
    _check([above, below], width, low, high)
    bounds = np.array([six_digits_up(bound) for bound in contrast_quantiles(event, confidence)])
    shares = share_intervals(above.ravel(), below.ravel(), bounds)
    least, most = float(low), float(high)
    rounding = _ROUNDING * max(abs(least), abs(most))
    placed = (least + float(Fraction(high) - Fraction(low)) * shares).reshape(3, *above.shape)
    values, lowers, uppers = (
        np.clip(numbers, least, most) for numbers in (placed[0], placed[1] - rounding, placed[2] + rounding)
    )
    return Estimates(values, lowers, uppers)


def _check(
    sums: Sequence[NDArray[np.int64]],
    width: int,
    low: float | Fraction = Fraction(0),
    high: float | Fraction = Fraction(1),
) -> None:
    if any(array.dtype != np.int64 or array.shape != sums[0].shape for array in sums):
        raise ValueError(f"sums must be int64 of one shape, not {[f'{array.dtype} {array.shape}' for array in sums]}")
    if width < 1:
        raise ValueError(f"width must be at least 1, not {width}")
    if not low < high:
        raise ValueError(f"low must lie below high, not {low} and {high}")


def _weighted(
    sums: Sequence[NDArray[np.int64]],
    weights: Sequence[float],
    event: CountNoise,
    confidence: float,
    *,
    least: float = -np.inf,
    most: float = np.inf,
) -> Estimates:
    """Return the weighted sum and its interval, cut to what a true table can have."""
    terms = [weight * array.astype(np.float64) for weight, array in zip(weights, sums, strict=True)]
    values: Floats = np.sum(terms, axis=0)
    margins = six_digits_up(quantile(event, weights, confidence)) * (1 + _ROUNDING) + _ROUNDING * np.sum(
        np.abs(terms), axis=0
    )
    return bounded_estimates(values, margins, least=least, most=most)


def share_intervals(above: NDArray[np.int64] | Floats, below: NDArray[np.int64] | Floats, margins: Floats) -> Floats:
    """Return shares above / (above + below) and the ends of their intervals; shape (3, cells).

    Args:
        above, below: noisy numbers, shape (cells,).
        margins: for each of 64 pieces of [0, 1], what the noise of (1 - q) above - q below stays within.
    Privacy: post-processing.
    """
    shares = np.empty((3, above.size))
    # In parts that stay in the cache: each passes by once per piece.
    for start in range(0, above.size, _CHUNK):
        part = slice(start, start + _CHUNK)
        first, second = above[part].astype(np.float64), below[part].astype(np.float64)
        value = _share(np.maximum(first, 0.0), np.maximum(second, 0.0))
        lower, upper = _fieller_hull(first, second, margins)
        shares[:, part] = value, np.minimum(lower, value), np.maximum(upper, value)
    return shares


def _share(above: Floats, below: Floats) -> Floats:
    """Return above / (above + below), one half where both are zero."""
    total = above + below
    return np.where(total > 0, above / np.where(total > 0, total, 1.0), 0.5)


def _fieller_hull(above: Floats, below: Floats, margins: Floats) -> tuple[Floats, Floats]:
    """Return the smallest and the largest q in [0, 1] with |A (1 - q) - B q| <= margin; 0 and 1 where there is none.

    Within a piece the margin is one number c, and the q are those between (A - c) / (A + B) and (A + c) / (A + B).
    Where A + B <= 0 the sums say nothing but noise, whatever their quotient: 0 and 1 too. Else one of them may be
    below 0, which no truth is. It is taken as 0: that adds q to the set and drops none, since A < 0 and
    A (1 - q) - B q >= -c give B q <= c.
    """
    empty = above + below <= 0
    above, below = np.maximum(above, 0.0), np.maximum(below, 0.0)
    total = above + below
    spread = 1 / np.where(empty, 1.0, total)
    centre = above * spread
    # What the floats of A, B and A + B may be off by, as if it were noise.
    rounding = _ROUNDING * (np.abs(above) + np.abs(below)) * spread
    lower, upper = np.full(above.shape, np.inf), np.full(above.shape, -np.inf)
    for piece, margin in enumerate(margins):
        reach = margin * spread + rounding
        start = np.maximum(centre - reach, piece / PIECES)
        end = np.minimum(centre + reach, (piece + 1) / PIECES)
        inside = start <= end
        np.minimum(lower, start, out=lower, where=inside)
        np.maximum(upper, end, out=upper, where=inside)
    empty |= lower > upper
    lower[empty], upper[empty] = 0.0, 1.0
    return lower, upper
