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

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.accounting.events import CountNoise, DiscreteLaplace
from privacy.arrays import Floats
from privacy.marginals.count_noise import variance
from privacy.statistics.noise_sums import PIECES as PIECESOfEstimates
from privacy.statistics.noise_sums import PIECES as PIECESOfRatios
from privacy.statistics.noise_sums import PIECES as PIECESOfVariances
from privacy.statistics.noise_sums import contrast_quantiles, mixed_quantile, quantile, six_digits_up

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
        start = np.maximum(centre - reach, piece / PIECESOfEstimates)
        end = np.minimum(centre + reach, (piece + 1) / PIECESOfEstimates)
        inside = start <= end
        np.minimum(lower, start, out=lower, where=inside)
        np.maximum(upper, end, out=upper, where=inside)
    empty |= lower > upper
    lower[empty], upper[empty] = 0.0, 1.0
    return lower, upper


# --- Intervals of variances per cell, by inverted tests of noisy moments; they hold in cells of every size.


LARGEST: Final = 0.25
"""The largest variance of numbers from 0 to 1: half of them at each end."""
BOXES: Final = 32
"""Into how many pieces variances from 0 to the largest are cut."""
_OF_THE_MEAN: Final = 0.12
"""The share of misses that the mean's test may have."""
_VARIANCE_ROUNDING: Final = 2.0**-44
_APART: Final = 0.005
_NEGLIGIBLE: Final = 2.0**-40
_STEPS: Final = 48
_CHUNK_OF_CELLS: Final = 2**11


def variance_intervals(parts: Floats, *, event: CountNoise, confidence: float, sink: float) -> Floats:
    """Return variances of numbers from 0 to 1 and the ends of their intervals; shape (3, cells).

    Formula: (a c - b^2 / 4) / (a + b + c)^2, none of a, b, c below 0; the middle of the interval where all are 0.

    Args:
        parts: noisy moments, shape (3, cells) [steps].
        event: the noise of each number [steps].
        confidence: how often an interval covers the true variance of a cell that has a value, in (0, 1).
        sink: by how much moments that are rounded make a variance too low; 0 of exact ones.
    Returns:
        Floats: values and ends in [0, 1/4]; all of it where N <= 0.
    Privacy: post-processing.
    Source: inverted tests as in Fieller 1954, with quantiles of the declared noise.
    """
    missed = 1 - confidence
    means = mean_margins(event, 1 - missed * _OF_THE_MEAN)
    squares = square_margins(event, 1 - missed * (1 - _OF_THE_MEAN), sink)
    found = np.empty((3, parts.shape[1]))
    for start in range(0, parts.shape[1], _CHUNK_OF_CELLS):
        part = slice(start, start + _CHUNK_OF_CELLS)
        lower, upper = _honest_ends(parts[:, part], means, squares, sink)
        value = _value(parts[:, part], (lower + upper) / 2)
        found[:, part] = value, np.minimum(lower, value), np.maximum(upper, value)
    return found


def _value(parts: Floats, unknown: Floats) -> Floats:
    at_low, between, at_high = np.maximum(parts, 0.0)
    total = at_low + between + at_high
    some = np.where(total > 0, total, 1.0)
    shares = at_low / some, between / some, at_high / some
    value = shares[0] * shares[2] - shares[1] * shares[1] / 4
    return np.where(total > 0, np.clip(value, 0.0, LARGEST), unknown)


def _honest_ends(parts: Floats, means: Floats, squares: Floats, sink: float) -> tuple[Floats, Floats]:
    """Return the ends of a cell's set, joined with that of possible moments; all variances where there is none."""
    lower, upper = _ends(parts, means, squares, sink)
    at_low, between, at_high = np.maximum(parts, 0.0)
    possible = np.stack([at_low, np.minimum(between, 2 * np.sqrt(at_low * at_high)), at_high])
    changed = np.flatnonzero((possible != parts).any(axis=0) & (parts.sum(axis=0) > 0))
    if changed.size:
        first, last = _ends(np.ascontiguousarray(possible[:, changed]), means, squares, sink)
        lower[changed], upper[changed] = np.minimum(lower[changed], first), np.maximum(upper[changed], last)
    empty = lower > upper
    return np.where(empty, 0.0, lower), np.where(empty, LARGEST, upper)


