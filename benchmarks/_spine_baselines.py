"""Counts down a tree of places as TopDown and BlueDown make them, from the same draws, in the same roundings.

Both go from the whole down, and each level is estimated under the counts of the level above, which are whole already.
TopDown estimates a level from its own measurements alone; BlueDown by least squares from all levels below.
Sources: Abowd et al. 2022 (TopDown); Cumings-Menon et al. 2024 (BlueDown). Both there solve constrained problems
level by level with a commercial solver; here the nearest counts are found as in `privacy.refine.place_counts`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from privacy.arrays import Floats
from privacy.refine import estimates as place_estimates
from privacy.refine import place_counts
from privacy.refine.estimates import MeasuredSpine, SpineEstimate
from privacy.refine.margin_spaces import spread


def own_measurements(measured: MeasuredSpine) -> tuple[list[Floats], list[Floats]]:
    """Return the estimates of each level from its own tables alone, and their variances by place and set."""
    values, variances = [], []
    for level, size in enumerate(measured.sizes):
        own = 1 / place_estimates._own_precisions(measured, level)
        told = spread(own, place_estimates._told(measured, level, 0, size))
        values.append(place_estimates._with_margins(told, measured, level, 0, size))
        spreads = np.broadcast_to(own, (size, own.size)).copy()
        variances.append(place_estimates._without_margins(spreads, measured, level))
    return values, variances


def from_the_top(
    measured: MeasuredSpine, values: Sequence[Floats], variances: Sequence[Floats], *, total: int | None
) -> Iterator[NDArray[np.int64]]:
    """Yield the counts of each level, estimated under those of the level above, (places, cells).

    Args:
        measured: the draws.
        values: estimates of each level; the last may be left out where it is that of its own measurements.
        variances: theirs.
        total: the public number of rows.
    """
    start = SpineEstimate(measured, tuple(values), tuple(variances))
    nobody = [np.zeros((1, prod(measured.shape)), dtype=np.bool_)] * len(measured.sizes)
    _, counts, _ = next(place_counts.whole_counts(start, total=total, impossible=nobody))
    yield counts
    for level in range(1, len(measured.sizes)):
        counts, _ = place_counts._level(start, level, counts, counts.astype(np.float64), nobody[level])
        yield counts
