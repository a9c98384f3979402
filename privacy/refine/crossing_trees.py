"""Smallest places that lie in several trees: their estimates are moved until they add up to the places of each tree.

Each tree has its own least squares, from what was measured at its own levels, at the whole and at the smallest
places. These estimates are unbiased, with exact variances, and intervals are theirs. Together they contradict each
other a little: the places of one tree cross those of the other. So published counts come of smallest places that are
moved to the sums of either tree in turns, as in a table with several margins. Every turn takes time linear in the
number of cells. The first tree comes last: its sums are met exactly. Where the trees leave it free, the others' are
met too; where a place of one is a union of places of the other, the first tree decides.
Source: alternating projections (Deming and Stephan 1940 fit margins in turns by factors; here by shifts, which keep
estimates unbiased).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.arrays import Floats
from privacy.refine.margin_spaces import spread
from privacy.refine.place_estimates import SpineEstimate, down_shares, downwards, smallest

TURNS: Final = 30
NEAR: Final = 2.0**-10
"""Turns end when no estimate moves further [rows]."""


@dataclass(frozen=True, eq=False)
class CrossingTree:
    """A further tree over the smallest places of a first one.

    Args:
        estimate: its upward pass.
        order: of each of its smallest places, in its order, the number in the first tree.
    """

    estimate: SpineEstimate
    order: NDArray[np.int64]


def crossed(first: SpineEstimate, others: Sequence[CrossingTree], values: Floats, above: Floats) -> Floats:
    """Return the estimates of the smallest places, moved towards the sums of all trees.

    Args:
        first: the upward pass of the first tree.
        others: further trees, with at least one level between the whole and the smallest places.
        values: final estimates of the smallest places of the first tree, shape (places, cells) [rows].
        above: those of the level above them.
    Privacy: post-processing; deterministic. Linear in what was measured, so that the estimates stay unbiased.
    """
    shape = first.measured.shape
    top = first.upward[0] if first.upward else smallest(first.measured, 0, 1)
    wanted = [_above_smallest(each.estimate, top) for each in others]
    found = values.reshape(-1, *shape).copy()
    last = above.reshape(-1, *shape)
    for _ in range(TURNS):
        before = found.copy()
        for each, sums in zip(others, wanted, strict=True):
            found[each.order] = _added_up_to(each.estimate, found[each.order], sums)
        found = _added_up_to(first, found, last)
        if np.abs(found - before).max() < NEAR:
            break
    return found.reshape(values.shape)


def _above_smallest(estimate: SpineEstimate, top: Floats) -> Floats:
    """Return the estimates of the level above the smallest places, under those of the first tree's whole."""
    found = top
    for level in range(1, len(estimate.measured.sizes) - 1):
        _, _, found = downwards(estimate, level, found, 0, estimate.measured.sizes[level - 1])
    return found


def _added_up_to(estimate: SpineEstimate, values: Floats, sums: Floats) -> Floats:
    """Share out what smallest places lack of the places above them, in proportion to their variances."""
    measured, last = estimate.measured, len(estimate.measured.sizes) - 1
    lacking = sums - np.add.reduceat(values, measured.starts(last - 1)[:-1], axis=0)
    shares = down_shares(estimate, last, 0, measured.sizes[last])
    return np.asarray(values + spread(shares, lacking[measured.parents[last - 1]]))
