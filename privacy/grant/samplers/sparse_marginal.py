"""Noise on a marginal that is not written down: only a grant calls this (law 1).

All layers of a table, from its first threshold to its last, are one draw and cost what the dense table costs. Write V
for the noisy vector over the whole domain, each cell with its own discrete Laplace noise. What is returned is a
function of V and of public or released parameters: the first threshold is public; each next one is computed from them
and from the cells of V at or above the one before (`Depth`); and the result holds the cells of V at or above the last
one. So it is post-processing of V, whose noise is the event, whatever the threshold turns out to be. That the sampler
has the distribution of V cut off at a threshold is shown in `privacy.noise.sparse_laplace`.

The draws of populated cells below the threshold die with this call. Nobody sees a layer before all of it is written:
the rule by which the threshold falls is a value, not code of the caller.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privacy.accounting.events import DiscreteLaplace
from privacy.noise.random_bytes import RandomBytes
from privacy.noise.sparse_laplace import SparseLaplace
from privacy.refine.sparse import SparseTable
from privacy.refine.sparse_depth import Depth


def draw_listed(
    populated: tuple[NDArray[np.int64], NDArray[np.int64]],
    *,
    cells: int,
    event: DiscreteLaplace,
    until: Depth,
    source: RandomBytes,
) -> SparseTable:
    """Draw the noisy cells at or above a threshold, and lower it as `until` says.

    Args:
        populated: codes, ascending and distinct, and exact counts of the populated cells.
        cells: size of the declared domain.
        event: the noise.
        until: how far down.
        source: where the randomness comes from.
    Returns:
        SparseTable: without any mark of which cells are populated.
    Privacy: that of the event, by the module's docstring.
    """
    scale, first = event.inverse_scale, until.first
    drawn = SparseLaplace(*populated, cells=cells, inverse_scale=scale, threshold=first, source=source)
    table = SparseTable(*drawn.drawn(), first, cells)
    while (wanted := until.next(table)) != table.threshold:
        table = SparseTable(*drawn.lower(wanted), wanted, cells)
    return table
