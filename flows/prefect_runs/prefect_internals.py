"""What Sudare uses of Prefect beyond its documented interface. No other module does; tests hold both to it.

Four things cannot be had otherwise. A server that dies with its parent and listens on a socket that the parent has
bound: `prefect server start` does neither, and loads its command line first. The sending of what a client still has
to say, before that server is gone: Prefect does it when the process ends. A worker that outlives an outage of its
server: Prefect's own ends, and the runs in its processes with it. A database of Prefect's in a third of the time.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Collection, Iterable
from pathlib import Path
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


def create_tables(database: Path) -> None:
    """Create Prefect's tables in a new SQLite database, by Prefect's own migrations.

    Prefect carries each of their some 8,000 statements to a thread and back, which takes most of the time. Here they
    run in this thread, and are not synced one by one: whoever calls puts a database in its place when it is whole.

    Args:
        database: the file, which is made.
    """
    import sqlalchemy
    from alembic.runtime.environment import EnvironmentContext
    from alembic.script import ScriptDirectory
    from prefect.server.database.alembic_commands import alembic_config
    from prefect.server.database.orm_models import AioSqliteORMConfiguration, Base

    config = alembic_config()
    folder = ScriptDirectory.from_config(config).dir
    scripts = ScriptDirectory(folder, version_locations=[str(AioSqliteORMConfiguration().versions_dir)])

    def to_the_last(revision: Any, _context: object) -> Any:
        return scripts._upgrade_revs("head", revision)

    engine = sqlalchemy.create_engine(f"sqlite:///{database}")
    with engine.connect() as connection, EnvironmentContext(config, scripts, fn=to_the_last) as migrations:
        for pragma in ("foreign_keys = OFF", "synchronous = OFF"):  # tables are replaced while others refer to them
            connection.exec_driver_sql(f"PRAGMA {pragma}")
        connection.commit()
        migrations.configure(
            connection=connection,
            target_metadata=Base.metadata,
            include_schemas=True,
            render_as_batch=True,
            transaction_per_migration=True,
        )
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Skipped unsupported reflection of expression-based index")
            migrations.run_migrations()
        connection.commit()
    engine.dispose()


def server_application() -> FastAPI:
    """Return the application of a server for one run: Prefect's API, without its pages and services."""
    from prefect.server.api.server import create_app

    return create_app(ephemeral=True)


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
