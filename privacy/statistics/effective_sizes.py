"""Effective sample sizes per cell, from the sums of weights and of their squares: post-processing of one draw.

Kish's effective size of n rows with weights w is (sum w)^2 / sum w^2: n where all weights are alike, less where they
differ. The draw adds the weight up as a column that is weighted by itself. With M the largest weight, in steps, a
cell has

    a = sum w w      b = sum w (M - w)      (a + b) / M = sum w      size = (a + b)^2 / (M^2 a)

An interval takes what two tests leave. Of 5 % that it may miss, 1.5 % are the first's.

    box     each noise lies within a quantile of its own. The size rises with b. In a it falls up to a = b, and rises
            from there. So its range over a box is known
    line    at the true r = a / (a + b) the noise of  l(r) = ((2 r - 1) a / r^2 + 2 b / r) / M^2  is a weighted sum,
            and without noise l(r) is the size: it is the tangent of the size at r. So the size is within a quantile
            of l(r) for some r that the box allows. As a function of r, l is flat at the noisy a / (a + b): what r may
            be matters little

What is known of true numbers cuts the box: neither is below 0, and a weight of w whole steps has w <= w^2, so
sum w <= a, or b <= (M - 1) a, or r >= 1 / M. A noisy number below 0 has also the line of 0: no interval is shorter
than what the noise can tell apart. Quantiles of lines are taken piece by piece of r, with both weights at their
largest there.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.accounting.events import CountNoise
from privacy.arrays import Floats
from privacy.statistics.estimates import Estimates
from privacy.statistics.noise_quantiles import quantile, six_digits_up
from privacy.statistics.variances import three_noises

PIECES: Final = 256
"""Into how many pieces of one ratio the shares from 1/M to 1 are cut."""
_OF_THE_BOX: Final = 0.3
"""The share of misses that the box may have."""
_ROUNDING: Final = 2.0**-44
_CHUNK: Final = 2**13


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
    margin = six_digits_up(quantile(event, [1.0], 1 - missed * _OF_THE_BOX / 2)) + _ROUNDING * sum(nearest)
    (least_a, most_a), (least_b, most_b) = ((np.maximum(each - margin, 0.0), each + margin) for each in nearest)
    # The size is largest at the most of b that goes with an a: at the largest a, or where b is bounded by a.
    bounded = np.clip(most_b / max(width - 1, 1), least_a, most_a)
    upper = np.maximum(*(_size(each, np.minimum(most_b, (width - 1) * each), width) for each in (bounded, most_a)))
    lower = _size(np.clip(least_b, least_a, most_a), least_b, width)
    upper = np.maximum(lower, upper)  # where no pair in the box is possible
    shares = _share(least_a, most_b), _share(most_a, least_b)
    margins = line_margins(event, width, 1 - missed * (1 - _OF_THE_BOX))
    lines = [_line(first, last, shares, width, margins) for first, last in ((a, b), nearest)]
    first, last = np.minimum(lines[0][0], lines[1][0]), np.maximum(lines[0][1], lines[1][1])
    met = (first <= upper) & (lower <= last)
    lower, upper = np.where(met, np.maximum(lower, first), lower), np.where(met, np.minimum(upper, last), upper)
    possible = np.maximum(nearest[0], sum(nearest) / width)
    value = _size(possible, sum(nearest) - possible, width)
    return np.stack([np.clip(value, lower, upper), lower * (1 - _ROUNDING), upper * (1 + _ROUNDING)])


def _size(squares: Floats, rest: Floats, width: int) -> Floats:
    """Return (a + b)^2 / (M^2 a), and 0 where a is 0."""
    whole = (squares + rest) / width
    return np.where(squares > 0, whole * (whole / np.where(squares > 0, squares, 1.0)), 0.0)


def _share(squares: Floats, rest: Floats) -> Floats:
    """Return a / (a + b), and 0 where a is 0."""
    return np.where(squares > 0, squares / np.where(squares > 0, squares + rest, 1.0), 0.0)


def _line(a: Floats, b: Floats, shares: tuple[Floats, Floats], width: int, margins: Floats) -> tuple[Floats, Floats]:
    """Return the least and the largest size that the second test leaves for the shares r between two ends."""
    total = a + b
    centre = np.where(total > 0, a / np.where(total > 0, total, 1.0), 0.0)
    rounding = _ROUNDING * (np.abs(a) + np.abs(b))
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
