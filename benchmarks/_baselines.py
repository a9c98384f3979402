"""What the negative-ℓ2 paper compares itself with. None is released.

Clip, then correct the sum by a factor (section 2.3; its baseline LM): it biases the table. The nonnegative Lasso, in
closed form:

    argmin of ‖v - β‖² + λ‖β‖₁  over β ≥ 0 (eq. 5)
The objective separates by cell, so no solver is needed: cells move towards 0 by λ/2 and stop there (the square has
no factor 1/2). `rescale_to_total(nonnegative_lasso(v, penalty=λ), total)` is the paper's NNL.
"""

from __future__ import annotations

from math import isfinite

import numpy as np
from numpy.typing import NDArray

from privacy.arrays import Numbers
from privacy.refine.simplex import check_projectable


def clip_and_rescale(values: Numbers, total: float) -> NDArray[np.float64]:
    """Clip and multiply by one factor: the paper's baseline LM.

    Args:
        values: any shape, finite, one cell at least above 0 unless the total is 0 [units].
        total: the sum to reach, ≥ 0 [units].
    Raises:
        ValueError: the total is negative or not finite, a cell is not finite, or no cell is above 0.
    Privacy: post-processing.
    """
    check_projectable(values, 0)
    return rescale_to_total(np.maximum(values, 0).astype(np.float64), total)


def rescale_to_total(values: NDArray[np.float64], total: float) -> NDArray[np.float64]:
    """Multiply every cell by one factor so that they sum to the total.

    Formula:  β_i = v_i · total / Σv
    Args:
        values: any shape, finite, with a sum above 0 unless the total is 0 [units].
        total: the sum to reach, ≥ 0 [units].
    Raises:
        ValueError: the total is negative or not finite, or the sum is not above 0.
    Privacy: post-processing.
    """
    check_projectable(values, total)
    if total == 0:
        return np.zeros(values.shape)
    found = float(values.sum())
    if not found > 0:
        raise ValueError("values must have a sum above 0 to be rescaled to a total above 0")
    return values * (total / found)


def nonnegative_lasso(values: Numbers, *, penalty: float) -> NDArray[np.float64]:
    """Return the minimiser of eq. 5.

    Formula:  β_i = max(0, v_i - λ/2)
    Args:
        values: noisy counts, any shape, finite [units].
        penalty: λ ≥ 0 [units].
    Raises:
        ValueError: λ is negative or not finite, or a cell is not finite.
    Privacy: post-processing.
    Source: negative ℓ2 paper, eq. 5.
    """
    if not isfinite(penalty) or penalty < 0:
        raise ValueError(f"penalty must be finite and at least 0, not {penalty}")
    check_projectable(values, 0)
    return np.maximum(values - penalty / 2, 0.0)
