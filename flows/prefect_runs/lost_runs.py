"""Scheduled runs whose process was killed: they are started again, by any worker that still lives.

Prefect hears that a run's process died from its worker, and from nobody if the worker died too. The file that the
process locks (`tasks.storage.workspace.liveness`) tells both. Starting a run again is safe: it goes on with its
charge and its draws.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tasks.storage.workspace.liveness import only_one, sign_of_life

if TYPE_CHECKING:
    from prefect.client.orchestration import PrefectClient
    from prefect.client.schemas.objects import FlowRun

logger = logging.getLogger(__name__)
MOST_ATTEMPTS: Final = 50
_AT_ONCE: Final = 200


async def start_lost_runs_again(client: PrefectClient, *, pool: str, live: Path, grace: timedelta) -> int:
    """Put the runs of a work pool that were killed back into the queue, and return how many.

    Args:
        client: of the Prefect server.
        pool: the work pool.
        live: folder of the files that living runs lock.
        grace: how long a run may take until its process shows itself.
    """
    from prefect.client.schemas.filters import (
        FlowRunFilter,
        FlowRunFilterState,
        FlowRunFilterStateType,
        WorkPoolFilter,
        WorkPoolFilterName,
    )
    from prefect.client.schemas.objects import StateType
    from prefect.states import AwaitingRetry

    kinds = [StateType.RUNNING, StateType.PENDING, StateType.CRASHED]
    with only_one(live, "again.lock") as alone:
        if not alone:
            return 0
        found = await client.read_flow_runs(
            flow_run_filter=FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=kinds))),
            work_pool_filter=WorkPoolFilter(name=WorkPoolFilterName(any_=[pool])),
            limit=_AT_ONCE,
        )
        lost = [run for run in found if is_lost(run, live, now=datetime.now(UTC), grace=grace)]
        for run in lost:
            (live / str(run.id)).unlink(missing_ok=True)
            await client.set_flow_run_state(run.id, AwaitingRetry(scheduled_time=datetime.now(UTC)), force=True)
            logger.warning("run %s was lost and is started again", run.name)
    return len(lost)


def is_lost(run: FlowRun, live: Path, *, now: datetime, grace: timedelta) -> bool:
    """Say whether a run that Prefect holds for running, pending or crashed has no process any more.

    A process that locked its file and died is gone at once; one that never did is given time to begin, and to
    report its end.
    """
    if run.state is None or run.run_count >= MOST_ATTEMPTS:
        return False
    sign = sign_of_life(live, str(run.id))
    if sign == "lives":
        return False
    age = now - run.state.timestamp.astimezone(UTC)
    return sign == "died" or run.state.is_crashed() or age > grace
