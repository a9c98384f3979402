"""Whole numbers that keep the total: the nearest lattice point of the scaled simplex.

Source: negative ℓ2 paper, section 2.4: the nearest integer point rounds cells up or down so that the sum holds, which
is the largest-remainder rule. Equal remainders go to the lower cell number, so that the result replays byte for byte.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def round_to_total(values: NDArray[np.float64], total: int) -> NDArray[np.int64]:
    """Round non-negative cells to whole numbers whose sum is exactly `total`.

    Args:
        values: any shape, non-negative, summing to `total` up to float rounding [units].
        total: ≥ 0 [units].
    Returns:
        NDArray[int64]: same shape, each cell within one unit of its value, summing to total.
    Raises:
        ValueError: the values do not sum to the total up to rounding, or one is negative.
    Privacy: post-processing.
    """
    flat = values.reshape(-1)
    if flat.size and flat.min() < 0:
        raise ValueError("values must not be negative")
    whole = np.floor(flat)
    rounded = whole.astype(np.int64)
    missing = total - int(rounded.sum())
    fraction = flat - whole
    open_cells = np.flatnonzero(fraction > 0)
    if not 0 <= missing <= max(open_cells.size, 1):
        raise ValueError(f"values must sum to total = {total} up to rounding; {missing} units are missing")
    if missing:
        candidates = open_cells if open_cells.size >= missing else np.flatnonzero(flat > 0)
        order = np.argsort(-fraction[candidates], kind="stable")
        rounded[candidates[order[:missing]]] += 1
    return rounded.reshape(values.shape)
