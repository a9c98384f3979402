"""Refine: from noisy marginals to tables, by post-processing alone."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from contracts.contract.cell_codes import ImpossibleCells
from contracts.contract.contract import Contract
from contracts.release.spec import TableSpec, TablesProduct
from contracts.release.tables.expansion import tables_of
from contracts.release.tables.levels import Level, levels_of
from privacy.grant.measurement import Measurement, SparseMeasurement
from privacy.refine.sparse_tables import RefinedCells, refine_sparse_table
from privacy.refine.tables import Refined, refine_table
from privacy.refine.together import KnownTotal, MeasuredTable, refine_together
from privacy.refine.total import NoisySum, estimate_total, table_sum, total_kind
from privacy.refine.tree import measured_tree, refine_tree
from privacy.table_plans.plan import TOTAL_KEY, TablesPlan, table_key
from tasks.products.tables.reference_version import EarlierVersion
from tasks.storage.progress import step

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class MeasuredLevel:
    """A coarser resolution of a table, with its measurement."""

    level: Level
    measurement: Measurement


@dataclass(frozen=True)
class DenseTable:
    """A table as it will be published, with a count for every cell, and the measurement it came from.

    Args:
        name: name of the table.
        columns: its columns.
        measurement: the noisy marginal.
        refined: the refined one.
        levels: its coarser resolutions, coarsest first, where it has a hierarchy; their refined counts are
            `refined.coarser`.
    """

    name: str
    columns: tuple[str, ...]
    measurement: Measurement
    refined: Refined
    levels: tuple[MeasuredLevel, ...] = ()


@dataclass(frozen=True)
class SparseTable:
    """A table as it will be published, with a count for each cell that is not 0; the rest as for `DenseTable`."""

    name: str
    columns: tuple[str, ...]
    measurement: SparseMeasurement
    refined: RefinedCells
    levels: tuple[MeasuredLevel, ...] = ()


ReleasedTable = DenseTable | SparseTable
Measured = Measurement | SparseMeasurement


def refine(
    product: TablesProduct,
    plan: TablesPlan,
    contract: Contract,
    measurements: Sequence[Measurement | SparseMeasurement],
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
    drawn = {measurement.key: measurement for measurement in measurements}
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
                tables.append(_refined(product, table, contract, drawn, totals, reference))
            bar.advance(number / len(specified))
    logger.info("refined %d tables by %s", len(tables), product.refine.method)
    return tuple(tables)


@dataclass(frozen=True)
class Totals:
    """The totals of a release.

    Args:
        kept: what tables with a count for every cell add up to, if they keep it (`kept_total`); None where they keep
            no total [units].
        listed: what sparse tables add up to: the drawn total or the declared one; None without one [units].
        estimated: the average of all sums where `kept` is that, with the variance of its noise.
    """

    kept: int | None
    listed: int | None
    estimated: NoisySum | None


def totals_of(
    product: TablesProduct,
    plan: TablesPlan,
    contract: Contract,
    measurements: Sequence[Measured],
) -> Totals:
    """Return what the tables of a release must add up to.

    Args:
        product, plan, contract, measurements: as for `refine`.
    Privacy: post-processing of what was drawn, or declared public.
    """
    dense = [each for each in measurements if isinstance(each, Measurement)]
    listed = next((int(each.values) for each in dense if each.key == TOTAL_KEY), plan.public_total)
    if total_kind(product, contract) != "estimated":
        return Totals(listed, listed, None)
    zeros = {
        table_key(table.name, level.name): level.impossible(table.columns)
        for table in tables_of(product, contract)
        for level in levels_of(table, contract)
    }
    sums = [
        table_sum(each.values, zeros[each.key] if each.key in zeros else contract.impossible(each.clique), each.event)
        for each in dense
    ]
    estimated = estimate_total(sums)
    return Totals(estimated.value, listed, estimated)


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


def _dense(measurement: Measured) -> Measurement:
    """Return a whole noisy marginal; sparse tables are refined by themselves, other specs are refused before."""
    if isinstance(measurement, SparseMeasurement):
        raise ValueError(f"{measurement.key} lists cells: it is refined by itself")
    return measurement


def _refined(
    product: TablesProduct,
    table: TableSpec,
    contract: Contract,
    drawn: Mapping[str, Measured],
    totals: Totals,
    reference: NDArray[np.int64] | None,
) -> ReleasedTable:
    """Refine a table that was measured at one resolution."""
    measurement = drawn[table_key(table.name)]
    if isinstance(measurement, SparseMeasurement):
        noisy, event = measurement.table, measurement.event
        impossible = ImpossibleCells.of(contract, table.columns)
        listed = refine_sparse_table(noisy, product.refine, impossible=impossible, total=totals.listed, event=event)
        return SparseTable(table.name, table.columns, measurement, listed)
    refined = refine_table(
        measurement.values,
        product.refine,
        impossible=contract.impossible(table.columns),
        total=totals.kept if totals.estimated is None else totals.estimated,
        event=measurement.event,
        ordered=contract.ordered_axes(table.columns),
        reference=reference,
        threshold=measurement.threshold,
    )
    return DenseTable(table.name, table.columns, measurement, refined)


def _refined_levels(
    product: TablesProduct, table: TableSpec, contract: Contract, drawn: Mapping[str, Measured], total: int | None
) -> ReleasedTable:
    """Refine a table together with its coarser resolutions."""
    levels = [
        MeasuredLevel(level, _dense(drawn[table_key(table.name, level.name)])) for level in levels_of(table, contract)
    ]
    measured = [*(each.measurement for each in levels), _dense(drawn[table_key(table.name)])]
    tree = measured_tree(table, contract, [each.values for each in measured], [each.event for each in measured])
    refined = refine_tree(tree, total=total, integers=product.refine.integers)
    return DenseTable(table.name, table.columns, measured[-1], refined, tuple(levels))
