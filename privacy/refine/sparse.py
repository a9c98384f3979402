"""Refinement of a table of which only the noisy values at or above a threshold tau are written down.

The projection onto the scaled simplex takes theta off each cell and cuts at 0, with

    f(theta) = sum over all cells of max(0, v - theta) = total.

Let f_S be the same over the drawn cells S = {v >= tau} and theta_S its solution.
* f_S <= f, and both fall, so theta_S <= theta.
* If theta_S >= tau - 1, then theta_S = theta: noisy values are whole numbers, what is not drawn is <= tau - 1, so it
  adds nothing to f at theta_S, and f(theta_S) = f_S(theta_S) = total. The result is the dense path's, cell by cell.
* Otherwise theta < tau - 1 (were theta >= tau - 1, then f_S(theta) = f(theta) = total and theta_S = theta). Then more
  must be drawn; tau = floor(theta_S) + 1 would always do, and `next_threshold` looks for a higher one.

Each decision depends on public parameters and on what was drawn before, so it is post-processing.

Deviation: theta may lie below what can be drawn (below 0, where more than half of all cells would be needed, as when
the total is larger than all positive values together; or beyond what memory holds). Then the result is the
projection under the additional condition that absent cells are 0, and says so: `restricted`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, exp, expm1, floor, log, log1p
from numbers import Integral
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from privacy.refine.simplex import exact_sum, project_divided

Excess: TypeAlias = Callable[[int], float]
"""From m to E max(0, X - m) for the noise X of one cell [units]."""

FALSE_HITS: Final = 1_000_000
"""How many empty cells may be expected at or above the first threshold."""


@dataclass(frozen=True)
class SparseTable:
    """Noisy values of a table with many cells: those at or above a threshold; every other cell reads "< threshold".

    Args:
        codes: cells, ascending and distinct, int64.
        values: their noisy counts, all >= threshold, int64 [units].
        threshold: tau, >= 1 [units].
        cells: size of the declared domain.
    """

    codes: NDArray[np.int64]
    values: NDArray[np.int64]
    threshold: int
    cells: int


@dataclass(frozen=True)
class SparseRefined:
    """A refined table with many cells: those above 0; every other cell is 0.

    Args:
        codes: cells, ascending and distinct, int64.
        values: their refined counts, all > 0 [units].
        measured: the noisy table that it was found from, as far down as was needed.
        restricted: whether theta lies below what was drawn, so that absent cells were held at 0.
    """

    codes: NDArray[np.int64]
    values: NDArray[np.float64]
    measured: SparseTable
    restricted: bool


def sparse_negative_l2(
    table: SparseTable,
    total: float,
    *,
    lambda_: float,
    lower: Callable[[int], SparseTable],
    excess: Excess,
    least_threshold: int,
) -> SparseRefined:
    """Minimise eq. 11 over the scaled simplex without the cells that become 0; lambda 0 is the projection.

    Args:
        table: noisy counts at or above a threshold.
        total: the sum to reach, >= 0 [units].
        lambda_: strength in [0, 1) [dimensionless].
        lower: draws the table down to a smaller threshold; called only while theta lies under what is drawn.
        excess: of the noise; it guesses how far down to draw, and does not enter the result.
        least_threshold: how far down may be drawn, >= 1, from public parameters: the threshold with as many false
            hits as memory holds [units].
    Returns:
        SparseRefined: equal to `negative_l2` of the whole noisy table, unless it says `restricted`.
    Raises:
        ValueError: lambda outside [0, 1), a total that is negative or not finite, a least threshold below 1.
    Privacy: post-processing.
    Source: negative ℓ2 paper, eq. 8-11 and 14 with gamma = 1 - lambda; the module's docstring for the rest.
    """
    if not 0 <= lambda_ < 1:
        raise ValueError(f"lambda must lie in [0, 1), not {lambda_}")
    if not np.isfinite(total) or total < 0:
        raise ValueError(f"total must be finite and at least 0, not {total}")
    if least_threshold < 1:
        raise ValueError(f"least_threshold must be at least 1, not {least_threshold}")
    gamma, total = 1.0 - lambda_, int(total) if isinstance(total, Integral) else float(total)  # numpy's would wrap
    target = Fraction(gamma) * Fraction(total)
    # Draw until theta is known; each decision reads public parameters and what was drawn before.
    while (wanted := next_threshold(table, target, excess=excess, least_threshold=least_threshold)) < table.threshold:
        table = lower(wanted)
    restricted = not _reaches(table, target)
    if total == 0 or table.values.size == 0:
        nothing = np.empty(0, np.int64), np.empty(0, np.float64)
        return SparseRefined(*nothing, table, restricted)
    # theta and the active cells are found in whole numbers and fractions: bit for bit what all cells together give.
    values = project_divided(table.values, total, gamma=gamma)
    kept = np.flatnonzero(values)
    return SparseRefined(table.codes[kept], values[kept], table, restricted)


def next_threshold(table: SparseTable, target: Fraction, *, excess: Excess, least_threshold: int) -> int:
    """Say down to which threshold a table must be drawn before theta is known; the present one if it is known.

    Below tau every drawn cell is active: with n drawn cells of sum s, theta_S = (s - target) / n if that is less than
    tau - 1; and with the empty cells as expected,
        f(m) ~ s - n m + cells (E max(0, X - m) - E max(0, X - tau) - (tau - m) P(X >= tau))  for whole m < tau,
    so m + 1 is the answer for the largest m with f(m) >= target. Cells that are populated and not drawn would raise
    m: this seldom draws less than is needed, and then the next round does.

    Args:
        table: what is drawn.
        target: gamma * total, the sum that the active cells must keep, >= 0 [units].
        excess: of the noise.
        least_threshold: how far down may be drawn, >= 1 [units].
    Returns:
        int: the present threshold, or one from `least_threshold` up to it.
    Privacy: post-processing.
    """
    tau, number, drawn_sum = table.threshold, table.values.size, exact_sum(table.values)
    if tau <= least_threshold or _reaches(table, target):
        return tau
    at_tau = excess(tau)
    hit = excess(tau - 1) - at_tau  # P(X >= tau)

    def reached(m: int) -> bool:
        empty = table.cells * (excess(m) - at_tau - (tau - m) * hit)
        return drawn_sum - number * m + empty >= target

    surely = floor((drawn_sum - target) / number) if number else 0  # floor(theta_S) <= floor(theta)
    low, high = max(least_threshold - 1, surely), tau - 1
    # Bisect for the largest m that reaches the target.
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if reached(middle) else (low, middle)
    return low + 1


def _reaches(table: SparseTable, target: Fraction) -> bool:
    """Say whether theta_S >= tau - 1, that is f_S(tau - 1) >= target, in whole numbers; every drawn cell counts."""
    return exact_sum(table.values) - table.values.size * (table.threshold - 1) >= target


def default_threshold(cells: int, inverse_scale: Fraction, *, false_hits: int = FALSE_HITS) -> int:
    """Return the smallest threshold at which not more than so many empty cells are expected, at least 1.

    Formula:  cells r^tau / (1 + r) <= false_hits,  r = exp(-inverse_scale)

    Args:
        cells: size of the declared domain, from 1 to 2^63 - 1.
        inverse_scale: t of the discrete Laplace noise, > 0 [1 / unit].
        false_hits: the expected number that is allowed, >= 1.
    Returns:
        int: tau [units].
    Raises:
        ValueError: an argument is out of its limits.
    Privacy: computed from public parameters; reads no data.
    """
    if not 1 <= cells < 2**63:
        raise ValueError(f"cells must lie between 1 and 2^63 - 1, not {cells}")
    if inverse_scale <= 0:
        raise ValueError(f"inverse_scale must be above 0, not {inverse_scale}")
    if false_hits < 1:
        raise ValueError(f"false_hits must be at least 1, not {false_hits}")
    t = float(inverse_scale)
    # The formula, solved for tau in logarithms.
    return max(1, ceil((log(cells / false_hits) - log1p(exp(-t))) / t))


def laplace_excess(inverse_scale: Fraction) -> Excess:
    """Return m -> E max(0, X - m) of discrete Laplace noise:  r^(m+1) / ((1 + r) (1 - r)) for m >= 0."""
    t = float(inverse_scale)
    scale = (1 + exp(-t)) * -expm1(-t)
    return lambda m: exp(-t * (m + 1)) / scale
