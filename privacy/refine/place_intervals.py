"""95 % intervals of exact counts down a tree of places, from all measurements together.

The estimate of a cell, or of a sum of cells, before it is made whole and non-negative is unbiased, with the exact
variance that `place_estimates` gives; its noise is a weighted sum of discrete Gaussians. The interval is the estimate
plus and minus two deviations and half a row, so that the whole numbers of a single draw are not cut between two. An
exact count is whole and not negative, so that the ends are rounded inwards and cut at 0: no exact count is lost by
that. An estimate below 0 has the upper end of 0, so that noise alone leaves no interval of one point. At last it is
widened to hold what is published.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.arrays import Floats
from privacy.refine.margin_spaces import cell_shares
from privacy.refine.place_families import GRID

REACH: Final = 2.0
"""Deviations of a normal variable: 95.4 % of it lies within two."""


def interval_ends(
    estimates: Floats, deviations: Floats, published: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return both ends of each interval, whole numbers at least 0, int64 [rows].

    Args:
        estimates: before they were made whole; any shape [rows].
        deviations: of each, of a shape that broadcasts to it [rows].
        published: the counts that are published.
    Privacy: post-processing.
    """
    # On a grid, so that last bits of sums do not move an end.
    middle = np.rint(estimates / GRID) * GRID
    reach = np.ceil(REACH * deviations / GRID) * GRID + 0.5
    lower = np.maximum(np.ceil(middle - reach), 0).astype(np.int64)
    upper = np.floor(np.maximum(middle, 0) + reach).astype(np.int64)
    return np.minimum(lower, published), np.maximum(upper, published)


def deviations_of(variances: Floats, shape: Sequence[int], cells: Sequence[NDArray[np.bool_]]) -> Floats:
    """Return the deviation of the sum over some cells of each place.

    Args:
        variances: by place and set of columns, shape (places, 2^d) [rows^2].
        shape: cells of each column.
        cells: for each column which of its labels are added up (`cell_shares`).
    """
    return np.asarray(np.sqrt(np.maximum(variances @ cell_shares(shape, cells), 0)))


def margin_deviations(variances: Floats, shape: Sequence[int], kept: Sequence[bool]) -> Floats:
    """Return the deviation of a cell of the margin that keeps some columns, for each place."""
    marked = [
        np.arange(size) == 0 if own else np.ones(size, dtype=np.bool_) for size, own in zip(shape, kept, strict=True)
    ]
    return deviations_of(variances, shape, marked)
