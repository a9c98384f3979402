"""Posterior tables: what is known of a cell after its noisy value and its class were seen, as lookups.

A cell carries a code; mean, variance, P(0) and interval are arrays over the codes. So a table of any size is refined
by work on the codes and one lookup per cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.arrays import Floats

STEP: Final = 2.0**-20
"""Published estimates are multiples of it, so that the last bits of exp and of sums cannot change a release."""
TOLERATED: Final = 1.05
"""A sparser table is taken as long as its expected RMSE is at most this multiple of the best one's."""
ZERO_PROBABILITIES: Final = (0.5, 0.7, 0.9)


@dataclass(frozen=True)
class Posterior:
    """Posterior summaries by code, and the code of each cell.

    Args:
        codes: code of each cell, shape of the table.
        mean: posterior mean, shape (codes,), ≥ 0 [units].
        variance: posterior variance [units²].
        zero: posterior probability that the true count is 0.
        lower: lower end of the 95 % interval, whole [units].
        upper: upper end [units].
        covariance: unbiased for the covariance of a cell's noise and its mean, as in `unbiased_risk` [units²].
    """

    codes: NDArray[np.int32]
    mean: Floats
    variance: Floats
    zero: Floats
    lower: Floats
    upper: Floats
    covariance: Floats

    def cells(self) -> NDArray[np.int64]:
        """Return how many cells have each code."""
        return np.bincount(self.codes.reshape(-1), minlength=self.mean.size)

    def intervals(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return each cell's 95 % interval for the true count.

        The limit, for many draws, of the parametric bootstrap that redraws truth and noise from the fitted prior and
        looks at the truths behind one noisy value of one class.
        Privacy: post-processing.
        """
        return self.lower.astype(np.int64)[self.codes], self.upper.astype(np.int64)[self.codes]


def refine_posterior(posterior: Posterior, *, total: int, integers: bool) -> Floats | NDArray[np.int64]:
    """Turn posterior means into a sparse table with the given sum.

    Cells with P(0) ≥ 0.5 become 0, the others are projected onto the simplex. Should that cost more than 5 % of the
    expected RMSE, P(0) ≥ 0.7, P(0) ≥ 0.9, as many cells as are expected to be positive, and all cells are tried in
    turn. The result may be rounded to the nearest lattice point (equal remainders: lower code, then lower cell).

    Args:
        posterior: of the table.
        total: sum to reach, ≥ 0 [units].
        integers: whole numbers.
    Returns:
        float64, or int64 with exactly the total, shape of the table [units].
    Raises:
        ValueError: total is negative, or positive although there is no cell.
    Privacy: post-processing.
    Source: the projection is negative ℓ2 paper, eq. 8-10; the choice of the zeros is the Bayes rule for 0-1 loss.
    """
    check_total(total, posterior.codes.size)
    cells = posterior.cells()
    values = _sparse_values(posterior, cells, total)
    if not integers:
        return values[posterior.codes]
    return _round(values, posterior.codes, cells, total)


def check_total(total: float, cells: int) -> None:
    """Refuse a total that no non-negative table has."""
    if not np.isfinite(total) or total < 0:
        raise ValueError(f"total must be finite and at least 0, not {total}")
    if cells == 0 and total > 0:
        raise ValueError("total must be 0 when there is no cell")


def expected_rmse(posterior: Posterior, cells: NDArray[np.int64], values: Floats) -> float:
    """Return the RMSE that the posterior expects of `values` (one per code) [units]."""
    # The expected squared error of a value: posterior variance, and squared distance from the posterior mean.
    loss = posterior.variance + (values - posterior.mean) ** 2
    return sqrt(float(np.sum(cells * loss)) / max(1, int(cells.sum())))


def _sparse_values(posterior: Posterior, cells: NDArray[np.int64], total: int) -> Floats:
    """Return the value of each code under the sparsest rule that costs little (see `refine_posterior`)."""
    # From the sparsest rule to none: the first that costs 5 % at most is taken.
    rules = [posterior.zero < limit for limit in ZERO_PROBABILITIES]
    rules += [_most_likely(posterior, cells), np.ones(cells.size, bool)]
    tables = []
    for rule in rules:
        kept = rule & (posterior.mean > 0) & (cells > 0)
        if kept.any():
            # -inf never rises above any threshold: these codes stay 0 in the projection.
            tables.append(_project(np.where(kept, posterior.mean, -np.inf), cells, total))
    tables = tables or [_project(posterior.mean, cells, total)]
    risks = [expected_rmse(posterior, cells, table) for table in tables]
    return next(table for table, risk in zip(tables, risks, strict=True) if risk <= TOLERATED * min(risks))


def _most_likely(posterior: Posterior, cells: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Mark the codes of the largest means that hold as many cells as are expected to be positive."""
    order = np.argsort(-posterior.mean, kind="stable")
    expected = float(np.sum(cells * (1 - posterior.zero)))
    kept = np.zeros(cells.size, bool)
    kept[order[np.cumsum(cells[order]) <= expected + 1]] = True
    return kept


def _project(values: Floats, cells: NDArray[np.int64], total: int) -> Floats:
    """Project onto the simplex, each code counted with its cells; codes at -inf stay at 0."""
    active = np.isfinite(values) & (cells > 0)
    result = np.zeros(values.size)
    if total == 0 or not active.any():
        return result
    while True:
        # Michelot's step, each code counted with its cells.
        theta = (float(np.sum(cells[active] * values[active])) - total) / float(cells[active].sum())
        still = active & (values > theta)
        if still.sum() == active.sum() or not still.any():
            break
        active = still
    result[active] = np.maximum(values[active] - theta, 0)
    return result


def _round(values: Floats, codes: NDArray[np.int32], cells: NDArray[np.int64], total: int) -> NDArray[np.int64]:
    """Round by largest remainders; only the last code that is rounded up may be split between its cells."""
    # Remainders decide which codes are rounded up: on a coarse grid they are the same on every machine.
    values = np.rint(values / STEP) * STEP
    whole = np.floor(values).astype(np.int64)
    order = np.flatnonzero((cells > 0) & (values > 0))
    order = order[np.argsort(whole[order] - values[order], kind="stable")]
    reach = np.cumsum(cells[order])
    missing = total - int(np.sum(whole * cells))
    if missing < 0:
        raise ValueError(f"values must sum to total = {total}; {-missing} units are too many")
    if missing and not order.size:
        raise ValueError(f"values must sum to total = {total}, but none is positive")
    if order.size:  # rounding to STEP may leave more units than cells
        rounds, missing = divmod(missing, int(reach[-1]))
        whole[order] += rounds
    full = int(np.searchsorted(reach, missing, side="right"))
    # Whole codes are rounded up together, so that cells with the same posterior stay equal, but for the last code.
    whole[order[:full]] += 1
    rounded = np.asarray(whole[codes])
    left = missing - (int(reach[full - 1]) if full else 0)
    if left:
        rounded.reshape(-1)[np.flatnonzero(codes.reshape(-1) == order[full])[:left]] += 1
    return rounded
