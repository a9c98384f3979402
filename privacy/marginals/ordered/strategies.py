"""Whole-number measurements of ordered columns within residuals, and how far one unit moves them.

Where (one letter each; A a residual of plain columns)
    d, D, u, P, m, k   as in `residual_basis`, of A's plain columns
    L   whole numbers: what is measured of the resolved columns, rows by cells; upper triangular
    o   a cell of all ordered columns; L(o) the column of L where it is resolved

Measured is  r = (⊗ (d I - J)) ⊗ L  of the counts of A's columns and the resolved ones. One row adds  ⊗ u ⊗ L(o),  so

    add_remove     r of all A together moves by the squared norm  k² max_o Σ_A P |L(o)|²  at most, and some row does
    replace_one    rows of cells o and o' move A's by  P |L(o)|² + P |L(o')|² - 2 c <L(o), L(o')>.  c lies between
                   -P / (m - 1) and P, and is 1 for no plain column. The sum over A of the largest such, over all o
                   and o', bounds one row for one; k² of it, k rows for as many. A row for none is in it too.

docs/derivations.md has the proofs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contracts.canonical import canonical_json
from contracts.contract.contract import Adjacency
from contracts.contract.impossible_cells import Clique
from privacy.accounting.calibrate import gaussian_sigma_squared
from privacy.accounting.events import DiscreteGaussian
from privacy.arrays import Floats
from privacy.marginals.ordered.design import RangeDesign, RangeResidual, Ranges, RangeTable, RangeWorkload
from privacy.marginals.ordered.portable_matrices import solved, upper_factor
from privacy.marginals.residual_basis import residual_of, squared_change, squares_of
from privacy.marginals.residuals import STEP, projected
from privacy.marginals.sensitivity import GaussianNoise

LEAST_BITS: Final = 11
"""The largest entry of every strategy is at least two to this power."""


@dataclass(frozen=True, eq=False)
class RangeStrategy:
    """What is measured of one residual.

    Args:
        residual: the plain columns, and the ordered ones that it resolves.
        matrix: L, int64, shape (cells, cells), upper triangular, with a diagonal above zero.
    Raises:
        ValueError: a matrix of another form.
    """

    residual: RangeResidual
    matrix: NDArray[np.int64]

    def __post_init__(self) -> None:
        cells, found = self.residual.cells, self.matrix
        if found.shape != (cells, cells) or found.dtype != np.int64:
            raise ValueError(f"a strategy of {found.dtype} and shape {found.shape}; allowed: int64, {(cells, cells)}")
        if np.tril(found, -1).any() or (np.diagonal(found) < 1).any():
            raise ValueError("a strategy must be upper triangular, with numbers of at least 1 on its diagonal")
        if len({*self.residual.columns, *self.residual.resolved}) < len(self.columns) or 1 in self.residual.shape:
            raise ValueError("a residual must have each column once, and of plain columns at least 2 cells")

    @property
    def columns(self) -> Clique:
        """The columns of the marginal that it reads: the plain ones, then the resolved ones."""
        return (*self.residual.columns, *self.residual.resolved)

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells of that marginal."""
        return (*self.residual.shape, *self.residual.sizes)

    @property
    def cells(self) -> int:
        """How many numbers are drawn."""
        return prod(self.shape)

    @property
    def multiplier(self) -> int:
        """The matrix says how often each count is in a number; no number is multiplied besides."""
        return 1


def strategies_of(residuals: Sequence[RangeResidual], design: RangeDesign) -> tuple[RangeStrategy, ...]:
    """Put a design on whole numbers: upper triangular factors times one power of two, rounded."""
    factors = [
        upper_factor(gram) / float(prod(each.shape)) for each, gram in zip(residuals, design.grams, strict=True)
    ]
    least, scale = min(float(np.abs(factor).max()) for factor in factors), 1.0
    while least * scale < 1 << LEAST_BITS:
        scale *= 2.0
    while least * scale >= 1 << (LEAST_BITS + 1):
        scale *= 0.5
    made = []
    for residual, factor in zip(residuals, factors, strict=True):
        whole = np.rint(factor * scale).astype(np.int64)
        np.fill_diagonal(whole, np.maximum(np.diagonal(whole), 1))
        made.append(RangeStrategy(residual, whole))
    return tuple(made)


