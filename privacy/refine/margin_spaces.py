"""The parts into which counts of one place fall by its columns, on which tables measured together are simple.

Let a place have counts over d columns of n_1, ..., n_d cells. A set S of columns is written as bits: bit i for column
i. P_S projects counts on what they say of the columns of S together, beyond all smaller sets; the P_S are orthogonal
and add up to the identity. A_T averages over the columns outside T, so that A_T = sum of P_S over S within T.

Tables B with independent noise of variance v_B have, together, the precision

    sum over B of M_B' M_B / v_B  =  sum over S of l_S P_S,
    l_S = sum over B that contain S of (cells outside B) / v_B

where M_B sums the counts up to table B. So all covariances of such estimates are one number for each S, and stay so
when places are added up and combined. `spread` applies such an operator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from privacy.arrays import Floats


def bits_of(kept: Sequence[bool]) -> int:
    """Return a set of columns as bits."""
    return sum(1 << place for place, own in enumerate(kept) if own)


def precisions(shape: Sequence[int], tables: Mapping[int, float]) -> Floats:
    """Return l_S for each S.

    Args:
        shape: cells of each column.
        tables: variance of each table's noise, by its columns as bits [rows^2].
    Returns:
        Shape (2^d,) [1 / rows^2]; 0 where no table tells.
    """
    found = np.zeros(1 << len(shape))
    for table, variance in tables.items():
        outside = prod(size for place, size in enumerate(shape) if not table >> place & 1)
        for part in range(found.size):
            if part & table == part:
                found[part] += outside / variance
    return found


def averaging_weights(values: Floats) -> Floats:
    """Return c with sum_S values_S P_S = sum_T c_T A_T, along the last axis: c_T = sum over S around T, signed."""
    weights = np.array(values, dtype=np.float64)
    columns = int(weights.shape[-1]).bit_length() - 1
    for place in range(columns):
        paired = weights.reshape(*weights.shape[:-1], -1, 2, 1 << place)
        paired[..., 0, :] -= paired[..., 1, :]
    return weights


def spread(values: Floats, counts: Floats) -> Floats:
    """Apply sum_S values_S P_S to the counts of each place.

    Args:
        values: for each place and S, shape (places, 2^d); or (2^d,) for all places alike.
        counts: shape (places, n_1, ..., n_d).
    """
    weights = averaging_weights(np.broadcast_to(values, (counts.shape[0], values.shape[-1])))
    return _spread(weights, counts, counts.ndim - 1)


def _spread(weights: Floats, counts: Floats, columns: int) -> Floats:
    """Split by the last column: what keeps it, and what averages over it."""
    if columns == 0:
        # Every column was decided; axes that are averaged over have one cell left.
        return weights[:, 0].reshape(-1, *[1] * (counts.ndim - 1)) * counts
    half = weights.shape[1] // 2
    kept = _spread(weights[:, half:], counts, columns - 1)
    if not weights[:, :half].any():
        return kept
    kept += _spread(weights[:, :half], counts.mean(axis=columns, keepdims=True), columns - 1)
    return kept


def cell_shares(shape: Sequence[int], cells: Sequence[NDArray[np.bool_]]) -> Floats:
    """Return |P_S a|^2 for each S, where a marks the cells that lie in all of some labels of each column.

    A sum of counts over such cells has the variance sum_S w_S |P_S a|^2, where the counts have sum_S w_S P_S.

    Args:
        shape: cells of each column.
        cells: for each column which labels are in, shape (n_i,).
    """
    found = np.ones(1 << len(shape))
    for part, (place, size) in product(range(found.size), enumerate(shape)):
        inside = int(cells[place].sum())
        # Of a mark with m of n cells, m^2 / n is its mean's part and m - m^2 / n the rest.
        mean = inside**2 / size
        found[part] *= inside - mean if part >> place & 1 else mean
    return found
