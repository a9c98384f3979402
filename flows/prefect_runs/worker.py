"""A worker: takes the runs of a work pool, each in a process of its own, says how each ends, and looks for lost ones.

A Prefect server that is away is waited for. A run that ends meanwhile is complete without it: what was charged and
published stands in ledger and store. Prefect hears of it when it is back, since a lost run is started again and then
finds its version.
"""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx

from flows.prefect_runs.server import OutlivesOutages, is_outage
from tasks.storage.workspace.run_folder import only_one, sign_of_life, take_end

if TYPE_CHECKING:
    from prefect.client.orchestration import PrefectClient
    from prefect.client.schemas.objects import FlowRun
    from prefect.workers.process import ProcessWorker


# --- Scheduled runs whose process was killed.


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


AGAIN_SECONDS: Final = 10.0
OnRunMessage = Callable[[str], None]


async def work(
    *, pool: str, name: str | None, live: Path, grace: timedelta, every: float, on_message: OnRunMessage
) -> None:
    """Work until the task is cancelled, a run at a time, through outages of the Prefect server.

    Args:
        pool: the work pool; made if there is none.
        name: of the worker; Prefect makes one up without it.
        live: folder of the files that living runs lock.
        grace: see `flows.prefect_runs.worker`.
        every: how often to look for lost runs [seconds].
        on_message: told in a line that a run starts and how it ends; public things only.
    """
    looking = asyncio.create_task(_look_after(pool, live, grace, every))
    try:
        while True:
            worker = _telling(on_message, live)(work_pool_name=pool, name=name, limit=1)
            try:
                await worker.start(printer=logger.info)
                return
            except Exception as error:
                if not is_outage(error):
                    raise
                on_message(f"the Prefect server does not answer; it is asked again in {AGAIN_SECONDS:g} s")
            await asyncio.sleep(AGAIN_SECONDS)
    finally:
        looking.cancel()


def how_it_ended(run: str, end: tuple[str, int] | None, status: int | None) -> str:
    """Return the line that tells how a run ended.

    Args:
        run: what it is called.
        end: what the run noted before its process ended, and its exit code; None where it was killed.
        status: how its process ended; None where Prefect lost it.
    """
    if end is None:
        how = "its process is lost" if status is None else f"its process ended with {status}"
        return f"{run}: {how} before it could say why; a lost run is started again"
    said, code = end
    away = "; the Prefect server was away at its end, and hears of it later" if status != 0 and code == 0 else ""
    return f"{run}: {said}, exit {code}{away}"


def _telling(on_message: OnRunMessage, live: Path) -> type[ProcessWorker]:
    """Return Prefect's worker of processes, which says how runs end, and outlives an outage at the end of one."""
    from prefect.workers.process import ProcessWorker, ProcessWorkerResult

    warnings.filterwarnings("ignore", "Type 'Telling'", UserWarning)  # it takes the place of its base on purpose

    class Telling(OutlivesOutages, ProcessWorker):
        def end_unheard(self, flow_run: FlowRun) -> None:
            on_message(f"{_called(flow_run)}: the Prefect server is away and has not heard how it ended")

        async def run(self, flow_run: FlowRun, configuration: Any, task_status: Any = None) -> ProcessWorkerResult:
            called, status = _called(flow_run), None
            on_message(f"{called}: started")
            take_end(live, str(flow_run.id))
            try:
                result = await super().run(flow_run, configuration, task_status)
                status = result.status_code
            finally:
                end = take_end(live, str(flow_run.id))
                on_message(how_it_ended(called, end, status))
            if status != 0 and end is not None and end[1] == 0:
                return ProcessWorkerResult(status_code=0, identifier=result.identifier)
            return result

    return Telling


def _called(run: FlowRun) -> str:
    """Name a run by its spec and period, and by Prefect's name for it."""
    spec, period = run.parameters.get("spec_path"), run.parameters.get("period")
    named = [Path(str(spec)).name] if spec else []
    return " ".join([*named, *([str(period)] if period else []), f"({run.name})"])


async def _look_after(pool: str, live: Path, grace: timedelta, every: float) -> None:
    """Start lost runs again, for as long as the worker works; a server that does not answer is asked later."""
    from prefect.client.orchestration import get_client
    from prefect.exceptions import PrefectHTTPStatusError

    while True:
        await asyncio.sleep(every)
        try:
            async with get_client() as client:
                await start_lost_runs_again(client, pool=pool, live=live, grace=grace)
        except (httpx.HTTPError, PrefectHTTPStatusError) as error:
            logger.warning("lost runs are looked for later: %s", type(error).__name__)
