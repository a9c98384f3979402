"""The flow that deployments run: the release of the period that is due, whenever and how often it is started.

Prefect retries nothing here on its own. A run that is started again finds its period published, or goes on with what
was charged and drawn, so starting it once too often is safe; what may pass by itself is waited for.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from time import sleep
from typing import Final

from prefect import flow
from prefect.logging import get_run_logger
from prefect.runtime import flow_run

from contracts.errors import SudareError
from contracts.period import last_complete
from contracts.spec import pattern_of
from flows.clock import today
from flows.outcome import Outcome
from flows.release import release
from privacy.ledger.errors import LedgerConflict, LedgerOutdated, LedgerUnavailable
from tasks.credentials import CredentialsAway
from tasks.liveness import alive
from tasks.object_store import StoreAway
from tasks.run_folder import RunBusy
from tasks.settings import Workspace, switch_telemetry_off

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
) -> None:
    """Make the release of a period; without one, of the last that was over when the run was due.

    Args:
        spec_path: the release spec.
        workspace_path: the workspace, which all workers share.
        period: which period (2024-Q3); None for the one that is due, and for a spec of one release.
        supersede: whether a published period gets another version if its rows have changed.
        early: whether a period is released that is not over.
        timezone: of the cron; by its days a period is over. UTC without it.
    Raises:
        SudareError: as `flows.release`; the message holds no value out of a row.
    Privacy: as `flows.release`.
    """
    switch_telemetry_off()
    workspace = Workspace.open(Path(workspace_path))
    chosen = due(Path(spec_path), flow_run.scheduled_start_time, timezone) if period is None else period
    with alive(workspace.live, str(flow_run.id)):
        outcome = patiently(
            lambda: release.fn(
                spec_path, workspace_path, period=chosen, supersede=supersede, early=early, timezone=timezone
            )
        )
    done = "was published already" if outcome.repeated else "is published"
    get_run_logger().info(f"{outcome.release} v{outcome.version} {done}")


def due(spec: Path, at: datetime | None, timezone: str | None = None) -> str | None:
    """Return the last period that is over at a time, by the days of a time zone; None for a spec of one release."""
    granularity = pattern_of(spec)
    return None if granularity is None else str(last_complete(today(timezone, at), granularity))


def patiently(make: Callable[[], Outcome]) -> Outcome:
    """Make a release; where a ledger, a store or another run of it is in the way for now, wait and try again."""
    for pause in PAUSES:
        try:
            return make()
        except LedgerOutdated:
            raise
        except PASSING as error:
            _say(error, pause)
            sleep(pause)
    return make()


def _say(error: SudareError, pause: float) -> None:
    get_run_logger().warning(f"{type(error).__name__}: tried again in {pause:g} s; nothing is charged twice")