def measured_numbers(strategy: RangeStrategy, counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return what is measured of a marginal, row by row of the plain cells; wraps around in 64 bits.

    Privacy: private; for a grant alone.
    """
    plain = len(strategy.residual.shape)
    values = residual_of(counts, columns=plain).reshape(-1, strategy.residual.cells)
    return np.asarray(values @ strategy.matrix.T, dtype=np.int64).reshape(-1)


def strategy_moves(strategies: Sequence[RangeStrategy], adjacency: Adjacency, rows_per_unit: int) -> tuple[int, ...]:
    """Return whole numbers whose squares add up to how far one unit moves all strategies together at most."""
    places = resolved_places(strategies)
    parts = [_alone(each)[place] for each, place in zip(strategies, places, strict=True)]
    worst = int(sum(parts[1:], parts[0]).max())
    if adjacency == "replace_one":
        # A row in another cell: both axes are cells of the ordered columns.
        pairs = [_replaced(each)[np.ix_(place, place)] for each, place in zip(strategies, places, strict=True)]
        worst = max(worst, int(sum(pairs[1:], pairs[0]).max()))
    return squares_of(rows_per_unit**2 * worst)


def resolved_places(strategies: Sequence[RangeStrategy]) -> tuple[NDArray[np.int64], ...]:
    """Return, for each strategy, the resolved cell in which each cell of all ordered columns lies.

    Raises:
        ValueError: no strategy resolves all ordered columns, or they have other sizes in another one.
    """
    whole = max((each.residual for each in strategies), key=lambda each: len(each.resolved))
    sizes = dict(zip(whole.resolved, whole.sizes, strict=True))
    codes = np.indices(whole.sizes).reshape(len(whole.sizes), -1)
    found = []
    for each in strategies:
        residual = each.residual
        if any(sizes.get(name) != cells for name, cells in zip(residual.resolved, residual.sizes, strict=True)):
            raise ValueError(f"ordered columns {residual.resolved}; allowed: some of {whole.resolved}")
        number = np.zeros(codes.shape[1], np.int64)
        for name, cells in zip(residual.resolved, residual.sizes, strict=True):
            number = number * cells + codes[whole.resolved.index(name)]
        found.append(number)
    return tuple(found)


def column_moves(strategies: Sequence[RangeStrategy], column: str, rows_per_unit: int) -> tuple[int, ...]:
    """Return what another value in one column of all rows of a unit moves at most, as `strategy_moves` does."""
    worst = 0
    for each in strategies:
        residual = each.residual
        if column in residual.columns:
            cells = residual.shape[residual.columns.index(column)]
            # A multiple of d - 1, as P is: of the column itself ‖u_a - u_b‖² = 2 d².
            worst += int(_alone(each).max()) * 2 * cells // (cells - 1)
        elif column in residual.resolved:
            worst += squared_change(residual.shape, "add_remove") * int(_distances(each).max())
    return squares_of(rows_per_unit**2 * worst)


def strategy_event(
    strategies: Sequence[RangeStrategy], noise: GaussianNoise, *, adjacency: Adjacency, rows_per_unit: int
) -> DiscreteGaussian:
    """Return the event of adding noise to all of them, calibrated to what one unit moves them by.

    Raises:
        AmountRefused: a noise, or a change, too large to draw.
    """
    moves = strategy_moves(strategies, adjacency, rows_per_unit)
    return DiscreteGaussian(gaussian_sigma_squared(noise.rho, moves), moves)


def strategies_digest(strategies: Sequence[RangeStrategy]) -> str:
    """Return the SHA-256 (hex) of what is measured: columns, cells, and every whole number."""
    told = []
    for each in strategies:
        matrix = hashlib.sha256(np.ascontiguousarray(each.matrix, dtype="<i8").tobytes()).hexdigest()
        told.append([list(each.residual.columns), list(each.residual.resolved), list(each.shape), matrix])
    return hashlib.sha256(canonical_json(told)).hexdigest()


def _inner(strategy: RangeStrategy) -> NDArray[Any]:
    """Return <L(o), L(o')> of all pairs of resolved cells, as whole numbers of any size."""
    exact = strategy.matrix.astype(object)
    return np.asarray(exact.T @ exact)


def _alone(strategy: RangeStrategy) -> NDArray[Any]:
    """Return P |L(o)|² of every resolved cell."""
    squares = (strategy.matrix.astype(object) ** 2).sum(axis=0)
    return np.asarray(squares * squared_change(strategy.residual.shape, "add_remove"))


def _distances(strategy: RangeStrategy) -> NDArray[Any]:
    """Return |L(o) - L(o')|² of all pairs of resolved cells."""
    inner = _inner(strategy)
    own = np.diagonal(inner)
    return np.asarray(own[:, None] + own - 2 * inner)


def _replaced(strategy: RangeStrategy) -> NDArray[Any]:
    """Return how far a row that goes from one cell to another moves a residual at most, for all pairs of cells."""
    shape = strategy.residual.shape
    if not shape:
        return _distances(strategy)
    inner, norm = _inner(strategy), squared_change(shape, "add_remove")
    own = np.diagonal(inner)
    # P holds the factor m - 1 of the smallest column, so the division leaves no rest.
    worst = np.maximum(-inner * norm, inner * (norm // (min(shape) - 1)))
    return np.asarray((own[:, None] + own) * norm + 2 * worst)


# --- From noisy strategies to answers of ranges, with the exact variance of every answer.


class RangeAnswers:
    """Answers that follow from noisy strategies.

    Args:
        strategies: what was measured.
        values: all noisy numbers, int64, strategy by strategy.
    Raises:
        ValueError: more or fewer numbers than the strategies have.
    """

    def __init__(self, strategies: Sequence[RangeStrategy], values: NDArray[np.int64]) -> None:
        if values.shape != (sum(each.cells for each in strategies),):
            raise ValueError(f"values have shape {values.shape}; allowed: one number for each of the strategies'")
        self._parts, start = dict[tuple[str, ...], tuple[RangeResidual, Floats]](), 0
        for each in strategies:
            residual, noisy = each.residual, values[start : start + each.cells]
            rows = noisy.reshape(*residual.shape, residual.cells) / float(prod(residual.shape))
            plain = projected(rows, columns=len(residual.shape)).reshape(-1, residual.cells)
            known = solved(each.matrix.astype(np.float64), plain.T).T
            self._parts[residual.columns] = residual, known.reshape(*residual.shape, *residual.sizes)
            start += each.cells

    @property
    def total(self) -> float:
        """The number of rows, as it was measured with the ranges [rows]."""
        residual, cells = self._parts[()]
        return float(np.rint(range_sums(cells, residual, {}, 0) / STEP) * STEP)

    def table(self, table: RangeTable, workload: RangeWorkload) -> Floats:
        """Return a table's answers: axes of its wide plain columns, then of its ordered ones, in their orders [rows].

        Raises:
            KeyError: a residual of the table was not measured.
        """
        wide = workload.wide(table)
        asked = table.asked
        answers = np.zeros([1] * (len(wide) + len(asked)))
        for each in workload.within(table):
            residual, cells = self._parts[each.columns]
            part = range_sums(cells, residual, asked, len(residual.shape))
            apart = prod(workload.sizes[name] for name in wide if name not in each.columns)
            plain = [workload.sizes[name] if name in each.columns else 1 for name in wide]
            answers = answers + part.reshape(*plain, *part.shape[len(residual.shape) :]) / float(apart)
        shape = [workload.sizes[name] for name in wide]
        answers = np.broadcast_to(answers, (*shape, *answers.shape[len(shape) :]))
        return np.asarray(np.rint(answers / STEP) * STEP)


def range_sums(cells: Floats, residual: RangeResidual, asked: Mapping[str, Ranges], first: int) -> Floats:
    """Return sums over ranges of resolved columns.

    Args:
        cells: by resolved cell along the axes from `first` on; further axes stay.
        residual: gives the resolved columns.
        asked: ranges of columns, in the order of the axes that come out; a column that is not asked is added up.
        first: the first axis of the resolved columns.
    Returns:
        array: the axes before `first`, one axis for each column that is asked, the further axes.
    """
    for place, name in enumerate(residual.resolved):
        axis = first + place
        ends = np.array(asked.get(name, ((0, residual.sizes[place] - 1),)))
        zero = np.zeros((*cells.shape[:axis], 1, *cells.shape[axis + 1 :]))
        upto = np.concatenate([zero, np.cumsum(cells, axis=axis)], axis=axis)
        cells = np.take(upto, ends[:, 1] + 1, axis=axis) - np.take(upto, ends[:, 0], axis=axis)
    names = list(residual.resolved)
    dropped = [name for name in names if name not in asked]
    kept = [name for name in names if name in asked]
    cells = cells.squeeze(axis=tuple(first + names.index(name) for name in dropped))
    order = [first + kept.index(name) for name in asked if name in kept]
    return cells.transpose(*range(first), *order, *range(first + len(order), cells.ndim))


def answer_variances(
    table: RangeTable, workload: RangeWorkload, strategies: Sequence[RangeStrategy], sigma_squared: Fraction
) -> Floats:
    """Return the variance of every combination of a table's ranges, alike for all its plain cells [rows²].

    Args:
        table: the table.
        workload: of all tables.
        strategies: what is measured.
        sigma_squared: parameter of the common noise, whose variance is at most that.
    Returns:
        array: one axis for each of its ordered columns, in their order; before answers are rounded.
    """
    wide, asked = workload.wide(table), table.asked
    found = np.zeros([len(ranges) for ranges in asked.values()])
    for each in strategies:
        residual = each.residual
        if not set(residual.columns) <= set(wide):
            continue
        apart = prod(workload.sizes[name] for name in wide if name not in residual.columns)
        identity = np.eye(residual.cells)
        inverse = solved(each.matrix.astype(np.float64), identity).reshape(*residual.sizes, residual.cells)
        seen = range_sums(inverse, residual, asked, 0)
        norms = np.cumsum(seen * seen, axis=-1)[..., -1]
        scale = float(sigma_squared / (prod(residual.shape) * apart) ** 2)
        found = found + norms * (scale * residual.spread)
    return found
