"""What the negative-ℓ2 paper compares itself with, and the iteration that its closed form replaces. None is released.

Clip, then correct the sum by a factor or by a constant (section 2.3; clip and rescale is its baseline LM): both bias
the table. Lasso and nonnegative Lasso, in closed form:

    argmin of ‖v - β‖² + λ‖β‖₁,  over all β (eq. 4) or over β ≥ 0 (eq. 5)
The objective separates by cell, so no solver is needed: cells move towards 0 by λ/2 and stop there (the square in
eq. 4 has no factor 1/2). `rescale_to_total(nonnegative_lasso(v, penalty=λ), total)` is the paper's NNL.

A second derivation of `negative_l2`:

    β_{k+1} = argmin over the scaled simplex of ‖v - β‖² - 2λ β_kᵀβ  =  projection of v + λ β_k   (eq. 12 and 13)
A projection moves no two points apart, so the map contracts by λ: it has one fixed point, reached from every start,
and that point is the closed form of eq. 14 (section 3.1; the bound on the remaining distance is Banach's).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from privacy.arrays import Numbers
from privacy.refine.negative_l2 import check_lambda
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


@dataclass(frozen=True)
class Iterated:
    """Where the iteration ended.

    Args:
        values: the last point, float64 [units].
        iterations: how many projections were made.
        distance: a bound on the Euclidean distance to the fixed point [units].
    """

    values: NDArray[np.float64]
    iterations: int
    distance: float


def difference_of_convex(
    values: Numbers,
    total: float,
    *,
    lambda_: float,
    start: NDArray[np.float64] | None = None,
    tolerance: float = 1e-9,
    max_iterations: int = 10_000,
) -> Iterated:
    """Linearise -λ‖β‖² around the last point, project, and repeat until the fixed point is near.

    Args:
        values: noisy counts, any shape, finite [units].
        total: the sum to reach, ≥ 0 [units].
        lambda_: strength λ in [0, 1) [dimensionless].
        start: first β₀, same shape; None for the projection of the values.
        tolerance: the distance at which to stop, ≥ 0 [units].
        max_iterations: projections at most, ≥ 1.
    Returns:
        Iterated: the point, how it was reached and how far it can be from the fixed point.
    Raises:
        ValueError: λ outside [0, 1), or what `project_simplex` refuses.
    Privacy: post-processing.
    Source: negative ℓ2 paper, eq. 12 and 13.
    """
    check_lambda(lambda_)
    if max_iterations < 1:
        raise ValueError(f"max_iterations must be at least 1, not {max_iterations}")
    point = project_simplex(values, total) if start is None else np.asarray(start, np.float64)
    distance, done = np.inf, 0
    while distance > tolerance and done < max_iterations:
        done += 1
        following = project_simplex(values + lambda_ * point, total)
        # Banach: the rest of the way is at most λ / (1 - λ) times the last step.
        distance = lambda_ / (1 - lambda_) * float(np.linalg.norm((following - point).reshape(-1)))
        point = following
    return Iterated(point, done, distance)
