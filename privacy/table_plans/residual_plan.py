"""The plan of tables that are measured by their residuals: one draw, and the noise of every table that follows.

A function of spec and contract alone. What is drawn stands in `privacy.marginals.residual_basis`, how precisely it
is drawn and how tables follow in `privacy.marginals.residuals`.

A published noisy count is the estimate rounded to a whole number. Its noise is a sum of many independent discrete
Gaussians on a lattice far finer than one row, so it is very nearly normal with the exact variance s; rounding adds
1/12. Refinement and intervals take it as discrete Gaussian noise of parameter s + 1/12, which has that variance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, prod

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Adjacency, Contract
from contracts.contract.impossible_cells import Clique
from contracts.release.tables.tables import Objective, TableSpec, TablesProduct
from privacy.accounting.amounts import PICO
from privacy.accounting.events import DiscreteGaussian
from privacy.arrays import Floats
from privacy.marginals.residual_basis import Residual, column_moves, residual_event
from privacy.marginals.residuals import (
    LEAST_BITS,
    ROUNDING_VARIANCE,
    ResidualTables,
    Workload,
    cell_covariance,
    expected_error,
    least_error,
    optimal_residuals,
    residual_variances,
    workload_of,
)
from privacy.marginals.sensitivity import GaussianNoise
from privacy.refine.margin_spaces import bits_of
from privacy.table_plans.split import kept_public_total


@dataclass(frozen=True)
class ResidualPlan:
    """What is measured, and what follows from it.

    Args:
        workload: tables, weights, and the cells of the contract's columns.
        residuals: what is measured, few columns first.
        noise: what all of it costs.
        event: the event of the draw.
        adjacency: of the contract.
        rows_per_unit: k of the contract.
        public_total: the number of rows where it is kept and not measured [rows].
        least_worst: with `objective: max` the bound below the largest weighted variance, of a unit of one row and a
            cost of one half; None where their sum is what is made small.
    """

    workload: Workload
    residuals: tuple[Residual, ...]
    noise: GaussianNoise
    event: DiscreteGaussian
    adjacency: Adjacency
    rows_per_unit: int
    public_total: int | None
    least_worst: float | None = None

    @cached_property
    def over_optimum(self) -> float:
        """Expected sum of squared errors, weighted, over the least of any linear measurement of the same loss.

        With `objective: max` the largest weighted variance over a bound that none can be below.
        """
        if self.least_worst is not None:
            rounded = self.least_worst * self.rows_per_unit**2 / (2 * float(self.noise.rho))
            return float(max(w * self._cell_variance(t) for t, w in self._weighted)) / rounded
        pairs = self._weighted
        cells = [w * prod(self.workload.sizes[name] for name in table) for table, w in pairs]
        found = expected_error(self.workload, self.variances) + float(sum(cells, Fraction(0)) * ROUNDING_VARIANCE)
        terms = {"adjacency": self.adjacency, "rows_per_unit": self.rows_per_unit}
        known = self.public_total is not None
        return found / least_error(self.workload, self.noise.rho, total_is_public=known, **terms)  # type: ignore[arg-type]

    @property
    def objective(self) -> Objective:
        """What is made small."""
        return "sum" if self.least_worst is None else "max"

    @property
    def cells(self) -> int:
        """Numbers that are drawn."""
        return sum(each.cells for each in self.residuals)

    @cached_property
    def variances(self) -> Mapping[Clique, Fraction]:
        """Variance of each residual's noise in the scale of counts [rows²]."""
        return residual_variances(self.residuals, self.event.sigma_squared)

    def table_noise(self, table: TableSpec | None) -> DiscreteGaussian:
        """Return the noise of every count of a table, or of the total; it costs nothing of its own."""
        columns = () if table is None else table.columns
        return DiscreteGaussian(Fraction(ceil(self._cell_variance(columns) * PICO), PICO), (1,))

    def noise_by_columns(self, table: TableSpec) -> Floats:
        """Return the variance of a table's noise in each space of `margin_spaces`, shape (2^columns,) [rows²]."""
        found = np.full(1 << len(table.columns), float(ROUNDING_VARIANCE))
        for part, own in self.variances.items():
            if set(part) <= set(table.columns):
                outside = prod(self.workload.sizes[name] for name in table.columns if name not in part)
                found[bits_of([name in part for name in table.columns])] += float(own) / outside
        return found

    def _cell_variance(self, columns: Clique) -> Fraction:
        """Return the variance of a published noisy count of a table, its rounding included [rows²]."""
        return cell_covariance(columns, self.workload.sizes, self.variances, same=set(columns)) + ROUNDING_VARIANCE

    @property
    def _weighted(self) -> Iterator[tuple[Clique, Fraction]]:
        """Yield each table with its weight."""
        return zip(self.workload.tables, self.workload.weights, strict=True)

    def column_event(self, column: str) -> DiscreteGaussian | None:
        """Return what the draw costs about one column of a unit of which all else is known; None where nothing."""
        moves = column_moves(self.residuals, column, self.rows_per_unit)
        return DiscreteGaussian(self.event.sigma_squared, moves) if moves else None

    def tables(self, values: NDArray[np.int64]) -> ResidualTables:
        """Return the tables that follow from what was drawn."""
        return ResidualTables(self.residuals, values, total=self.public_total)

    def counts(self, tables: ResidualTables, columns: Clique) -> NDArray[np.int64]:
        """Return the noisy counts of a table, or the noisy total, rounded to whole rows."""
        counts: NDArray[np.int64] = np.rint(tables.table(columns, self.workload.sizes)).astype(np.int64)
        return counts


