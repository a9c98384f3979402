"""Measure: every planned marginal, through the grant."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from contracts.contract.contract import Contract
from contracts.contract.impossible_cells import Clique
from contracts.release.tables.tables import RESIDUALS, MinimumFrequency
from privacy.grant.grant import Grant
from privacy.grant.measurement import Measurement, ResidualMeasurement
from privacy.grant.queries.marginal import MarginalQuery
from privacy.grant.queries.residuals import ResidualQuery
from privacy.grant.queries.sparse_marginal import SparseMarginalQuery
from privacy.ledger.draw_files import values_digest
from privacy.marginals.counts import Coarsening, PrivateCounts, SparseCounts
from privacy.marginals.sensitivity import LaplaceNoise
from privacy.private_table import PrivateTable
from privacy.snapshots.snapshot import SnapshotCounts
from privacy.table_plans.plan import TOTAL_KEY, PlannedDraw, TablesPlan
from tasks.records.outputs import DrawnTables, TableMeasurement
from tasks.storage.progress import step

if TYPE_CHECKING:
    from privacy.table_plans.residual_plan import ResidualPlan

logger = logging.getLogger(__name__)


class Handles(Protocol):
    """Gives handles on exact marginals, whole or of their populated cells."""

    def marginal(self, clique: Clique, coarsening: Coarsening | None = None) -> PrivateCounts: ...  # noqa: D102

    def marginals(self, cliques: Sequence[Clique]) -> tuple[PrivateCounts, ...]: ...  # noqa: D102

    def sparse(self, clique: Clique) -> SparseCounts: ...  # noqa: D102


def measure(grant: Grant, plan: TablesPlan, table: PrivateTable, contract: Contract) -> tuple[DrawnTables, ...]:
    """Draw (or replay) the planned measurements in their order.

    Args:
        grant: the opened grant of the run.
        plan: what to measure.
        table: the snapshot.
        contract: the contract that encoded it.
    Returns:
        tuple: noisy marginals over the full declared domain, or the listed cells of sparse ones; already durable.
    Raises:
        GrantExceeded: the grant does not cover a draw.
    Privacy: exactly the events of the plan, paid by the grant.
    """
    measurements = measure_counts(grant, plan, SnapshotCounts(table, contract))
    logger.info("measured %d tables with %d cells", len(plan.measured), plan.cells)
    return measurements


def measure_counts(grant: Grant, plan: TablesPlan, counts: Handles) -> tuple[DrawnTables, ...]:
    """Draw the planned measurements from handles on exact counts; arguments and result as for `measure`."""
    if plan.residuals is not None:
        return _measured_by_residuals(grant, plan, plan.residuals, counts)
    measurements: list[DrawnTables] = []
    total = plan.public_total
    with step("measure") as bar:
        for number, draw in enumerate(plan.draws, 1):
            measurements.append(_measured(grant, draw, counts, total, plan.minimum_frequency))
            if draw.key == TOTAL_KEY and isinstance(measurements[-1], Measurement):
                total = int(measurements[-1].values)
            bar.advance(number / len(plan.draws))
    return tuple(measurements)


def _measured(
    grant: Grant, draw: PlannedDraw, counts: Handles, total: int | None, rule: MinimumFrequency | None
) -> TableMeasurement:
    """Draw one measurement; the total is the released one, which is drawn first."""
    if draw.sparse is None or not isinstance(draw.noise, LaplaceNoise):
        handle = counts.marginal(draw.clique, draw.coarsening)
        return grant.draw(MarginalQuery(handle, draw.noise, rule), key=draw.key)
    until = draw.sparse.depth(total)
    return grant.draw(SparseMarginalQuery(counts.sparse(draw.clique), draw.noise, until), key=draw.key)


def _measured_by_residuals(
    grant: Grant, plan: TablesPlan, residuals: ResidualPlan, counts: Handles
) -> tuple[DrawnTables, ...]:
    """Draw all residuals, counted in one scan, and make the noisy tables that follow from them."""
    with step("measure") as bar:
        handles = counts.marginals([each.columns for each in residuals.residuals])
        query = ResidualQuery(handles, tuple(each.multiplier for each in residuals.residuals), residuals.noise)
        drawn = grant.draw(query, key=RESIDUALS)
        bar.advance(0.5)
        return (drawn, *derived_tables(plan, residuals, drawn))


def derived_tables(plan: TablesPlan, residuals: ResidualPlan, drawn: ResidualMeasurement) -> tuple[Measurement, ...]:
    """Return the noisy tables, and the total where it was measured, that follow from residuals. Post-processing.

    Args:
        plan: gives the noise of each.
        residuals: what was measured.
        drawn: its noisy numbers.
    """
    known, made = residuals.tables(drawn.values), []
    for each in plan.derived:
        counts = residuals.counts(known, each.clique)
        digest = values_digest(counts)
        made.append(Measurement(each.key, each.clique, counts, each.event, each.variance, drawn.number, digest))
    return tuple(made)
