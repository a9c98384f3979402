"""A worker: takes the runs of a work pool, each in a process of its own, and looks after lost ones."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from pathlib import Path

import httpx

from flows.lost_runs import start_lost_runs_again

logger = logging.getLogger(__name__)


async def work(*, pool: str, name: str | None, limit: int, live: Path, grace: timedelta, every: float) -> None:
    """Work until the task is cancelled.

    Args:
        pool: the work pool; made if there is none.
        name: of the worker; Prefect makes one up without it.
        limit: how many runs at once.
        live: folder of the files that living runs lock.
        grace: see `flows.lost_runs`.
        every: how often to look for lost runs [seconds].
    """
    from prefect.workers.process import ProcessWorker

    worker = ProcessWorker(work_pool_name=pool, name=name, limit=limit)
    looking = asyncio.create_task(_look_after(pool, live, grace, every))
    try:
        await worker.start(printer=logger.info)
    finally:
        looking.cancel()


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
