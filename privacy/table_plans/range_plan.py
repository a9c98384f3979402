"""The plan of tables of which some ask ranges of ordered columns: one draw, and every row's noise that follows.

A function of spec and contract alone. What is measured stands in `privacy.marginals.ordered`. Rows of such a table
differ in their noise, so each has its own variance and interval. Published answers are rounded to whole numbers,
which adds 1/12 to the variance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import ceil, prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Adjacency, Contract
from contracts.contract.impossible_cells import Clique
from contracts.release.tables.range_cells import axis_ranges
from contracts.release.tables.tables import Objective, TableSpec, TablesProduct
from privacy.accounting.amounts import PICO
from privacy.accounting.events import DiscreteGaussian
from privacy.arrays import Floats
from privacy.marginals.count_noise import variance
from privacy.marginals.ordered.design import RangeTable, RangeWorkload, best_design
from privacy.marginals.ordered.strategies import (
    RangeAnswers,
    RangeStrategy,
    answer_variances,
    column_moves,
    strategies_of,
    strategy_event,
)
from privacy.marginals.residuals import ROUNDING_VARIANCE
from privacy.marginals.sensitivity import GaussianNoise
from privacy.refine.intervals import RowNoise

_TOTAL: Final = RangeTable((), (), Fraction(1))


@dataclass(frozen=True)
class MeasuredRanges:
    """Which strategies are measured of which tables; no charge decides that.

    Args:
        workload: the tables, in their order.
        residuals: what is measured, few columns first.
        bound: below the objective of every plan, for a cost of one half and a unit of one row.
    """

    workload: RangeWorkload
    residuals: tuple[RangeStrategy, ...]
    bound: float


@dataclass(frozen=True)
class RangePlan:
    """What is measured, and what follows from it.

    Args:
        measured: the strategies.
        objective: what is made small.
        noise: what all of it costs.
        event: the event of the draw.
        rows_per_unit: k of the contract.
        specs: the tables, as the spec writes them.
    """

    measured: MeasuredRanges
    objective: Objective
    noise: GaussianNoise
    event: DiscreteGaussian
    rows_per_unit: int
    specs: tuple[TableSpec, ...]
    public_total: None = None

    @property
    def residuals(self) -> tuple[RangeStrategy, ...]:
        """What is measured."""
        return self.measured.residuals

    @property
    def queries(self) -> Mapping[str, str]:
        """What each table with queries asks, by the key of a draw of it, as people read it."""
        asked = (each for each in self.specs if each.queries)
        return {f"table:{each.name}": ", ".join(query.words for query in each.queries) for each in asked}

    @property
    def cells(self) -> int:
        """Numbers that are drawn."""
        return sum(each.cells for each in self.residuals)

    @cached_property
    def over_optimum(self) -> float:
        """The objective over a bound that no linear measurement with Gaussian noise is below."""
        workload, rounding = self.measured.workload, float(ROUNDING_VARIANCE)
        rows = [(table, self._variances(table) + rounding) for table in workload.tables]
        if self.objective == "max":
            found = max(float(table.weight) * float(each.max()) for table, each in rows)
        else:
            cells = [prod(workload.sizes[name] for name in table.columns) for table, _ in rows]
            found = sum(
                float(table.weight) * n * float(each.sum()) for n, (table, each) in zip(cells, rows, strict=True)
            )
        return found / (self.measured.bound * self.rows_per_unit**2 / (2 * float(self.noise.rho)))

    def _variances(self, table: RangeTable) -> Floats:
        return answer_variances(table, self.measured.workload, self.residuals, self.event.sigma_squared)

    def table_noise(self, table: TableSpec | None) -> DiscreteGaussian:
        """Return the largest noise of a table's rows, or of the total; it costs nothing of its own."""
        largest = float(self._variances(_TOTAL if table is None else self._asked(table)).max())
        exact = Fraction(largest) + ROUNDING_VARIANCE
        return DiscreteGaussian(Fraction(ceil(exact * PICO), PICO), (1,))

    def mean_variance(self, table: TableSpec | None) -> float:
        """Return the average variance of a table's rows, rounding included [rows²]."""
        if table is None:
            return variance(self.table_noise(None))
        return float(self._variances(self._asked(table)).mean()) + float(ROUNDING_VARIANCE)

    def noise_by_columns(self, table: TableSpec) -> None:
        """Return nothing: answers of ranges are not refined."""
        return

    def row_noise(self, table: TableSpec) -> RowNoise:
        """Return variance and interval of every row of a table, in the shape of its columns."""
        asked = self._asked(table)
        exact = self._variances(asked) + float(ROUNDING_VARIANCE)
        whole = np.broadcast_to(self._in_columns(table, exact, plain=1), self._shape(table))
        return RowNoise.of(whole)

    def column_event(self, column: str) -> DiscreteGaussian | None:
        """Return what the draw costs about one column of a unit of which all else is known; None where nothing."""
        moves = column_moves(self.residuals, column, self.rows_per_unit)
        return DiscreteGaussian(self.event.sigma_squared, moves) if moves else None

    def tables(self, values: NDArray[np.int64]) -> RangeAnswers:
        """Return the answers that follow from what was drawn."""
        return RangeAnswers(self.residuals, values)

    def counts(self, tables: RangeAnswers, key: str, columns: Clique) -> NDArray[np.int64]:
        """Return the noisy rows of the table of a key, or the noisy total, rounded to whole numbers."""
        table = next((each for each in self.specs if each.name == key.partition(":")[2]), None)
        if table is None:
            return np.asarray(np.rint(tables.total)).astype(np.int64)
        found = tables.table(self._asked(table), self.measured.workload)
        counts: NDArray[np.int64] = np.rint(self._in_columns(table, found, plain=None)).astype(np.int64)
        return counts

    def _asked(self, table: TableSpec) -> RangeTable:
        return self.measured.workload.tables[self.specs.index(table)]

    def _shape(self, table: TableSpec) -> tuple[int, ...]:
        asked, sizes = self._asked(table).asked, self.measured.workload.sizes
        return tuple(len(asked[name]) if name in asked else sizes[name] for name in table.columns)

    def _in_columns(self, table: TableSpec, values: Floats, *, plain: int | None) -> Floats:
        """Put axes in the order of a table's columns. Columns that tell nothing have one cell, or all plain ones."""
        workload, asked = self.measured.workload, self._asked(table)
        wide = [] if plain == 1 else list(workload.wide(asked))
        order = [*wide, *asked.asked]
        known = values.transpose([order.index(name) for name in table.columns if name in order])
        sizes = iter(known.shape)
        return known.reshape([next(sizes) if name in order else 1 for name in table.columns])


