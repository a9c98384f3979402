"""The one way into a run, whoever conducts it: a command or a worker.

The spec is read, its folder held, and what is published already is found here and nowhere else. Prefect and observers
hear of the run when its conductor has let it go on: that a person stopped it because of its rows is told to nobody.
"""

from __future__ import annotations

import time
from contextlib import closing

from contracts.errors import SudareError
from flows.observers import check_observers, observed
from flows.order import Conductor, ReleaseOrder
from flows.outcome import Outcome
from flows.periods.clock import check_clock, check_due, check_over, today
from flows.periods.publications import attempt_noted, settled
from flows.request import Request, check_capacity, check_recorded, read_request
from tasks.products.approvals import check_approved
from tasks.publish import probe_store
from tasks.storage.progress import timed
from tasks.storage.workspace.run_folder import RunFolder, hold, run_name, sheltered
from tasks.storage.workspace.settings import Workspace


def make_release(order: ReleaseOrder, workspace: Workspace, conductor: Conductor) -> Outcome:
    """Make one release, or resume it, or say that it is published.

    Args:
        order: what is wanted.
        workspace: where.
        conductor: decides before Prefect hears of the run, and carries its steps out.
    Returns:
        Outcome: where it is, what it cost, what is left.
    Raises:
        SudareError: as the steps raise them; what Prefect is told holds no value out of a row.
    Privacy: the plan's events, charged before the first is drawn.
    """
    request = read_request(order.spec, workspace, order.period, order.due)
    check_recorded(request)
    check_capacity(request, workspace)
    check_observers(workspace)
    spec = request.spec
    name, of_period = run_name(spec.release, spec.run_digest), spec.block is not None
    with hold(workspace.runs, name, keep_snapshot=order.keep_snapshot, of_period=of_period) as run:
        try:
            return sheltered(lambda: _enter(run, request, order, workspace, conductor), lambda: run.error_log)
        except (KeyboardInterrupt, SudareError) as error:
            raise conductor.explained(error, run, request) from None


def _enter(
    run: RunFolder, request: Request, order: ReleaseOrder, workspace: Workspace, conductor: Conductor
) -> Outcome:
    """Return what is published already, without Prefect; else let the rows in, and have the steps carried out."""
    day = None if order.early else today(order.timezone)
    check_due(request, day, supersede=order.supersede)
    standing = settled(request, workspace, run, supersede=order.supersede)
    if standing is not None:
        return standing
    check_over(request, day)
    with closing(workspace.open_ledger()) as ledger:
        check_clock(ledger, workspace.clock_ahead, accepted=order.accept_clock)
        check_approved(request.spec, request.contract, request.plan, ledger)
    probe_store(request.store(workspace), request.spec.release)
    began = time.time_ns()
    with attempt_noted(request, workspace, run), timed() as done:
        decision = conductor.decide(run, request)

        def steps() -> Outcome:
            from flows.release import release_steps  # Prefect, which loads while the data are read

            return release_steps(run, request, workspace, decision)

        return observed(request, workspace, done, began, lambda: conductor.carry_out(decision, steps))
