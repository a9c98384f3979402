"""Negative-ℓ2 regularised refinement: sparser than the projection and less shrunken.

    argmin over the scaled simplex of ‖v - β‖² - λ‖β‖²   (eq. 11)
With γ = 1 - λ the objective is γ‖β - v/γ‖² plus a constant, so for λ < 1 its exact global optimum is the projection
of v/γ. Source: Matsumoto, Matsui, Terada, eq. 11 and 14. Deviation: the paper prints γ = 1 - nλ, whose n comes from
a regression with a 1/n loss; for eq. 11 as written it is 1 - λ, and that is the λ of this module.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privacy.arrays import Numbers
from privacy.refine.simplex import project_divided


def negative_l2(
    values: Numbers, total: float, *, lambda_: float, out: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Return the minimiser of eq. 11 over the scaled simplex.

    Args:
        values: noisy counts, any shape, finite [units].
        total: the sum to reach, ≥ 0 [units].
        lambda_: strength λ in [0, 1); 0 is the plain projection [dimensionless].
        out: where to put the result, as in `project_simplex`.
    Returns:
        NDArray[float64]: same shape, non-negative, summing to total up to float rounding [units].
    Raises:
        ValueError: λ outside [0, 1), a total below 0, a cell that is not finite, or an `out` that does not fit.
    Privacy: post-processing.
    Source: negative ℓ2 paper, eq. 11 and 14 with γ = 1 - λ.
    """
    check_lambda(lambda_)
    return project_divided(values, total, gamma=1.0 - lambda_, out=out)


def check_lambda(lambda_: float) -> None:
    """Refuse a λ outside [0, 1); raises `ValueError`."""
    if not 0 <= lambda_ < 1:
        raise ValueError(f"lambda must lie in [0, 1), not {lambda_}")