def _ends(parts: Floats, means: Floats, squares: Floats, sink: float) -> tuple[Floats, Floats]:
    """Return the least and the largest variance of all pairs that pass both tests; infinite where none does."""
    total = parts.sum(axis=0)
    known = total > 0
    spread = 1 / np.where(known, total, 1.0)
    centre = (parts[2] + parts[1] / 2) * spread
    rounding = _VARIANCE_ROUNDING * np.abs(parts).sum(axis=0) * spread
    edges = np.arange(PIECESOfVariances + 1) / PIECESOfVariances
    # SHAPE (pieces, cells): where means of each piece pass the first test.
    reach = means[:, None] * spread + rounding
    start, end = np.maximum(centre - reach, edges[:-1, None]), np.minimum(centre + reach, edges[1:, None])
    pieces, cells = np.nonzero((start <= end) & known)
    pairs = _Pairs.of(parts * spread, start[pieces, cells], end[pieces, cells], centre, pieces, cells)
    lower = _first(pairs, range(BOXES), squares, spread, rounding, sink)[0]
    upper = _first(pairs, range(BOXES)[::-1], squares, spread, rounding, sink)[1]
    empty = lower > upper
    lower, upper = lower * (1 - _VARIANCE_ROUNDING), upper * (1 + _VARIANCE_ROUNDING) + sink
    lower, upper = np.clip(lower, 0.0, LARGEST), np.clip(upper, 0.0, LARGEST)
    return np.where(empty, np.inf, lower), np.where(empty, -np.inf, upper)


@dataclass(frozen=True)
class _Pairs:
    """Cells, each with a piece of means that pass the first test; all of shape (pairs,).

    Args:
        pieces, cells: which they are.
        least, most: of F / N over the means of the piece that pass.
        room: the largest variance of numbers from 0 to 1 with such a mean.
    """

    pieces: NDArray[np.intp]
    cells: NDArray[np.intp]
    least: Floats
    most: Floats
    room: Floats

    @classmethod
    def of(
        cls,
        shares: Floats,
        start: Floats,
        end: Floats,
        centre: Floats,
        pieces: NDArray[np.intp],
        cells: NDArray[np.intp],
    ) -> _Pairs:
        """Find the ends of F / N, a parabola that is open upwards and least at the centre."""
        at_low, between, at_high = shares[:, cells]

        def deviation(mean: Floats) -> Floats:
            found: Floats = mean * mean * at_low - mean * (1 - mean) * between + (1 - mean) * (1 - mean) * at_high
            return found

        middle = np.clip(0.5, start, end)
        least = deviation(np.clip(centre[cells], start, end))
        most = np.maximum(deviation(start), deviation(end))
        return cls(pieces, cells, least, most, middle * (1 - middle) * (1 + _VARIANCE_ROUNDING))


def _first(
    pairs: _Pairs, boxes: Iterable[int], squares: Floats, spread: Floats, rounding: Floats, sink: float
) -> tuple[Floats, Floats]:
    """Return the least and the largest variance of each cell in the first box that has any; infinite without one."""
    lower, upper = np.full(spread.shape, np.inf), np.full(spread.shape, -np.inf)
    open_pairs = np.arange(pairs.cells.size)
    for box in boxes:
        cells = pairs.cells[open_pairs]
        margins = squares[pairs.pieces[open_pairs], box] * spread[cells] + rounding[cells]
        low = LARGEST * box / BOXES if box else -sink
        bottom = np.maximum(pairs.least[open_pairs] - margins, low)
        top = np.minimum(pairs.most[open_pairs] + margins, LARGEST * (box + 1) / BOXES)
        top = np.minimum(top, pairs.room[open_pairs])
        there = bottom <= top
        np.minimum.at(lower, cells[there], bottom[there])
        np.maximum.at(upper, cells[there], top[there])
        open_pairs = open_pairs[np.isinf(lower[cells])]  # other boxes lie further on
    return lower, upper


