"""Lasso and nonnegative Lasso of a noisy table: the paper's baselines, in closed form.

    argmin of ‖v - β‖² + λ‖β‖₁,  over all β (eq. 4) or over β ≥ 0 (eq. 5)
The objective separates by cell, so no solver is needed: cells move towards 0 by λ/2 and stop there (the square in
eq. 4 has no factor 1/2). Neither keeps the total; `clipping` has the corrections of section 2.3:
`rescale_to_total(nonnegative_lasso(v, penalty=λ), total)` is the paper's NNL.
"""

from __future__ import annotations

from math import isfinite

import numpy as np
from numpy.typing import NDArray

from privacy.arrays import Numbers
from privacy.refine.simplex import check_projectable


def lasso(values: Numbers, *, penalty: float) -> NDArray[np.float64]:
    """Return the minimiser of eq. 4.

    Formula:  β_i = sign(v_i) max(0, |v_i| - λ/2)
    Args:
        values: noisy counts, any shape, finite [units].
        penalty: λ ≥ 0 [units].
    Raises:
        ValueError: λ is negative or not finite, or a cell is not finite.
    Privacy: post-processing.
    Source: negative ℓ2 paper, eq. 4.
    """
    _check_penalty(penalty)
    check_projectable(values, 0)
    return np.copysign(np.maximum(np.abs(values) - penalty / 2, 0.0), values) + 0.0


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
    _check_penalty(penalty)
    check_projectable(values, 0)
    return np.maximum(values - penalty / 2, 0.0)


def _check_penalty(penalty: float) -> None:
    """Refuse a penalty that is no finite number of at least 0."""
    if not isfinite(penalty) or penalty < 0:
        raise ValueError(f"penalty must be finite and at least 0, not {penalty}")
