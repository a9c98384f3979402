"""Intervals of variances per cell, by inverted tests of noisy moments; they hold in cells of every size.

With a, b, c the noisy moments of a cell (`privacy.statistics.moments`), in steps of which each row hands out U, let

    F(q) = q^2 a - q (1 - q) b + (1 - q)^2 c,      N = a + b + c

Without noise F(q) is U times the sum of (p - q)^2 over the rows, and with m the true mean F(m) = v N, v the variance.
So with noises X, Y, Z, at the true m and v

    (1 - m) c + (1/2 - m) b - m a   = the noise (1 - m) Z + (1/2 - m) Y - m X
    F(m) - v N                      = the noise (m^2 - v) X - (m (1 - m) + v) Y + ((1 - m)^2 - v) Z

whatever the number of rows. The set of all (m, v) for which neither is larger than the noise's quantile holds the
true pair as often as stated. Of 5 % that it may miss, 0.6 % are the first's: its part in the length of an interval
is of second order, since F is least at the mean. The interval is from the least v of the set to the largest.

Quantiles are taken box by box, m in one of 64 pieces and v in one of 32, with each weight at its largest there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.accounting.events import CountNoise, DiscreteLaplace
from privacy.arrays import Floats
from privacy.statistics.noise_quantiles import PIECES, quantile, six_digits_up

LARGEST: Final = 0.25
"""The largest variance of numbers from 0 to 1: half of them at each end."""
BOXES: Final = 32
"""Into how many pieces variances from 0 to the largest are cut."""
_OF_THE_MEAN: Final = 0.12
"""The share of misses that the mean's test may have."""
_ROUNDING: Final = 2.0**-44
_APART: Final = 0.005
_NEGLIGIBLE: Final = 2.0**-40
_STEPS: Final = 48
_CHUNK: Final = 2**11


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
    for start in range(0, parts.shape[1], _CHUNK):
        part = slice(start, start + _CHUNK)
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
    rounding = _ROUNDING * np.abs(parts).sum(axis=0) * spread
    edges = np.arange(PIECES + 1) / PIECES
    # SHAPE (pieces, cells): where means of each piece pass the first test.
    reach = means[:, None] * spread + rounding
    start, end = np.maximum(centre - reach, edges[:-1, None]), np.minimum(centre + reach, edges[1:, None])
    pieces, cells = np.nonzero((start <= end) & known)
    pairs = _Pairs.of(parts * spread, start[pieces, cells], end[pieces, cells], centre, pieces, cells)
    lower = _first(pairs, range(BOXES), squares, spread, rounding, sink)[0]
    upper = _first(pairs, range(BOXES)[::-1], squares, spread, rounding, sink)[1]
    empty = lower > upper
    lower, upper = lower * (1 - _ROUNDING), upper * (1 + _ROUNDING) + sink
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
        return cls(pieces, cells, least, most, middle * (1 - middle) * (1 + _ROUNDING))


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
    found = np.empty(PIECES)
    for piece in range(PIECES):
        start, end = piece / PIECES, (piece + 1) / PIECES
        weights = [1 - start, max(abs(0.5 - start), abs(0.5 - end)), end]
        found[piece] = six_digits_up(quantile(event, weights, confidence))
    found.flags.writeable = False
    return found


@lru_cache(maxsize=64)
def square_margins(event: CountNoise, confidence: float, sink: float) -> Floats:
    """Return bounds on the noise of F(m) - v N in every box of m and v; shape (64, 32) [steps]."""
    ends = np.arange(PIECES + 1) / PIECES
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
    found = found.reshape(PIECES, BOXES)
    found.flags.writeable = False
    return found


def three_noises(event: CountNoise, weights: Floats, confidence: float) -> Floats:
    """Return q with P(|w1 X + w2 Y + w3 Z| <= q) >= confidence for many triples of weights above 0 at once.

    The continuous laws next to the noises, and the sum of the weights beside it, as `noise_quantiles` has it: of
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
        return np.asarray((-float(ndtri(exceeding / 2)) * deviation + margin) * (1 + _ROUNDING))
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
    return np.asarray((high / float(event.inverse_scale) + margin) * (1 + _ROUNDING))