def measured_ranges(tables: Sequence[TableSpec], contract: Contract, *, objective: Objective) -> MeasuredRanges:
    """Return what is measured of tables with queries, and the bound.

    Args:
        tables: all tables of the release.
        contract: cells of the columns, adjacency.
        objective: what is made small.
    Raises:
        TooManyResiduals, TooManyRanges: tables that are too wide.
    Privacy: reads no data.
    """
    asked = {each.column for table in tables for each in table.queries}
    named = {name for table in tables for name in table.columns}
    sizes = [(column.name, contract.shape((column.name,))[0]) for column in contract.columns if column.name in named]
    plain = tuple(each for each in sizes if each[0] not in asked)
    ordered = tuple(each for each in sizes if each[0] in asked)
    workload = RangeWorkload(plain, ordered, tuple(_range_table(table, contract, asked) for table in tables))
    return _designed(workload, contract.adjacency, objective)


@lru_cache(maxsize=8)
def _designed(workload: RangeWorkload, adjacency: Adjacency, objective: Objective) -> MeasuredRanges:
    """Search once for a workload: a run plans the same tables several times."""
    design = best_design(workload, adjacency=adjacency, worst=objective == "max")
    return MeasuredRanges(workload, strategies_of(workload.residuals, design), design.bound)


def _range_table(table: TableSpec, contract: Contract, asked: set[str]) -> RangeTable:
    kinds = {each.column: each.kind for each in table.queries}
    plain = tuple(name for name in table.columns if name not in asked)
    ranges = [
        (name, axis_ranges(contract.column(name), kinds.get(name, "identity")))
        for name in table.columns
        if name in asked
    ]
    return RangeTable(plain, tuple(ranges), Fraction(table.weight))


def plan_ranges(
    tables: Sequence[TableSpec], contract: Contract, noise: GaussianNoise, *, objective: Objective
) -> RangePlan:
    """Plan tables with queries; arguments as for `measured_ranges`, and what all of it may cost.

    Raises:
        TooManyResiduals, TooManyRanges: tables that are too wide.
        AmountRefused: a noise that cannot be drawn.
    Privacy: reads no data.
    """
    measured, rows = measured_ranges(tables, contract, objective=objective), contract.unit.max_rows_per_unit
    event = strategy_event(measured.residuals, noise, adjacency=contract.adjacency, rows_per_unit=rows)
    return RangePlan(measured, objective, noise, event, rows, tuple(tables))


def ranges_of_draw(
    product: TablesProduct, tables: Sequence[TableSpec], contract: Contract, event: DiscreteGaussian
) -> RangePlan:
    """Return the plan of which a draw is known to have that event, with what that costs."""
    measured = measured_ranges(tables, contract, objective=product.objective)
    noise = GaussianNoise(Fraction(sum(move * move for move in event.moves)) / (2 * event.sigma_squared))
    return RangePlan(measured, product.objective, noise, event, contract.unit.max_rows_per_unit, tuple(tables))
