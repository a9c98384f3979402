"""Roots and factors of positive definite matrices that are the same bits on every machine.

Library routines for matrices add up in an order that depends on the processor. These take one step a column, each a
product and a difference element by element, which IEEE 754 rounds alike everywhere.

Source: Denman and Beavers 1976 (square root by averaging with inverses); Cholesky's factor, column by column.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from privacy.arrays import Floats

MOST_STEPS: Final = 60
_ENOUGH: Final = 2.0**-40


def square_root(matrix: Floats) -> Floats:
    """Return the positive definite square root.

    Args:
        matrix: symmetric and positive definite, shape (n, n).
    Raises:
        ValueError: it is not.
    """
    scale = float(np.diagonal(matrix).max())
    root, inverse_root = matrix / scale, np.eye(len(matrix))
    for _ in range(MOST_STEPS):
        # Both averages are taken of the old pair: root -> A^(1/2), inverse_root -> A^(-1/2).
        following = (root + inverse(inverse_root)) * 0.5
        inverse_root = (inverse_root + inverse(root)) * 0.5
        change = float(np.abs(following - root).max())
        root = following
        if change <= _ENOUGH * float(np.abs(root).max()):
            break
    symmetric: Floats = (root + root.T) * (0.5 * float(np.sqrt(scale)))
    return symmetric


def inverse(matrix: Floats) -> Floats:
    """Return the inverse of a positive definite matrix, by Gauss's elimination in its own order.

    Raises:
        ValueError: a pivot is not above zero.
    """
    found = matrix.copy()
    for place in range(len(found)):
        _check(pivot := float(found[place, place]))
        row, column = found[place] / pivot, found[:, place].copy()
        found -= column[:, None] * row
        found[place], found[:, place] = row, -column / pivot
        found[place, place] = 1.0 / pivot
    return found


def upper_factor(matrix: Floats) -> Floats:
    """Return the upper triangular U with Uᵀ U = matrix.

    Raises:
        ValueError: the matrix is not positive definite.
    """
    rest, factor = matrix.copy(), np.zeros_like(matrix)
    for place in range(len(rest)):
        _check(pivot := float(rest[place, place]))
        row = rest[place] / np.sqrt(pivot)
        row[:place] = 0.0
        factor[place] = row
        rest -= row[:, None] * row
    return factor


def solved(upper: Floats, values: Floats) -> Floats:
    """Return x with  upper x = values,  from the last row to the first.

    Args:
        upper: upper triangular, shape (n, n), no zero on the diagonal.
        values: shape (n, columns).
    """
    found = np.array(values, dtype=np.float64)
    for place in reversed(range(len(upper))):
        found[place] /= upper[place, place]
        found[:place] -= upper[:place, place, None] * found[place]
    return found


def _check(pivot: float) -> None:
    if not pivot > 0:
        raise ValueError(f"a pivot of {pivot:.3g}; allowed: a positive definite matrix")
