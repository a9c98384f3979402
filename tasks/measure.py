"""Measure: every planned marginal, through the grant."""

from __future__ import annotations

import logging

from contracts.contract import Contract
from privacy.ledger.grant import Grant, Measurement
from privacy.marginals.counts import SnapshotCounts
from privacy.marginals.plan import TablesPlan
from privacy.private_table import PrivateTable
from tasks.progress import step

logger = logging.getLogger(__name__)


def measure(grant: Grant, plan: TablesPlan, table: PrivateTable, contract: Contract) -> tuple[Measurement, ...]:
    """Draw (or replay) the planned measurements in their order.

    Args:
        grant: the opened grant of the run.
        plan: what to measure.
        table: the snapshot.
        contract: the contract that encoded it.
    Returns:
        tuple[Measurement, ...]: noisy marginals over the full declared domain, already durable.
    Raises:
        GrantExceeded: the grant does not cover a draw.
    Privacy: exactly the events of the plan, paid by the grant.
    """
    counts = SnapshotCounts(table, contract)
    measurements = []
    with step("measure") as bar:
        for number, draw in enumerate(plan.draws, 1):
            handle = counts.marginal(draw.clique, draw.coarsening)
            measurements.append(grant.measure(handle, noise=draw.noise, key=draw.key))
            bar.advance(number / len(plan.draws))
    logger.info("measured %d marginals with %d cells", len(plan.draws), plan.cells)
    return tuple(measurements)
