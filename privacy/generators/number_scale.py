"""How far numbers are stretched that fill little of their declared range: one factor, from noisy counts of norms.

Vectors are scaled by declared bounds and clipped at a norm that follows from the columns alone, the root of 1/16 a
number, and noise is proportional to that norm: numbers that stay in a small part of their range drown. So the rows
are counted by the norm of their numbers about a measured centre, in shells whose radii grow by the fourth root of 2:

    counts      rows in each shell, |x - centre| over the numbers' entries; one row is in one shell
    radius      the outer radius of the shell that the given share of the (noisy) rows lies within
    factor      by which that radius becomes the public norm; at least 1, at most `MOST`

What is measured afterwards, and what is trained, sees numbers times the factor, about the centre. The plan does not
depend on it: events are in units of the clipping norm, and that stays what it was.

Source: Huang, Liang, Yi 2021, "Instance-optimal mean estimation under differential privacy" (a clipping norm from a
private quantile of norms). Deviates in a histogram instead of a search, and in that numbers are stretched.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

import numpy as np

from privacy.arrays import Floats
from privacy.grant.measurement import SumMeasurement
from privacy.learning.embedding import Embedding, embedding
from privacy.learning.groups import NormShells
from privacy.learning.lattice import MOST_BITS
from privacy.learning.layout import RowLayout
from privacy.learning.moments import Moments

MOST: Final = 64.0
"""Largest factor: with it products with axes stay whole in float64 (`Projection`)."""
WITHIN: Final = 0.5
"""The share of rows that is to lie within the norm."""
_SHELLS_AN_OCTAVE: Final = 4
_OCTAVES: Final = 9


def numbers_of(layout: RowLayout, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return those of the columns that are numbers; pictures are not."""
    return tuple(name for name in names if layout.column(name).kind == "number")


def shells_statistic(layout: RowLayout, numbers: tuple[str, ...], centre: Floats | None) -> Moments:
    """Return the counts of rows by the norm of their numbers.

    Args:
        layout: of all columns.
        numbers: at least one column.
        centre: of their entries; without it a stand-in of the same bound.
    """
    width = layout.select(numbers).width
    # The root of the width, rounded up: entries lie in [0, 1], so that no vector is clipped.
    bound = Fraction(math.isqrt(width * 10**6) + 1, 10**3)
    about = embedding(layout, bound=bound, bits=MOST_BITS, columns=numbers, centre=centre)
    return shells_within(about)


def shells_within(embedded: Embedding) -> Moments:
    """Return the counts of rows by the norm of their vectors.

    Args:
        embedded: from rows to vectors, in 2^16 units of the bound; larger norms are counted in the last shell.
    """
    return Moments(embedded, NormShells(np.rint((_radii() * 2.0**MOST_BITS) ** 2).astype(np.int64)), ("counts",))


def mean_square(statistic: Moments, measured: SumMeasurement, *, rows: float) -> float:
    """Return the rows' mean squared norm, a shell's rows having the product of its two radii.

    Args:
        statistic: a `shells_within`.
        measured: its noisy counts.
        rows: noisy number of rows, at least 1 [rows].
    Privacy: post-processing.
    """
    counts = _counts(np.asarray(statistic.blocks(measured.values).counts), rows)
    radii = np.concatenate([[0.0], _radii(), [1.0]]) * float(statistic.embedding.bound)
    return float(counts @ (radii[1:] * radii[:-1])) / rows


def measured_factor(statistic: Moments, measured: SumMeasurement, *, rows: float) -> float:
    """Return the factor by which numbers are stretched.

    Args:
        statistic: a `shells_statistic`.
        measured: its noisy counts.
        rows: noisy number of rows, at least 1 [rows].
    Privacy: post-processing.
    """
    bound, numbers = float(statistic.embedding.bound), len(statistic.embedding.columns)
    counts = _counts(np.asarray(statistic.blocks(measured.values).counts), rows)
    # The first shell at which the cumulated counts reach the wanted share.
    within = np.cumsum(counts)
    place = int(np.searchsorted(within, WITHIN * within[-1]))
    # The share is reached beyond the last radius only: nothing is gained by stretching.
    if place >= _radii().size:
        return 1.0
    return float(np.clip(math.sqrt(numbers / 16) / (bound * _radii()[place]), 1.0, MOST))


def _radii() -> Floats:
    """Return the shells' radii, rising, in the bound of the norm."""
    steps = np.arange(1, _OCTAVES * _SHELLS_AN_OCTAVE + 1)[::-1]
    return np.asarray(2.0 ** (-steps / _SHELLS_AN_OCTAVE))


def _counts(noisy: Floats, total: float) -> Floats:
    """Return the nearest counts that are not negative and add up to a total."""
    # The projection onto the simplex: what is taken off follows from the sorted counts.
    falling = np.sort(noisy)[::-1]
    over = (np.cumsum(falling) - total) / np.arange(1, noisy.size + 1)
    return np.asarray(np.maximum(noisy - over[np.flatnonzero(falling > over)[-1]], 0.0))
