"""What is looked at before a release is deployed: what could never run is told now, and not at its first date."""

from __future__ import annotations

from contextlib import closing
from datetime import date, datetime
from itertools import islice, pairwise
from pathlib import Path
from typing import Final

from cronsim import CronSim

from contracts.errors import SpecRefused
from contracts.periods.period import last_complete
from contracts.periods.period_rules import ON_SCHEDULE
from contracts.reading.scalars import Problem
from contracts.release.spec import ReleaseSpec, pattern_of
from flows.periods.clock import today
from flows.request import Request, read_request
from privacy.ledger.entries import BudgetExceeded, LedgerRefusal
from privacy.ledger.forecast import remaining_of, runs_left, times
from privacy.ledger.ledger import Ledger
from tasks.products.charge_request import request_for
from tasks.storage.workspace.settings import Workspace

_LOOKED_AT: Final = 400
_ONCE: Final = Problem(
    "no `redraw:`, on a cron",
    "redraw: on_schedule, redraw: on_change, or --supersede",
    "on_schedule charges each due date once and tells nothing of the rows by making a version: docs/platform.md",
    ("redraw",),
)


def check_deployable(
    spec: Path, workspace: Workspace, *, cron: str | None, timezone: str | None, supersede: bool
) -> str:
    """Read spec and contract, of a pattern those of the last period that is over, and ask the ledger. Reads no data.

    Args:
        spec: the release spec.
        workspace: gives the ledger.
        cron: when it runs; None for on demand.
        timezone: of the cron.
        supersede: whether each run may make another version.
    Returns:
        How often it fits what is left, in words.
    Raises:
        SpecRefused, ContractRefused: spec or contract cannot be followed, or say not when a schedule draws again.
        BudgetExceeded: it costs more than an account's whole cap.
        LedgerRefusal: no account, or a source that is bound to nobody; of a pattern that is told, since accounts and
            sources of its periods may come.
    """
    length = pattern_of(spec)
    period = None if length is None else str(last_complete(today(timezone), length))
    request = read_request(spec, workspace, period)
    if cron is not None and period is None:
        _check_redraw(request.spec, cron, supersede=supersede)
    with closing(workspace.open_ledger()) as ledger:
        try:
            return _fits(ledger, request)
        except BudgetExceeded:
            raise
        except LedgerRefusal as refused:
            if period is None:
                raise
            first = refused.findings[0]
            return f"{period} would be refused as things stand: {first.where}, {first.field}: {first.found}"


def _check_redraw(spec: ReleaseSpec, cron: str, *, supersede: bool) -> None:
    """Refuse a schedule whose second version nobody has asked for, and two runs of one due date."""
    if spec.redraw is None and not supersede:
        raise SpecRefused([spec.finding((), _ONCE)])
    days = [at.date() for at in islice(CronSim(cron, datetime(2026, 1, 1)), _LOOKED_AT)]
    if spec.redraw == ON_SCHEDULE and _twice(days):
        found = f"redraw: on_schedule with {cron!r}, which comes several times a day"
        remedy = "let it come once a day at most: the due date of a run is a day"
        raise SpecRefused([spec.finding((), Problem(found, "one run on each due date", remedy, ("redraw",)))])


def _twice(days: list[date]) -> bool:
    return any(one == other for one, other in pairwise(days))


def _fits(ledger: Ledger, request: Request) -> str:
    asked = request_for(request.spec, request.contract, request.plan)
    priced = ledger.price(asked)
    states = {state.terms.name: state for state in priced.accounts}
    set_aside = min((state.terms.calculus.selection_delta for state in priced.accounts), default=0)
    if any(part.amount > states[part.account].cap for part in priced.parts) or priced.failure > set_aside:
        ledger.foresee(asked)  # in the words in which a run would be refused
    left = runs_left(priced.parts, remaining_of(priced.accounts), failure=priced.failure)
    names = ", ".join(sorted(states))
    if not left:
        return f"nothing more fits {names} as it stands: runs will be refused"
    return f"it fits {times(left)} into what is left of {names}, if nothing else is charged"
