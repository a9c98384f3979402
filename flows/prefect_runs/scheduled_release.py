"""The flow that deployments run: the release of the period that is due, whenever and how often it is started.

Prefect retries nothing here on its own. A run that is started again finds its period published, or goes on with what
was charged and drawn, so starting it once too often is safe; what may pass by itself is waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from time import sleep
from typing import Final

from prefect import flow
from prefect.logging import get_run_logger
from prefect.runtime import flow_run

from contracts.errors import StoreAway, SudareError
from contracts.periods.period import last_complete
from contracts.periods.period_rules import ON_SCHEDULE
from contracts.release.spec import pattern_of, redraw_of
from flows.entrance import make_release
from flows.order import ReleaseOrder
from flows.outcome import Outcome, standing
from flows.periods.clock import today
from flows.release import Unattended
from privacy.ledger.entries import LedgerConflict, LedgerUnavailable, SchemaUnknown
from tasks.storage.credentials import CredentialsAway
from tasks.storage.workspace.environment import switch_telemetry_off
from tasks.storage.workspace.run_folder import RunBusy, alive, note_end
from tasks.storage.workspace.settings import Workspace

PASSING: Final = (LedgerConflict, LedgerUnavailable, StoreAway, CredentialsAway, RunBusy)
PAUSES: Final = (2.0, 5.0, 15.0, 30.0)


@flow(name="scheduled-release", retries=0, persist_result=False, log_prints=False, validate_parameters=False)
def scheduled_release(
    spec_path: str,
    workspace_path: str,
    period: str | None = None,
    supersede: bool = False,
    early: bool = False,
    timezone: str | None = None,
    due: str | None = None,
) -> None:
    """Make the release of a period; without one, of the last that was over when the run was due.

    Of a spec with `redraw: on_schedule` the day for which Prefect has scheduled the run is its due date. It stays the
    same however often and late the run is started.

    Args:
        spec_path: the release spec.
        workspace_path: the workspace, which all workers share.
        period: which period (2024-Q3); None for the one that is due, and for a spec of one release.
        supersede: whether what is published gets another version if rows or spec have changed.
        early: whether a period is released that is not over.
        timezone: of the cron; by its days a period is over. UTC without it.
        due: the date that the run is due on, where it is not that of the schedule.
    Raises:
        SudareError: as `flows.entrance`; the message holds no value out of a row.
    Privacy: as `flows.entrance`.
    """
    switch_telemetry_off()
    workspace = Workspace.open(Path(workspace_path))
    at = flow_run.scheduled_start_time
    chosen = due_period(Path(spec_path), at, timezone) if period is None else period
    date = due_date(Path(spec_path), at, timezone) if due is None else due
    with alive(workspace.live, str(flow_run.id)), _end_noted(workspace.live, str(flow_run.id)) as published:
        order = ReleaseOrder(Path(spec_path), chosen, supersede=supersede, early=early, timezone=timezone, due=date)
        outcome = patiently(lambda: make_release(order, workspace, Unattended(order)))
        done = standing(outcome.status, repeated=outcome.repeated)
        published.append(f"{outcome.release} v{outcome.version} {done}")
    get_run_logger().info(published[-1])


@contextmanager
def _end_noted(live: Path, run: str) -> Iterator[list[str]]:
    """Note for the worker how a run ended: its version, or the exit code of what Prefect is told too.

    Yields:
        A list that takes the line to be noted.
    """
    said: list[str] = []
    try:
        yield said
    except SudareError as error:
        note_end(live, run, f"not published ({type(error).__name__}); Prefect has the reason", error.exit_code)
        raise
    note_end(live, run, said[-1], 0)


def due_date(spec: Path, at: datetime | None, timezone: str | None = None) -> str | None:
    """Return the day of a time, for a spec of one release with `redraw: on_schedule`; None for any other."""
    return today(timezone, at).isoformat() if redraw_of(spec) == ON_SCHEDULE and pattern_of(spec) is None else None


def due_period(spec: Path, at: datetime | None, timezone: str | None = None) -> str | None:
    """Return the last period that is over at a time, by the days of a time zone; None for a spec of one release."""
    granularity = pattern_of(spec)
    return None if granularity is None else str(last_complete(today(timezone, at), granularity))


def patiently(make: Callable[[], Outcome]) -> Outcome:
    """Make a release; where a ledger, a store or another run of it is in the way, wait and try again."""
    for pause in PAUSES:
        try:
            return make()
        except SchemaUnknown:
            raise
        except PASSING as error:
            _say(error, pause)
            sleep(pause)
    return make()


def _say(error: SudareError, pause: float) -> None:
    get_run_logger().warning(f"{type(error).__name__}: tried again in {pause:g} s; nothing is charged twice")
