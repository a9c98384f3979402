"""Negative ℓ2 by the iteration that the closed form replaces.

    β_{k+1} = argmin over the scaled simplex of ‖v - β‖² - 2λ β_kᵀβ  =  projection of v + λ β_k   (eq. 12 and 13)
A projection moves no two points apart, so the map contracts by λ: it has one fixed point, reached from every start,
and that point is the closed form of eq. 14. Kept as a second derivation of `negative_l2`, not for releases.
Source: negative ℓ2 paper, section 3.1; the bound on the remaining distance is Banach's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privacy.arrays import Numbers
from privacy.refine.negative_l2 import check_lambda
from privacy.refine.simplex import project_simplex


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
