"""Projection onto the scaled simplex {β ≥ 0, Σβ = total}, without sorting.

    β_i = max(0, v_i - θ),  θ such that Σ max(0, v_i - θ) = total
Source: Matsumoto, Matsui, Terada (negative ℓ2 paper), eq. 7-10; the active set is found by Michelot 1986: start from
all cells, drop those at or below the current threshold, repeat. Each pass costs what is still active; on noisy sparse
tables a handful of passes suffice.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.int64] | NDArray[np.float64]


def project_simplex(values: Values, total: float) -> NDArray[np.float64]:
    """Return the point of the scaled simplex that is nearest to `values`.

    Args:
        values: any shape, finite [units].
        total: the sum to reach, ≥ 0 [units].
    Returns:
        NDArray[float64]: same shape, non-negative, summing to total up to float rounding [units].
    Raises:
        ValueError: total is negative or not finite, or a cell is not finite.
    Privacy: post-processing.
    Source: negative ℓ2 paper, eq. 8-10.
    """
    check_projectable(values, total)
    if total == 0 or values.size == 0:
        return np.zeros(values.shape, dtype=np.float64)
    return np.maximum(values - threshold(values, total), 0.0)


def threshold(values: Values, total: float) -> float:
    """Return θ, the number that is taken off every cell that stays positive (eq. 10).

    Args:
        values: any shape, at least one cell [units].
        total: > 0 [units].
    """
    active = values.reshape(-1)
    theta = (active.sum() - total) / active.size
    while True:
        kept = active[active > theta]
        if kept.size == active.size:
            return float(theta)
        active = kept
        theta = (active.sum() - total) / active.size


def check_projectable(values: Values, total: float) -> None:
    """Refuse what has no projection; raises `ValueError` naming the argument and the allowed range."""
    if not np.isfinite(total) or total < 0:
        raise ValueError(f"total must be finite and at least 0, not {total}")
    if not np.isfinite(values).all():
        raise ValueError("values must be finite in every cell")
    if values.size == 0 and total > 0:
        raise ValueError("total must be 0 when there is no cell")