def plan_residuals(
    tables: Sequence[TableSpec],
    contract: Contract,
    noise: GaussianNoise,
    *,
    objective: Objective,
    public_total: int | None,
) -> ResidualPlan:
    """Plan the residuals of tables so that the weighted sum, or the largest, of all cells' squared errors is least.

    Args:
        tables: of the contract's cells.
        contract: sizes, adjacency, rows of a unit.
        noise: what all of it may cost.
        objective: what is made small.
        public_total: the declared number of rows, where the release keeps it.
    Raises:
        TooManyResiduals: wide tables.
        AmountRefused: a noise that cannot be drawn.
    Privacy: reads no data.
    """
    measured = measured_residuals(tables, contract, objective=objective, public_total=public_total)
    adjacency, rows = contract.adjacency, contract.unit.max_rows_per_unit
    event = residual_event(measured.residuals, noise, adjacency=adjacency, rows_per_unit=rows)
    return measured.plan(noise, event, contract, public_total)


@dataclass(frozen=True)
class MeasuredResiduals:
    """Which residuals are measured of which tables; no charge decides that. Fields as in `ResidualPlan`."""

    workload: Workload
    residuals: tuple[Residual, ...]
    least_worst: float | None

    def plan(
        self, noise: GaussianNoise, event: DiscreteGaussian, contract: Contract, public_total: int | None
    ) -> ResidualPlan:
        """Return the plan of measuring them with that noise."""
        terms = contract.adjacency, contract.unit.max_rows_per_unit, public_total
        return ResidualPlan(self.workload, self.residuals, noise, event, *terms, self.least_worst)


def measured_residuals(
    tables: Sequence[TableSpec], contract: Contract, *, objective: Objective, public_total: int | None
) -> MeasuredResiduals:
    """Return which residuals are measured, each how precisely; arguments as for `plan_residuals`."""
    workload, known, bound = workload_of(tables, contract), public_total is not None, None
    shared, bits = workload, LEAST_BITS
    if objective == "max":
        from privacy.marginals.residuals import WORST_VARIANCE_LEAST_BITS as FINER_BITS  # few plans do
        from privacy.marginals.residuals import worst_case_workload

        shared, bound = worst_case_workload(workload, adjacency=contract.adjacency, total_is_public=known)
        bits = FINER_BITS
    terms = {"adjacency": contract.adjacency, "total_is_public": known, "least_bits": bits}
    return MeasuredResiduals(workload, optimal_residuals(shared, **terms), bound)  # type: ignore[arg-type]


def plan_of_draw(
    product: TablesProduct, tables: Sequence[TableSpec], contract: Contract, event: DiscreteGaussian
) -> ResidualPlan:
    """Return the plan of which a draw is known to have that event, with what that costs."""
    total = kept_public_total(product, contract)
    measured = measured_residuals(tables, contract, objective=product.objective, public_total=total)
    return measured.plan(_paid(event), event, contract, total)


def drawn_residuals(product: TablesProduct, tables: Sequence[TableSpec], contract: Contract) -> tuple[Residual, ...]:
    """Return what a product has measured."""
    total = kept_public_total(product, contract)
    return measured_residuals(tables, contract, objective=product.objective, public_total=total).residuals


def _paid(event: DiscreteGaussian) -> GaussianNoise:
    """Return what a draw of an event costs."""
    return GaussianNoise(Fraction(sum(move * move for move in event.moves)) / (2 * event.sigma_squared))