@lru_cache(maxsize=64)
def mean_margins(event: CountNoise, confidence: float) -> Floats:
    """Return bounds on |(1 - q) Z + (1/2 - q) Y - q X| for the q of each piece, X, Y, Z the noises; shape (64,).

    Each weight is at its largest in a piece: symmetric laws with one peak spread further as a weight grows.
    """
    found = np.empty(PIECESOfVariances)
    for piece in range(PIECESOfVariances):
        start, end = piece / PIECESOfVariances, (piece + 1) / PIECESOfVariances
        weights = [1 - start, max(abs(0.5 - start), abs(0.5 - end)), end]
        found[piece] = six_digits_up(quantile(event, weights, confidence))
    found.flags.writeable = False
    return found


@lru_cache(maxsize=64)
def square_margins(event: CountNoise, confidence: float, sink: float) -> Floats:
    """Return bounds on the noise of F(m) - v N in every box of m and v; shape (64, 32) [steps]."""
    ends = np.arange(PIECESOfVariances + 1) / PIECESOfVariances
    below, above = ends[:-1, None], ends[1:, None]
    variances = LARGEST * np.arange(BOXES + 1) / BOXES
    least, most = variances[None, :-1].copy(), variances[None, 1:]
    least[0, 0] = -sink
    middle = np.clip(0.5, below, above)
    at_low = np.maximum(np.abs(above * above - least), np.abs(below * below - most))
    at_high = np.maximum(np.abs((1 - below) ** 2 - least), np.abs((1 - above) ** 2 - most))
    between = middle * (1 - middle) + most
    weights = np.stack(np.broadcast_arrays(at_low, between, at_high)).reshape(3, -1)
    found = np.array([six_digits_up(each) for each in three_noises(event, weights, confidence)])
    found = found.reshape(PIECESOfVariances, BOXES)
    found.flags.writeable = False
    return found


def three_noises(event: CountNoise, weights: Floats, confidence: float) -> Floats:
    """Return q with P(|w1 X + w2 Y + w3 Z| <= q) >= confidence for many triples of weights above 0 at once.

    The continuous laws next to the noises, and the sum of the weights beside it, as `noise_sums` has it: of
    Laplace noise by partial fractions, with scales within 0.5 % of each other spread so far apart, upwards.

    Args:
        event: the noise of X, Y and Z.
        weights: shape (3, triples), >= 0, none of a triple all 0.
        confidence: in (0, 1).
    Returns:
        Floats: shape (triples,) [units of the weights].
    """
    exceeding, margin = 1 - confidence, weights.sum(axis=0)
    if not isinstance(event, DiscreteLaplace):
        from scipy.special import ndtri  # here, so that a plan of tables does not load it

        deviation = np.sqrt((weights * weights).sum(axis=0) * float(event.sigma_squared))
        return np.asarray((-float(ndtri(exceeding / 2)) * deviation + margin) * (1 + _VARIANCE_ROUNDING))
    scales = np.sort(weights, axis=0)
    scales = np.maximum(scales, scales[2] * _NEGLIGIBLE)
    for place in (1, 2):
        scales[place] = np.maximum(scales[place], scales[place - 1] * (1 + _APART))
    factors = np.ones_like(scales)
    for place, other in ((0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)):
        factors[place] /= 1 - (scales[other] / scales[place]) ** 2
    factors += np.abs(factors) * _NEGLIGIBLE  # close scales cancel
    low, high = np.zeros(margin.shape), scales[2] * (3 * np.log(3 / exceeding))
    for _ in range(_STEPS):
        middle = (low + high) / 2
        over = (factors * np.exp(-middle / scales)).sum(axis=0) <= exceeding
        low, high = np.where(over, low, middle), np.where(over, middle, high)
    return np.asarray((high / float(event.inverse_scale) + margin) * (1 + _VARIANCE_ROUNDING))


