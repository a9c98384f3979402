"""Refine: from noisy marginals to tables, by post-processing alone."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from contracts.contract.cell_codes import ImpossibleCells
from contracts.contract.contract import Contract
from contracts.release.spec import TableSpec, TablesProduct
from contracts.release.tables.levels import levels_of, table_cells
from contracts.release.tables.tables import tables_of
from privacy.arrays import Floats
from privacy.grant.measurement import Measurement, SparseMeasurement
from privacy.refine.consistency import KnownTotal, MeasuredTable, measured_tree, refine_together, refine_tree
from privacy.refine.tables import refine_sparse_table, refine_table
from privacy.table_plans.plan import TablesPlan, table_key
from tasks.records.outputs import (
    DenseTable,
    DrawnTables,
    EarlierVersion,
    MeasuredLevel,
    ReleasedSparseTable,
    ReleasedTable,
    TableMeasurement,
)
from tasks.records.totals import Totals, totals_of
from tasks.storage.progress import step

logger = logging.getLogger(__name__)


def refine(
    product: TablesProduct,
    plan: TablesPlan,
    contract: Contract,
    measurements: Sequence[DrawnTables],
    earlier: EarlierVersion | None = None,
) -> tuple[ReleasedTable, ...]:
    """Refine every measured table with the release's total.

    Args:
        product: the tables product of the spec.
        plan: the plan; gives the public total where one is declared.
        contract: gives the structural zeros and the order of the cells.
        measurements: what the grant drew.
        earlier: the version on which λ is chosen, where the spec names one.
    Returns:
        tuple[ReleasedTable, ...]: in the order of the spec.
    Privacy: post-processing.
    """
    drawn = {each.key: each for each in measurements if isinstance(each, Measurement | SparseMeasurement)}
    totals = totals_of(product, plan, contract, measurements)
    specified = tables_of(product, contract)
    tables = []
    with step("refine") as bar:
        if product.refine.consistent:
            return _refined_together(product, specified, contract, drawn, totals.kept)
        for number, table in enumerate(specified, 1):
            if table.hierarchy is not None:
                tables.append(_refined_levels(product, table, contract, drawn, totals.kept))
            else:
                reference = None if earlier is None else earlier.counts[table.name]
                by_columns = None if plan.residuals is None else plan.residuals.noise_by_columns(table)
                tables.append(_refined(product, table, contract, drawn, totals, reference, by_columns))
            bar.advance(number / len(specified))
    logger.info("refined %d tables by %s", len(tables), product.refine.method)
    return tuple(tables)


def _refined_together(
    product: TablesProduct,
    specified: Sequence[TableSpec],
    contract: Contract,
    drawn: Mapping[str, Measurement | SparseMeasurement],
    total: int | None,
) -> tuple[ReleasedTable, ...]:
    """Refine all tables so that they agree on what they share."""
    measurements = [_dense(drawn[f"table:{table.name}"]) for table in specified]
    measured = [
        MeasuredTable(table.columns, each.values, contract.impossible(table.columns), each.event)
        for table, each in zip(specified, measurements, strict=True)
    ]
    known = None if total is None else KnownTotal(total, None)
    refined = refine_together(measured, product.refine, total=known)
    logger.info("refined %d tables together by %s", len(refined), product.refine.method)
    return tuple(
        DenseTable(table.name, table.columns, each, made)
        for table, each, made in zip(specified, measurements, refined, strict=True)
    )


def _dense(measurement: TableMeasurement) -> Measurement:
    """Return a whole noisy marginal; sparse tables are refined by themselves, other specs are refused before."""
    if isinstance(measurement, SparseMeasurement):
        raise ValueError(f"{measurement.key} lists cells: it is refined by itself")
    return measurement


def _refined(
    product: TablesProduct,
    table: TableSpec,
    contract: Contract,
    drawn: Mapping[str, TableMeasurement],
    totals: Totals,
    reference: NDArray[np.int64] | None,
    by_columns: Floats | None,
) -> ReleasedTable:
    """Refine a table that was measured at one resolution."""
    measurement = drawn[table_key(table.name)]
    if isinstance(measurement, SparseMeasurement):
        noisy, event = measurement.table, measurement.event
        impossible = ImpossibleCells.of(contract, table.columns)
        total = totals.of_sparse_tables
        listed = refine_sparse_table(noisy, product.refine, impossible=impossible, total=total, event=event)
        return ReleasedSparseTable(table.name, table.columns, measurement, listed)
    refined = refine_table(
        measurement.values,
        product.refine,
        impossible=table_cells(table, contract).impossible(table.columns),
        total=totals.kept if totals.estimated is None else totals.estimated,
        event=measurement.event,
        ordered=table_cells(table, contract).ordered_axes(table.columns),
        reference=reference,
        threshold=measurement.threshold,
        by_columns=by_columns,
    )
    return DenseTable(table.name, table.columns, measurement, refined)


def _refined_levels(
    product: TablesProduct,
    table: TableSpec,
    contract: Contract,
    drawn: Mapping[str, TableMeasurement],
    total: int | None,
) -> ReleasedTable:
    """Refine a table together with its coarser resolutions."""
    levels = [
        MeasuredLevel(level, _dense(drawn[table_key(table.name, level.name)])) for level in levels_of(table, contract)
    ]
    measured = [*(each.measurement for each in levels), _dense(drawn[table_key(table.name)])]
    tree = measured_tree(table, contract, [each.values for each in measured], [each.event for each in measured])
    refined = refine_tree(tree, total=total, integers=product.refine.integers)
    return DenseTable(table.name, table.columns, measured[-1], refined, tuple(levels))
