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


def marginal(values: Floats, clique: Sequence[str], onto: Sequence[str]) -> Floats:
    """Return sums of `values` over the columns that are not in `onto`; axes in the order of `onto`."""
    gone = tuple(axis for axis, name in enumerate(clique) if name not in onto)
    kept = [name for name in clique if name in onto]
    summed = values.sum(axis=gone) if gone else values
    return np.asarray(summed).transpose([kept.index(name) for name in onto])
