"""How far published counts lie from the exact ones, cell by cell: for the auditor alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

MOST_CELLS_NAMED: Final = 25


@dataclass(frozen=True, repr=False)
class WorstCell:
    """One cell: its labels, the exact number, a count of rows in a table, and the published one."""

    labels: tuple[str, ...]
    exact: float
    published: float


@dataclass(frozen=True, repr=False)
class CellErrors:
    """Errors of one table over its published cells.

    Args:
        columns: the table's columns.
        cells: cells that were compared.
        unpublished: cells without a count: suppressed, or of a sparse table not listed.
        rows_unpublished: exact count in those cells [rows].
        mean_absolute: mean distance [rows].
        rmse: root of the mean squared distance [rows].
        largest: the largest distance [rows].
        relative: sum of the distances over the number of rows [dimensionless].
        covered: share of the published intervals that hold the exact count; None where there are none.
        worst: the cells that are furthest off, at most 25.
        bootstrap: the yardstick: mean distance of counts of as many rows, drawn with replacement [rows].
    """

    columns: tuple[str, ...]
    cells: int
    unpublished: int
    rows_unpublished: int
    mean_absolute: float
    rmse: float
    largest: float
    relative: float
    covered: float | None
    worst: tuple[WorstCell, ...]
    bootstrap: float

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as JSON."""
        return {**vars(self), "columns": list(self.columns), "worst": [vars(cell) for cell in self.worst]}


@dataclass(frozen=True, eq=False, repr=False)
class PublishedCells:
    """The published rows of a table.

    Args:
        codes: the cell of each, shape (cells, columns).
        counts: its count, NaN where it is suppressed, shape (cells,) [rows].
        bounds: lower and upper ends of its interval, shape (2, cells) [rows]; None where there are none.
    """

    codes: NDArray[np.int64]
    counts: NDArray[np.float64]
    bounds: NDArray[np.float64] | None


def cell_errors(
    exact: Mapping[int, int],
    numbers: NDArray[np.int64],
    published: PublishedCells,
    *,
    columns: tuple[str, ...],
    labels: tuple[tuple[str, ...], ...],
    cells: int,
) -> CellErrors:
    """Compare published counts with exact ones.

    Args:
        exact: rows in each populated cell, by its row-major number [rows].
        numbers: row-major number of each published cell.
        published: the published cells.
        columns: the table's columns.
        labels: labels of each column, in the order of its codes.
        cells: cells of the declared domain.
    Returns:
        CellErrors: private, as the exact counts are.
    """
    true = np.array([exact.get(int(number), 0) for number in numbers], dtype=np.float64)
    told = ~np.isnan(published.counts)
    apart = np.abs(published.counts - true)[told]
    rows = sum(exact.values())
    covered = None
    if published.bounds is not None and told.any():
        lower, upper = published.bounds[:, told]
        covered = float(np.mean((lower <= true[told]) & (true[told] <= upper)))
    order = np.flatnonzero(told)[np.argsort(-apart, kind="stable")][:MOST_CELLS_NAMED]
    worst = tuple(
        WorstCell(
            tuple(labels[place][code] for place, code in enumerate(published.codes[at])),
            int(true[at]),
            float(published.counts[at]),
        )
        for at in order
    )
    return CellErrors(
        columns,
        cells=int(told.sum()),
        unpublished=cells - int(told.sum()),
        rows_unpublished=rows - int(true[told].sum()),
        mean_absolute=float(apart.mean()) if apart.size else 0.0,
        rmse=float(np.sqrt(np.mean(apart**2))) if apart.size else 0.0,
        largest=float(apart.max()) if apart.size else 0.0,
        relative=float(apart.sum() / rows) if rows else 0.0,
        covered=covered,
        worst=worst,
        bootstrap=_bootstrap(true[told], rows),
    )


def _bootstrap(exact: NDArray[np.float64], rows: int) -> float:
    """Return the mean distance of a bootstrap's binomial counts:  E|X - c| is about sqrt(2 c (1 - c/n) / pi)."""
    if not rows or not exact.size:
        return 0.0
    return float(np.sqrt(2 * exact * (1 - exact / rows) / np.pi).mean())


@dataclass(frozen=True, repr=False, eq=False)
class PrivateTableErrors:
    """Errors against confidential rows, by name of the table: for the auditor alone (DESIGN law 5)."""

    tables: Mapping[str, CellErrors]

    def __repr__(self) -> str:
        """Show no number."""
        return "PrivateTableErrors(for the auditor alone)"

    def __reduce__(self) -> NoReturn:
        """Refuse pickling: errors against real rows must not land in a result store or a cache."""
        raise TypeError("PrivateTableErrors cannot be pickled: errors against real rows stay with the auditor")

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as JSON, for the private folder."""
        return {"tables": {name: errors.to_json() for name, errors in self.tables.items()}}