# --- Effective sample sizes per cell, from the sums of weights and of their squares.


PIECES: Final = 256
"""Into how many pieces of one ratio the shares from 1/M to 1 are cut."""
_OF_THE_BOX: Final = 0.3
"""The share of misses that the box may have."""
_SHARE_ROUNDING: Final = 2.0**-44


def estimate_effective_sizes(
    squares: NDArray[np.int64], rest: NDArray[np.int64], *, width: int, event: CountNoise, confidence: float
) -> Estimates:
    """Estimate the effective sample size of each cell.

    Args:
        squares, rest: the noisy a and b, one shape, int64 [squared steps of the weight].
        width: M, >= 1 [steps of the weight].
        event: the noise of each [squared steps].
        confidence: how often an interval covers the true size, in (0, 1).
    Returns:
        Estimates: values from 0 on, not unbiased, and intervals that hold them [rows].
    Raises:
        ValueError: arrays that are not int64 of one shape, width below 1, confidence outside (0, 1).
    Privacy: post-processing.
    Source: Kish 1992, Weighting for unequal P_i, Journal of Official Statistics 8 (the size); the interval is of
    inverted tests, as in `variances`.
    """
    if squares.dtype != np.int64 or rest.dtype != np.int64 or squares.shape != rest.shape or width < 1:
        raise ValueError(f"sums must be int64 of one shape, and width at least 1, not {width}")
    found = np.empty((3, squares.size))
    for start in range(0, squares.size, _CHUNK):
        part = slice(start, start + _CHUNK)
        raw = [each.ravel()[part].astype(np.float64) for each in (squares, rest)]
        found[:, part] = _sizes(raw[0], raw[1], width, event, 1 - confidence)
    values, lower, upper = found.reshape(3, *squares.shape)
    return Estimates(values, lower, upper)


def _sizes(a: Floats, b: Floats, width: int, event: CountNoise, missed: float) -> Floats:
    """Return values and ends; shape (3, cells)."""
    nearest = np.maximum(a, 0.0), np.maximum(b, 0.0)
    margin = six_digits_up(quantile(event, [1.0], 1 - missed * _OF_THE_BOX / 2)) + _SHARE_ROUNDING * sum(nearest)
    (least_a, most_a), (least_b, most_b) = ((np.maximum(each - margin, 0.0), each + margin) for each in nearest)
    # The size is largest at the most of b that goes with an a: at the largest a, or where b is bounded by a.
    bounded = np.clip(most_b / max(width - 1, 1), least_a, most_a)
    upper = np.maximum(*(_size(each, np.minimum(most_b, (width - 1) * each), width) for each in (bounded, most_a)))
    lower = _size(np.clip(least_b, least_a, most_a), least_b, width)
    upper = np.maximum(lower, upper)  # where no pair in the box is possible
    shares = _share_of_squares(least_a, most_b), _share_of_squares(most_a, least_b)
    margins = line_margins(event, width, 1 - missed * (1 - _OF_THE_BOX))
    lines = [_line(first, last, shares, width, margins) for first, last in ((a, b), nearest)]
    first, last = np.minimum(lines[0][0], lines[1][0]), np.maximum(lines[0][1], lines[1][1])
    met = (first <= upper) & (lower <= last)
    lower, upper = np.where(met, np.maximum(lower, first), lower), np.where(met, np.minimum(upper, last), upper)
    possible = np.maximum(nearest[0], sum(nearest) / width)
    value = _size(possible, sum(nearest) - possible, width)
    return np.stack([np.clip(value, lower, upper), lower * (1 - _SHARE_ROUNDING), upper * (1 + _SHARE_ROUNDING)])


