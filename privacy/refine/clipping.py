"""The plain ways to a table without negative cells: clip, then correct the sum by a factor or by a constant.

Source: negative ℓ2 paper, section 2.3 (the two corrections) and its baseline LM (clip and rescale). Both corrections
bias the table; they are here as baselines.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privacy.arrays import Numbers
from privacy.refine.simplex import check_projectable, project_simplex


def clip_negative(values: Numbers) -> NDArray[np.float64]:
    """Return max(0, v_i) in every cell.

    Args:
        values: any shape, finite [units].
    Raises:
        ValueError: a cell is not finite.
    Privacy: post-processing.
    """
    check_projectable(values, 0)
    return np.maximum(values, 0).astype(np.float64)


def clip_and_rescale(values: Numbers, total: float) -> NDArray[np.float64]:
    """Clip and multiply by one factor: the paper's baseline LM.

    Args:
        values: any shape, finite, one cell at least above 0 unless the total is 0 [units].
        total: the sum to reach, ≥ 0 [units].
    Raises:
        ValueError: the total is negative or not finite, a cell is not finite, or no cell is above 0.
    Privacy: post-processing.
    """
    return rescale_to_total(clip_negative(values), total)


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


def shift_to_total(values: NDArray[np.float64], total: float) -> NDArray[np.float64]:
    """Add one constant to every nonzero cell so that they sum to the total; cells at zero stay there.

    A table without negative cells stays without: what would fall below 0 becomes 0 and the constant grows. That is
    the projection restricted to the nonzero cells. A table with negative cells (the plain Lasso) is shifted as it is.

    Args:
        values: any shape, finite, one cell at least nonzero unless the total is 0 [units].
        total: the sum to reach, ≥ 0 [units].
    Raises:
        ValueError: the total is negative or not finite, or every cell is 0 while the total is not.
    Privacy: post-processing.
    """
    check_projectable(values, total)
    support = values != 0
    if not support.any() and total > 0:
        raise ValueError("values must have a nonzero cell to be shifted to a total above 0")
    shifted = np.zeros(values.shape)
    kept = values[support]
    signed = bool((kept < 0).any())
    shifted[support] = kept + (total - kept.sum()) / kept.size if signed else project_simplex(kept, total)
    return shifted
