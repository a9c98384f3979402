"""Counts at several resolutions under one charge: split of the budget, consistency, whole numbers.

A tree is given by parent arrays: parents[l][i] is the number, in level l, of the parent of node i of level l + 1.
Source: Hay, Rastogi, Miklau and Suciu 2010 (two passes that solve least squares on a tree), generalised to unequal
variances and fan-outs: on a tree the passes are weighted least squares exactly, whatever the variances.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from privacy.arrays import Floats
from privacy.refine.posterior import STEP, check_total

Parents = Sequence[NDArray[np.int64]]
_SHARE_STEP: Final = 10**6
_LOG_SHARE_FLOOR: Final = -12.0


def check_tree(sizes: Sequence[int], parents: Parents) -> None:
    """Refuse parent arrays under which the children of a level do not partition the level above.

    Raises:
        ValueError: a level is missing, a parent does not exist, or a parent has no child.
    """
    if len(parents) != len(sizes) - 1 or not sizes:
        raise ValueError(f"parents must hold one array for each level below the first: {len(sizes) - 1}")
    for level, parent in enumerate(parents):
        if parent.dtype.kind not in "iu" or parent.shape != (sizes[level + 1],):
            raise ValueError(f"parents[{level}] must hold one whole number for each of {sizes[level + 1]} children")
        if parent.size and not (parent.min() >= 0 and parent.max() < sizes[level]):
            raise ValueError(f"parents[{level}] must lie in [0, {sizes[level]})")
        if sizes[level] and np.bincount(parent, minlength=sizes[level]).min() == 0:
            raise ValueError(f"parents[{level}] must partition the level above: every parent needs a child")


def quadtree(rows: int, columns: int, depth: int) -> tuple[NDArray[np.int64], ...]:
    """Return the parent arrays of a mesh whose coarsest level has blocks of 2^depth x 2^depth cells.

    Blocks at the far edges are smaller where the sides are no multiples of 2^depth. Blocks are numbered row by row.
    """
    if min(rows, columns) < 1 or depth < 0:
        raise ValueError(f"rows and columns must be at least 1 and depth at least 0, not {rows}, {columns}, {depth}")
    arrays = []
    for level in range(depth, 0, -1):
        # Rounded up: blocks at the far edges may be smaller.
        down, across = -(-rows >> (level - 1)), -(-columns >> (level - 1))
        above = (np.arange(down) // 2)[:, None] * (-(-columns >> level)) + np.arange(across) // 2
        arrays.append(above.reshape(-1))
    return tuple(arrays)


def split_budget(
    sizes: Sequence[int], *, weights: Sequence[float], noise: Literal["laplace", "gaussian"], total_known: bool
) -> tuple[Fraction, ...]:
    """Return the share of the budget of each level that minimises the weighted variance after consistency.

    Formula: variance ∝ 1 / share² (Laplace: shares of ε) or 1 / share (Gaussian: shares of ρ); the variance after
        consistency is that of a regular tree with the levels' mean fan-out.

    Args:
        sizes: declared number of nodes of each level, coarsest first, not decreasing.
        weights: importance of the mean squared error of each level, ≥ 0, not all 0.
        noise: which noise.
        total_known: the sum over a level is public and exact.
    Returns:
        Multiples of 10^-6, > 0, summing to at most 1.
    Raises:
        ValueError: sizes or weights out of range.
    Privacy: reads public parameters only.
    Source: Hay et al. 2010 for the passes; the split is ours, by numerical minimisation.
    """
    # SciPy takes a second to load, and a checker often needs none of it.
    from scipy.optimize import minimize

    if not sizes or min(sizes) < 1 or any(fine < coarse for coarse, fine in pairwise(sizes)):
        raise ValueError("sizes must be at least 1 and must not decrease")
    if len(weights) != len(sizes) or not np.isfinite(weights).all() or min(weights) < 0 or not any(weights):
        raise ValueError("weights must be finite, at least 0, not all 0, and one for each level")
    power = 2 if noise == "laplace" else 1

    def shares(logs: Floats) -> Floats:
        # A softmax: shares are positive and add up to 1, whatever logarithms the search tries.
        exponent = np.exp(np.clip(logs - logs.max(), _LOG_SHARE_FLOOR, 0))
        return np.asarray(exponent / exponent.sum())

    def loss(logs: Floats) -> float:
        # The logarithm makes the minimum as sharp for small variances as for large ones.
        variances = consistent_variances(sizes, shares(logs) ** -power, total_known)
        return float(np.log(np.dot(weights, variances)))

    start = np.linspace(-1, 0, len(sizes))
    # Few parameters, a smooth function with a flat minimum: no derivative is worth its code.
    best = minimize(loss, start, method="Nelder-Mead", options={"maxiter": 4000, "xatol": 1e-6, "fatol": 1e-10})
    # Rounded down, with room for a millionth a level: together the shares never exceed 1.
    return tuple(Fraction(max(1, int(share * (_SHARE_STEP - len(sizes)))), _SHARE_STEP) for share in shares(best.x))


def consistent_variances(sizes: Sequence[int], variances: Floats, total_known: bool) -> Floats:
    """Return the variance of a node of each level after consistency, for a regular tree of the given level sizes."""
    fan_outs = [fine / coarse for coarse, fine in pairwise(sizes)]
    upward = np.array(variances, dtype=np.float64)
    for level in range(len(sizes) - 2, -1, -1):
        # Upward pass: a node's own measurement and the sum of its children are independent, so precisions add.
        upward[level] = 1 / (1 / upward[level] + 1 / (fan_outs[level] * upward[level + 1]))
    final = upward.copy()
    if total_known:
        # A known sum takes the mean's part, 1/n, off the variance of the coarsest level.
        final[0] *= 1 - 1 / sizes[0]
    for level, fan_out in enumerate(fan_outs, start=1):
        # Downward pass: a child keeps its part that does not move the family's sum, and takes 1/fan-out of the sum's.
        final[level] = upward[level] * (1 - 1 / fan_out) + final[level - 1] / fan_out**2
    return final


def make_consistent(
    noisy: Sequence[NDArray[np.int64]], variances: Sequence[float], parents: Parents, *, total: int | None
) -> tuple[Floats, ...]:
    """Return the weighted least-squares estimates: each parent is the sum of its children.

    Args:
        noisy: noisy counts of each level, coarsest first, whole numbers [units].
        variances: noise variance of each level, > 0 [units²].
        parents: the tree.
        total: sum over each level where it is known exactly, else None [units].
    Returns:
        float64, shapes of noisy; values may be negative [units].
    Raises:
        ValueError: the children do not partition their parents; a variance is not positive; a cell is not finite.
    Privacy: post-processing.
    Source: Hay et al. 2010, section 4.
    """
    check_tree([level.size for level in noisy], parents)
    if len(variances) != len(noisy) or not np.isfinite(variances).all() or min(variances) <= 0:
        raise ValueError("variances must be finite, above 0, and one for each level")
    if not all(np.isfinite(level).all() for level in noisy):
        raise ValueError("noisy must be finite in every cell")
    upward = [level.astype(np.float64) for level in noisy]
    spread = [np.full(level.size, float(variance)) for level, variance in zip(noisy, variances, strict=True)]
    for level in range(len(parents) - 1, -1, -1):
        # Weights in inverse proportion to the variances: the best unbiased mean of two independent estimates.
        sums, their_spread = _sum_up(upward, parents, level), _sum_up(spread, parents, level)
        own = their_spread / (spread[level] + their_spread)
        upward[level] = own * upward[level] + (1 - own) * sums
        spread[level] = own * spread[level]
    final = [upward[0]]
    if total is not None:
        check_total(total, upward[0].size)
        # What the exact total lacks is shared out in proportion to the variances: least squares under one equation.
        final = [upward[0] + spread[0] / spread[0].sum() * (total - upward[0].sum())] if upward[0].size else final
    for level, parent in enumerate(parents):
        # What the family must still gain, shared out in proportion to each child's variance.
        gap = (final[level] - _sum_up(upward, parents, level)) / _sum_up(spread, parents, level)
        final.append(upward[level + 1] + spread[level + 1] * gap[parent])
    return tuple(final)


def _sum_up(levels: Sequence[Floats], parents: Parents, level: int) -> Floats:
    """Sum the children of each node of a level."""
    return np.bincount(parents[level], weights=levels[level + 1], minlength=levels[level].size).astype(np.float64)


def round_tree(estimates: Sequence[Floats], parents: Parents, *, total: int) -> tuple[NDArray[np.int64], ...]:
    """Return whole non-negative counts from the top down: siblings are projected onto their parent's count.

    Args:
        estimates: of each level, coarsest first, finite [units].
        parents: the tree.
        total: sum over each level, ≥ 0 [units].
    Returns:
        int64, shapes of estimates; each parent is exactly the sum of its children [units].
    Raises:
        ValueError: the children do not partition their parents; total is negative.
    Privacy: post-processing. Equal remainders go to the lower number.
    """
    check_tree([level.size for level in estimates], parents)
    check_total(total, estimates[0].size)
    rounded: list[NDArray[np.int64]] = []
    above = np.array([total], dtype=np.int64)
    for level, parent in zip(estimates, (np.zeros(estimates[0].size, np.int64), *parents), strict=True):
        above = _round_siblings(_project_siblings(level, parent, above), parent, above)
        rounded.append(above)
    return tuple(rounded)


def project_tree(estimates: Sequence[Floats], parents: Parents, *, total: int) -> tuple[Floats, ...]:
    """Return non-negative counts from the top down, not rounded: the levels are the sums of the finest one.

    Arguments and errors are those of `round_tree`.
    Privacy: post-processing.
    """
    check_tree([level.size for level in estimates], parents)
    check_total(total, estimates[0].size)
    above = np.array([total], dtype=np.float64)
    for level, parent in zip(estimates, (np.zeros(estimates[0].size, np.int64), *parents), strict=True):
        above = _project_siblings(level, parent, above)
    levels = [above]
    for parent, estimate in zip(reversed(parents), reversed(estimates[:-1]), strict=True):
        levels.insert(0, np.bincount(parent, weights=levels[0], minlength=estimate.size).astype(np.float64))
    return tuple(levels)


def _project_siblings(values: Floats, parent: NDArray[np.int64], sums: NDArray[Any]) -> Floats:
    """Project each family of siblings onto its simplex (Michelot 1986, all families in step)."""
    active = np.ones(values.size, bool)
    while True:
        # Michelot's step for all families at once: the mean excess of those members that are still above 0.
        held = np.bincount(parent[active], weights=values[active], minlength=sums.size)
        theta = (held - sums) / np.maximum(np.bincount(parent[active], minlength=sums.size), 1)
        still = active & (values > theta[parent])
        if sums.size and not np.array_equal(still, active) and still.any():
            active = still
            continue
        return np.where(active, np.maximum(values - theta[parent], 0), 0.0)


def _round_siblings(values: Floats, parent: NDArray[np.int64], sums: NDArray[np.int64]) -> NDArray[np.int64]:
    """Round each family by largest remainders."""
    # The remainders decide who is rounded up: on a coarse grid they are the same on every machine.
    steady = np.rint(values / STEP) * STEP
    whole = np.floor(steady).astype(np.int64)
    missing = sums - np.bincount(parent, weights=whole, minlength=sums.size).astype(np.int64)
    # By family, and in it the largest remainder first; lexsort is stable, so that ties go to the lower number.
    order = np.lexsort((whole - steady, parent))
    start = np.cumsum(np.bincount(parent, minlength=sums.size)) - np.bincount(parent, minlength=sums.size)
    rank = np.empty(values.size, np.int64)
    rank[order] = np.arange(values.size) - start[parent[order]]
    return whole + (rank < missing[parent])
