"""Residuals of marginals, as whole numbers: what a marginal says that its own margins do not.

Where (one letter each)
    A   a set of columns      d   cells of a column of A, at least 2      D   the product of all d of A
    u   d e_a - 1: the vector of one column of a row in cell a            t   a multiplier, at least 1
    k   rows of one unit at most                                          m   the least d of A

The residual of A is  r = (⊗ (d I - J)) M  with M the counts of A and J all ones: D numbers, each a whole number. One
row adds ⊗ u to it, and  <u_a, u_a> = d (d - 1),  <u_a, u_b> = -d  where a and b differ. So

    add_remove     one row moves r by a squared norm of  P = Π d (d - 1);  k rows by at most k² P
    replace_one    the largest ‖⊗ u_a - ⊗ u_b‖² is  2 P m / (m - 1),  at rows that differ in the column of m
                   cells alone; k rows for k rows move r by at most k² times that, and fewer rows by no more

The residual of no column is the number of rows, which k rows move by k. Several residuals are drawn together, each
times its multiplier t, with one noise: what one unit moves is then the sum of t² times these. docs/derivations.md has
the proofs. Numbers and their sums with noise wrap around in 64 bits, which is post-processing of whole numbers;
of fewer than 2^62 / (t D) rows none does.
Source: Xiao, He, Zhang, Kifer 2023, "An Optimal and Scalable Matrix Mechanism for Noisy Marginals under Convex Loss
Functions" (ResidualPlanner), whose residual matrices have d - 1 rows a column. What deviates: all d rows are
measured, as integers; what noise adds off the residual space is projected away (`residuals`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt, prod

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Adjacency
from contracts.contract.impossible_cells import Clique
from privacy.accounting.events import DiscreteGaussian, gaussian_sigma_squared
from privacy.marginals.sensitivity import GaussianNoise


@dataclass(frozen=True)
class Residual:
    """One residual as it is measured.

    Args:
        columns: the columns, each of at least 2 cells; none for the number of rows.
        shape: cells along each column.
        multiplier: what its numbers are multiplied by before noise is added, >= 1.
    Raises:
        ValueError: parts that do not fit together.
    """

    columns: Clique
    shape: tuple[int, ...]
    multiplier: int

    def __post_init__(self) -> None:
        if len(set(self.columns)) != len(self.columns) or len(self.columns) != len(self.shape):
            raise ValueError(
                f"a residual of columns {self.columns} with cells {self.shape}; allowed: one size a column"
            )
        if any(cells < 2 for cells in self.shape):
            raise ValueError(f"a residual over {self.shape} cells; allowed: columns of at least 2 cells")
        if self.multiplier < 1:
            raise ValueError(f"multiplier is {self.multiplier}; allowed: at least 1")

    @property
    def cells(self) -> int:
        """Numbers of the residual: D of the module."""
        return prod(self.shape)


def residual_of(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the residual of a marginal, int64, in the marginal's shape; wraps around in 64 bits.

    Formula:  (⊗ (d I - J)) counts, column by column
    Privacy: private; for a grant alone.
    """
    values = counts
    for axis, cells in enumerate(counts.shape):
        values = cells * values - values.sum(axis=axis, keepdims=True)
    return np.asarray(values, dtype=np.int64)


def squared_change(shape: Sequence[int], adjacency: Adjacency) -> int:
    """Return how far one row, or one row in the place of another, moves a residual at most: its squared norm.

    Args:
        shape: cells of each column, >= 2.
        adjacency: the relation between neighbours.
    Source: the module's docstring.
    """
    alone = prod(cells * (cells - 1) for cells in shape)
    if adjacency == "add_remove" or not shape:
        return alone
    # P holds the factor m (m - 1) of the smallest column, so the division leaves no rest.
    least = min(shape)
    return 2 * alone * least // (least - 1)


def residual_moves(residuals: Sequence[Residual], adjacency: Adjacency, rows_per_unit: int) -> tuple[int, ...]:
    """Return whole numbers whose squares add up to the squared norm of what one unit moves all residuals by.

    Under add_remove some neighbour does move them so far; under replace_one it is the sum of each residual's largest
    move, which no one neighbour may reach.

    Args:
        residuals: drawn together with one noise.
        adjacency: the relation between neighbours.
        rows_per_unit: k, the rows of one unit at most.
    """
    norm = sum(each.multiplier**2 * squared_change(each.shape, adjacency) for each in residuals)
    return squares_of(rows_per_unit**2 * norm)


def column_moves(residuals: Sequence[Residual], column: str, rows_per_unit: int) -> tuple[int, ...]:
    """Return what another value in one column of all rows of a unit moves, as `residual_moves` does.

    Residuals without the column stay as they are; of the others each row moves ⊗ u by ‖u_a - u_b‖² = 2 d² in that
    column, times d (d - 1) in each other one.
    """
    norm = 0
    for each in residuals:
        if column in each.columns:
            cells = each.shape[each.columns.index(column)]
            norm += each.multiplier**2 * squared_change(each.shape, "add_remove") * 2 * cells // (cells - 1)
    return squares_of(rows_per_unit**2 * norm)


def residual_event(
    residuals: Sequence[Residual], noise: GaussianNoise, *, adjacency: Adjacency, rows_per_unit: int
) -> DiscreteGaussian:
    """Return the event of adding noise to residuals, calibrated to what one unit moves them by.

    Raises:
        AmountRefused: a noise, or a change, too large to draw.
    """
    moves = residual_moves(residuals, adjacency, rows_per_unit)
    return DiscreteGaussian(gaussian_sigma_squared(noise.rho, moves), moves)


def squares_of(norm: int) -> tuple[int, ...]:
    """Write a whole number as a sum of squares, largest first: the largest square that fits, and so on.

    Each square leaves at most twice its root, so that numbers below 10^22 have at most a dozen.
    """
    roots = []
    while norm > 0:
        roots.append(isqrt(norm))
        norm -= roots[-1] ** 2
    return tuple(roots)
