"""Measure: every planned marginal, through the grant."""

from __future__ import annotations

import logging
from typing import Protocol

from contracts.contract.contract import Contract
from contracts.contract.impossible_cells import Clique
from contracts.release.tables.minimum_frequency import MinimumFrequency
from privacy.grant.grant import Grant
from privacy.grant.measurement import Measurement
from privacy.grant.queries.marginal import MarginalQuery
from privacy.grant.queries.sparse_marginal import SparseMarginalQuery
from privacy.marginals.coarsening import Coarsening
from privacy.marginals.counts import PrivateCounts, SparseCounts
from privacy.marginals.sensitivity import LaplaceNoise
from privacy.private_table import PrivateTable
from privacy.snapshots.snapshot_counts import SnapshotCounts
from privacy.table_plans.plan import TOTAL_KEY, PlannedDraw, TablesPlan
from tasks.records.outputs import TableMeasurement
from tasks.storage.progress import step

logger = logging.getLogger(__name__)


class Handles(Protocol):
    """Gives handles on exact marginals, whole or of their populated cells."""

    def marginal(self, clique: Clique, coarsening: Coarsening | None = None) -> PrivateCounts: ...  # noqa: D102

    def sparse(self, clique: Clique) -> SparseCounts: ...  # noqa: D102


def measure(grant: Grant, plan: TablesPlan, table: PrivateTable, contract: Contract) -> tuple[TableMeasurement, ...]:
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
    logger.info("measured %d marginals with %d cells", len(plan.draws), plan.cells)
    return measurements


def measure_counts(grant: Grant, plan: TablesPlan, counts: Handles) -> tuple[TableMeasurement, ...]:
    """Draw the planned measurements from handles on exact counts; arguments and result as for `measure`."""
    measurements: list[TableMeasurement] = []
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
