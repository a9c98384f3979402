"""Arrays over the cells of a clique: one axis a column, in its order. In log space minus infinity is a zero."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from contracts.contract.impossible_cells import Clique
from privacy.arrays import Floats


def aligned(values: Floats, clique: Sequence[str], onto: Sequence[str]) -> Floats:
    """Return a view of `values` that broadcasts against arrays over `onto`, which must contain the clique."""
    order = sorted(range(len(clique)), key=lambda axis: onto.index(clique[axis]))
    present = set(clique)
    sizes = iter([values.shape[axis] for axis in order])
    shape = [next(sizes) if name in present else 1 for name in onto]
    return values.transpose(order).reshape(shape)


def product(factors: Sequence[tuple[Clique, Floats]], clique: Clique, shape: tuple[int, ...]) -> Floats:
    """Return the log of the product of log-space factors over `clique`, a new array."""
    total = np.zeros(shape)
    for columns, values in factors:
        total += aligned(values, columns, clique)
    return total
