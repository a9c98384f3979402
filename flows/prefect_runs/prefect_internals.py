"""What Sudare uses of Prefect beyond its documented interface. No other module does; tests hold both to it.

Three things cannot be had otherwise. A server that dies with its parent and listens on a socket that the parent has
bound: `prefect server start` does neither, and loads its command line first. The sending of what a client still has
to say, before that server is gone: Prefect does it when the process ends. A worker that outlives an outage of its
server: Prefect's own ends, and the runs in its processes with it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from fastapi import FastAPI
    from prefect.client.schemas.objects import FlowRun
    from prefect.workers.process import ProcessWorker as WorkerBase
else:
    WorkerBase = object  # Prefect's worker takes seconds to import; who makes a worker names it beside this part

TESTED_VERSION: Final = "3.8"
"""The Prefect whose internals these are; `pyproject.toml` allows no other."""
GAVE_UP: Final = "Service exceeded error threshold."
"""What Prefect's worker says when its server has not answered for some minutes."""


def create_tables() -> None:
    """Create or upgrade the database of the PREFECT_HOME in the environment."""
    import asyncio

    from prefect.server.database import provide_database_interface

    async def migrate() -> None:
        database = provide_database_interface()
        await database.create_db()
        await (await database.engine()).dispose()

    asyncio.run(migrate())


def server_application() -> FastAPI:
    """Return the application of a server for one run: Prefect's API, without its pages and services."""
    from prefect.server.api.server import create_app

    return create_app(ephemeral=True, final=True)


def send_the_rest(timeout: float) -> None:
    """Send the events and log lines that Prefect's client still has in its queues [seconds]."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    for worker in (EventsWorker, APILogWorker):
        worker.drain_all(timeout=timeout, at_exit=False)


def is_outage(error: BaseException) -> bool:
    """Say whether an error, or all errors of a group, are a Prefect server's that is away."""
    import httpx
    from prefect.exceptions import PrefectHTTPStatusError

    if isinstance(error, BaseExceptionGroup):
        return all(is_outage(each) for each in error.exceptions)
    if isinstance(error, PrefectHTTPStatusError | httpx.HTTPStatusError):
        return error.response.status_code >= httpx.codes.INTERNAL_SERVER_ERROR
    return isinstance(error, httpx.TransportError) or (type(error) is RuntimeError and str(error) == GAVE_UP)


def startable_runs(responses: Iterable[Any], held: Collection[object]) -> list[Any]:
    """Return the runs that a worker may start: not those whose process it still has.

    After an outage a run is put back into the queue as lost while its process is still telling Prefect its end. A
    worker of Prefect 3.8 that is given a run twice dies ("this borrower is already holding one of this ... tokens").
    """
    return [each for each in responses if each.flow_run.id not in held]


class OutlivesOutages(WorkerBase):
    """A part of a worker of processes: it outlives an outage of its server at the end of a run."""

    @abstractmethod
    def end_unheard(self, flow_run: FlowRun) -> None:
        """Take note of a run whose end the server has not heard."""

    async def _submit_scheduled_flow_runs(self, flow_run_response: Any) -> Any:
        free = startable_runs(flow_run_response, self.limiter.statistics().borrowers)
        return await super()._submit_scheduled_flow_runs(free)

    async def _submit_run_and_capture_errors(self, flow_run: FlowRun, task_status: Any = None) -> Any:
        try:
            return await super()._submit_run_and_capture_errors(flow_run, task_status)
        except Exception as error:
            if not is_outage(error):
                raise
            self.end_unheard(flow_run)
            return error
