"""From noisy strategies to answers of ranges, with the exact variance of every answer. Post-processing.

Where (one letter each; A a residual, B a table)
    y   noisy numbers of A, drawn with variance v      L, D, d   as in `strategies`
    x   L⁻¹ of (⊗ (I - J/d)) y / D: A's part of the counts, by resolved cell
    w   a combination of B's ranges, over the resolved cells

    an answer        Σ_{A ⊆ B} (x wᵀ) ⊗ (1 / Π_{B∖A} d) 1
    its variance     Σ_{A ⊆ B} v / D² Π_A (1 - 1/d) / Π_{B∖A} d² |w L⁻¹|²

Sums go along a column from the first cell on, and systems are solved row by row, so that every machine rounds alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import prod

import numpy as np
from numpy.typing import NDArray

from privacy.arrays import Floats
from privacy.marginals.ordered.portable_matrices import solved
from privacy.marginals.ordered.range_workload import RangeResidual, Ranges, RangeTable, RangeWorkload
from privacy.marginals.ordered.strategies import RangeStrategy
from privacy.marginals.residual_tables import STEP, projected


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
