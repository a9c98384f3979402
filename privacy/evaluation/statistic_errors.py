"""How far published statistics lie from the exact ones, cell by cell: for the auditor alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from contracts.domains.lattice import ValueLattice
from contracts.release.statistics import COUNT, EFFECTIVE_SIZE, SPREADS, Statistic
from privacy.arrays import Floats
from privacy.evaluation.table_errors import WorstCell

MOST_CELLS_NAMED: Final = 10
_SHARES: Final = 10**6
"""A quantile has six decimals at most."""


@dataclass(frozen=True, eq=False, repr=False)
class OffsetCounts:
    """How often each cell of a table has each value of a column; exact.

    Args:
        cells: row-major number of the cell, shape (entries,).
        offsets: the value as steps of the lattice, plus 1; 0 where it is missing.
        mass: rows with it, each as often as its weight says [rows, or steps of the weight].
        size: cells of the table.
        lattice: of the column; the values are clipped to it once more.
    """

    cells: NDArray[np.int64]
    offsets: NDArray[np.int64]
    mass: NDArray[np.int64]
    size: int
    lattice: ValueLattice

    def counts(self) -> Floats:
        """Return the rows of each cell, with a value or without."""
        return self._added(self.mass, np.ones(len(self.cells), dtype=np.bool_))

    def sums(self) -> Floats:
        """Return the sum of the values of each cell [column's units times steps of the weight]."""
        low, step = float(self.lattice.low), float(self.lattice.step)
        valued = self._valued
        return low * self._added(self.mass, valued) + step * self._added(self.mass * self._steps, valued)

    def means(self) -> Floats:
        """Return the mean of each cell; NaN where no row has a value."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self.sums() / self._added(self.mass, self._valued))

    def variances(self) -> Floats:
        """Return the mean squared distance from the mean; NaN where no row has a value."""
        values = float(self.lattice.low) + float(self.lattice.step) * self._steps
        apart = (values - self.means()[self.cells]) ** 2
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self._added(self.mass * apart, self._valued) / self._added(self.mass, self._valued))

    def effective_sizes(self) -> Floats:
        """Return the squared sum of the weights over the sum of their squares; 0 where there is none. Of a weight."""
        whole, squares = self._added(self.mass, self._valued), self._added(self.mass * self._steps, self._valued)
        return np.where(squares > 0, whole * (whole / np.where(squares > 0, squares, 1.0)), 0.0)

    def quantiles(self, share: Decimal) -> Floats:
        """Return the smallest value at or below which that share of the rows lie; NaN where no row has a value."""
        valued = self._valued & (self.mass > 0)
        cells, steps, mass = self.cells[valued], self._steps[valued], self.mass[valued]
        order = np.lexsort((steps, cells))
        cells, steps, mass = cells[order], steps[order], mass[order]
        rows = np.zeros(self.size, dtype=np.int64)
        np.add.at(rows, cells, mass)
        before = np.concatenate([[0], np.cumsum(rows)])[:-1]
        reached = np.cumsum(mass) - before[cells] >= -(-int(share * _SHARES) * rows[cells] // _SHARES)
        found = np.full(self.size, np.nan)
        places = np.flatnonzero(reached)[::-1]  # the first of a cell is written last
        found[cells[places]] = float(self.lattice.low) + float(self.lattice.step) * steps[places]
        return found

    @property
    def _valued(self) -> NDArray[np.bool_]:
        return self.offsets > 0

    @property
    def _steps(self) -> NDArray[np.int64]:
        return np.clip(self.offsets - 1, 0, self.lattice.width)

    def _added(self, numbers: NDArray[Any], which: NDArray[np.bool_]) -> Floats:
        weights = np.where(which, numbers, 0).astype(np.float64)
        return np.asarray(np.bincount(self.cells, weights=weights, minlength=self.size), dtype=np.float64)


def exact_statistics(statistic: Statistic, columns: Mapping[str | None, OffsetCounts]) -> tuple[Floats, ...]:
    """Return what each estimate of a statistic is an estimate of, by cell; NaN where there is nothing to estimate.

    Args:
        statistic: one of a table.
        columns: the values of its columns, by `Statistic.key`; under None those of any column, or of none.
    Returns:
        For each name of `statistic.estimates` one number a cell [units of the statistic].
    Privacy: exact values, for the auditor alone.
    """
    own = columns[statistic.key]
    weight = float(own.lattice.weight_step)
    if statistic.what == COUNT:
        return (own.counts() * weight,)
    if statistic.over is not None:
        upper, lower = own.sums(), columns[statistic.over.key].sums()
        return (np.where(lower > 0, upper / np.where(lower > 0, lower, 1.0), np.nan),)
    if statistic.what == "sum":
        return (own.sums() * weight,)
    if statistic.what == EFFECTIVE_SIZE:
        return (own.effective_sizes(),)
    if statistic.what == "mean":
        return (own.means(),)
    if statistic.what in SPREADS:
        found = own.variances()
        return (found if statistic.what == "variance" else np.sqrt(found),)
    return tuple(own.quantiles(share) for share in statistic.quantiles)


@dataclass(frozen=True, repr=False)
class StatisticErrors:
    """Errors of one statistic over the cells that have both a published and an exact number.

    Args:
        cells: cells that were compared.
        unpublished: cells without a published number: suppressed, or infinite.
        undefined: cells in which the exact number does not exist, such as a mean of nobody.
        rmse: root of the mean squared distance [units of the statistic].
        bias: mean of published less exact [the same].
        largest: the largest distance [the same].
        relative: sum of the distances over the sum of the exact numbers' sizes [dimensionless].
        covered: share of the published intervals that hold the exact number; None without any.
        rmse_unclipped: root of the mean squared distance from the number that no clip has cut; None where the clip is
            the contract's bounds.
        bias_unclipped: mean of published less that number.
        worst: the cells that are furthest off, at most 10.
    """

    cells: int
    unpublished: int
    undefined: int
    rmse: float
    bias: float
    largest: float
    relative: float
    covered: float | None
    rmse_unclipped: float | None
    bias_unclipped: float | None
    worst: tuple[WorstCell, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as JSON."""
        return {**vars(self), "worst": [vars(cell) for cell in self.worst]}


def statistic_errors(
    exact: Floats,
    published: tuple[Floats, Floats | None, Floats | None],
    labels: Callable[[int], tuple[str, ...]],
    possible: NDArray[np.bool_],
    unclipped: Floats | None = None,
) -> StatisticErrors:
    """Compare the published numbers of a statistic with exact ones.

    Args:
        exact: by cell; NaN where there is none.
        published: the numbers and the ends of their intervals, by cell; NaN where a cell is suppressed. None of
            numbers without intervals, such as refined counts.
        labels: gives those of a cell.
        possible: cells that the contract does not exclude.
        unclipped: the exact numbers of values that no clip has cut.
    Returns:
        StatisticErrors: private, as the exact numbers are.
    """
    value, low, high = published
    told, known = np.isfinite(value) & possible, np.isfinite(exact)
    both = told & known
    apart = (value - exact)[both]
    size = float(np.abs(exact[both]).sum())
    far = np.flatnonzero(both)[np.argsort(-np.abs(apart), kind="stable")][:MOST_CELLS_NAMED]
    whole = None if unclipped is None else (value - unclipped)[both & np.isfinite(unclipped)]
    return StatisticErrors(
        cells=int(both.sum()),
        unpublished=int((possible & ~told).sum()),
        undefined=int((told & ~known).sum()),
        rmse=_rms(apart),
        bias=float(apart.mean()) if apart.size else 0.0,
        largest=float(np.abs(apart).max()) if apart.size else 0.0,
        relative=float(np.abs(apart).sum() / size) if size else 0.0,
        covered=float(((low <= exact + _slack(exact)) & (exact - _slack(exact) <= high))[both].mean())
        if apart.size and low is not None and high is not None
        else None,
        rmse_unclipped=None if whole is None else _rms(whole),
        bias_unclipped=None if whole is None or not whole.size else float(whole.mean()),
        worst=tuple(WorstCell(labels(int(cell)), float(exact[cell]), float(value[cell])) for cell in far),
    )


def _rms(apart: Floats) -> float:
    return float(np.sqrt(np.mean(apart**2))) if apart.size else 0.0


def _slack(exact: Floats) -> Floats:
    """Return by how much the exact number may be off in the last bits of a double."""
    return np.abs(exact) * 2.0**-40


@dataclass(frozen=True, repr=False, eq=False)
class PrivateStatisticErrors:
    """Errors against confidential rows, by table and by statistic: for the auditor alone (DESIGN law 5)."""

    tables: Mapping[str, Mapping[str, StatisticErrors]]

    def __repr__(self) -> str:
        """Show no number."""
        return "PrivateStatisticErrors(for the auditor alone)"

    def __reduce__(self) -> NoReturn:
        """Refuse pickling: errors against real rows must not land in a result store or a cache."""
        raise TypeError("PrivateStatisticErrors cannot be pickled: errors against real rows stay with the auditor")

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as JSON, for the private folder."""
        found = {name: {key: each.to_json() for key, each in errors.items()} for name, errors in self.tables.items()}
        return {"tables": found}