def _size(squares: Floats, rest: Floats, width: int) -> Floats:
    """Return (a + b)^2 / (M^2 a), and 0 where a is 0."""
    whole = (squares + rest) / width
    return np.where(squares > 0, whole * (whole / np.where(squares > 0, squares, 1.0)), 0.0)


def _share_of_squares(squares: Floats, rest: Floats) -> Floats:
    """Return a / (a + b), and 0 where a is 0."""
    return np.where(squares > 0, squares / np.where(squares > 0, squares + rest, 1.0), 0.0)


def _line(a: Floats, b: Floats, shares: tuple[Floats, Floats], width: int, margins: Floats) -> tuple[Floats, Floats]:
    """Return the least and the largest size that the second test leaves for the shares r between two ends."""
    total = a + b
    centre = np.where(total > 0, a / np.where(total > 0, total, 1.0), 0.0)
    rounding = _SHARE_ROUNDING * (np.abs(a) + np.abs(b))
    lower, upper = np.full(a.shape, np.inf), np.full(a.shape, -np.inf)
    for piece, (low, high) in enumerate(pairwise(share_edges(width))):
        start, end = np.maximum(shares[0], low), np.minimum(shares[1], high)
        inside, end = start <= end, np.maximum(start, end)
        # A parabola in 1 / r: its largest or smallest value is at an end, or at the noisy share.
        for share in (start, end, np.clip(centre, start, end)):
            value = ((2 * share - 1) * a / share + 2 * b) / share / width**2
            reach = margins[piece] + rounding / low / low / width**2
            np.minimum(lower, value - reach, out=lower, where=inside)
            np.maximum(upper, value + reach, out=upper, where=inside)
    return lower, upper


def usual_margin(event: CountNoise, width: int, confidence: float) -> float:
    """Return about half the length of an interval in a large cell whose weights are a quarter of the largest [rows].

    Formula: l(1/4) = 8 (b - a) / M^2.
    """
    return quantile(event, [8 / width**2, 8 / width**2], 1 - (1 - confidence) * (1 - _OF_THE_BOX))


def share_edges(width: int) -> list[float]:
    """Return the ends of the pieces of r from 1/M to 1, each larger than the one before by the same ratio."""
    # Of six digits, and then by products: every machine must cut alike.
    ratio, edges = six_digits_up(float(width) ** (1 / PIECES)), [1 / width]
    while edges[-1] < 1 and len(edges) < PIECES:
        edges.append(min(1.0, edges[-1] * ratio))
    return [*edges, 1.0]


@lru_cache(maxsize=64)
def line_margins(event: CountNoise, width: int, confidence: float) -> Floats:
    """Return bounds on the noise of l(r) for the r of each piece; shape (pieces,) [rows]."""
    edges = np.array(share_edges(width))
    low, high = edges[:-1], edges[1:]
    of_squares = np.maximum(np.abs(2 * low - 1) / low / low, np.abs(2 * high - 1) / high / high)
    weights = np.stack([of_squares, 2 / low, np.zeros(low.size)]) / width**2
    found = np.array([six_digits_up(each) for each in three_noises(event, weights, confidence)])
    found.flags.writeable = False
    return found


# --- Ratios of two noisy sums of columns that are nowhere below 0; intervals hold where the lower sum is near 0 too.


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
    found = np.empty(PIECESOfRatios)
    for piece in range(PIECESOfRatios):
        most = (1 - piece / PIECESOfRatios) / unit, (piece + 1) / PIECESOfRatios / other
        terms = [(most[0] * weight, upper_event) for weight in upper]
        terms += [(most[1] * weight, lower_event) for weight in lower]
        found[piece] = six_digits_up(mixed_quantile(terms, confidence))
    found.flags.writeable = False
    return found
