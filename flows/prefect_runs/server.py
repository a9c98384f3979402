"""Where runs are kept: a Prefect server that runs already, or one of our own for the time of one command.

A server of our own is started first of all and joined when it is needed, so that its start (3 to 5 s) passes while
the data are read. It listens on loopback behind a password of this process, keeps its database in the workspace, and
ends with this process, whatever ends it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import select
import shutil
import socket
import subprocess
import sys
import warnings
from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.error import HTTPError
from urllib.request import urlopen

from contracts.errors import SudareError
from tasks.storage.progress import step
from tasks.storage.workspace.environment import environment_for_prefect, exported, loopback_without_proxy
from tasks.storage.workspace.run_folder import require_writable
from tasks.storage.workspace.settings import Workspace

# --- What Sudare uses of Prefect beyond its documented interface.


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


# --- The database of a workspace's own Prefect server.


DATABASE: Final = "prefect.db"
LOG: Final = "creation.log"
_LOCK: Final = "creation.lock"
_CREATION: Final = ("-m", "flows.prefect_runs.server_process", "create")


class PrefectDatabaseFailed(SudareError):
    """Prefect cannot create its database."""


def begin_database(home: Path) -> subprocess.Popen[bytes] | None:
    """Begin to create the database in a process of its own, which goes on when this one ends.

    Returns:
        The process; None if there is a database.
    Raises:
        OSError: the folder cannot be written.
    """
    if (home / DATABASE).exists():
        return None
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (home / LOG).open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "flows.prefect_runs.server_process", "database", str(home)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=home,
            env=environment_for_prefect({}),
            start_new_session=True,  # an interrupt at the terminal is not meant for it
        )


def create_database(home: Path) -> None:
    """Create the database, whole or not at all; nothing if there is one. Waits for whoever creates it already.

    Raises:
        PrefectDatabaseFailed: Prefect cannot create it.
    """
    if (home / DATABASE).exists():
        return
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (home / _LOCK).open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / DATABASE).exists():
            _create(home)


def _create(home: Path) -> None:
    """Create it in a folder of its own, and put it into its place by one rename."""
    partial = home / f"{secrets.token_hex(4)}.partial"
    partial.mkdir(mode=0o700)
    try:
        with (partial / LOG).open("wb") as log:
            command = [sys.executable, "-P", *_CREATION, str(partial)]
            environment = environment_for_prefect({"PREFECT_HOME": str(partial)})
            done = subprocess.run(command, env=environment, cwd=partial, stdout=log, stderr=log, check=False)
        if done.returncode != 0:
            found = f"Prefect's database cannot be created in {home}: {_last_line(partial / LOG)}"
            raise PrefectDatabaseFailed(found)
        with (partial / DATABASE).open("rb") as made:
            os.fsync(made.fileno())  # it was written without waiting for the disk
        (partial / DATABASE).replace(home / DATABASE)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _last_line(file: Path) -> str:
    lines = file.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"


START_SECONDS = 180.0
STOP_SECONDS = 6.0
DRAIN_SECONDS = 5.0
ANSWER_SECONDS = 15.0
PREFECT_SERVER_LOG = "server.log"

_SERVER_SETTINGS = {
    "PREFECT_UI_ENABLED": "false",
    "PREFECT_SERVER_LOGGING_LEVEL": "WARNING",
    "PREFECT_API_BLOCKS_REGISTER_ON_START": "false",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_TRIGGERS_ENABLED": "false",
}
# What a run says belongs to Prefect's server; the terminal belongs to the console.
_CLIENT_SETTINGS = {
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
    "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "false",
}
_lasting: dict[Path, PrefectServer] = {}
"""The servers that stay, by the folders of their databases."""


class PrefectServerFailed(SudareError):
    """The Prefect server cannot be started, or does not answer; what was charged stays charged and can be resumed."""


@dataclass
class PrefectServer:
    """A Prefect server, running or on its way.

    Args:
        api_url: where it answers.
        auth: its password, or None for a server that is not ours.
        process: the server of our own, or None.
        ready: descriptor on which our own server says that it is up.
        log: where our own server writes.
    """

    api_url: str
    auth: str | None = field(default=None, repr=False)
    process: subprocess.Popen[bytes] | None = None
    ready: int | None = None
    log: Path | None = None

    @property
    def embedded(self) -> bool:
        """Whether the server is our own, for this command only."""
        return self.process is not None

    @property
    def client_settings(self) -> dict[str, str]:
        """What a Prefect that is imported later reads in the environment."""
        auth = {} if self.auth is None else {"PREFECT_API_AUTH_STRING": self.auth}
        return {"PREFECT_API_URL": self.api_url, **auth}

    def wait(self) -> None:
        """Wait until the server answers.

        Raises:
            PrefectServerFailed: our own server ended, or was not up in three minutes.
        """
        if self.ready is None:
            return
        made = self.log is None or (self.log.parent / DATABASE).exists()
        with step("prefect" if made else "prefect database"):
            readable, _, _ = select.select([self.ready], [], [], START_SECONDS)
            up = bool(readable) and os.read(self.ready, 1) == b"1"
        os.close(self.ready)
        self.ready = None
        if not up:
            remedy = (
                "if it stays so, remove the folder of the log: it holds Prefect's history of runs and nothing else"
            )
            raise PrefectServerFailed(f"the Prefect server of this run did not start; its log: {self.log}; {remedy}")

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Point Prefect's client at this server inside the block; what it still has to say is said at its end.

        Raises:
            PrefectServerFailed: the server stops answering.
        """
        import httpx
        from prefect import settings as prefect

        updates: dict[Any, object] = {prefect.PREFECT_API_URL: self.api_url}
        # A heartbeat says that a worker's run still lives; it costs a second a flow, and this run is watched.
        updates[prefect.PREFECT_FLOWS_HEARTBEAT_FREQUENCY] = None
        if self.auth is not None:
            updates[prefect.PREFECT_API_AUTH_STRING] = self.auth
            updates[prefect.PREFECT_LOGGING_TO_API_ENABLED] = False
        with prefect.temporary_settings(updates):
            try:
                yield
            except httpx.HTTPError as error:
                found = f"the Prefect server at {self.api_url} stopped answering ({type(error).__name__})"
                raise PrefectServerFailed(f"{found}; running the same command again resumes the run") from None
            finally:
                send_the_rest(DRAIN_SECONDS)

    def stop(self) -> None:
        """End our own server and wait for its end; nothing for one that is not ours."""
        if self.ready is not None:
            os.close(self.ready)
            self.ready = None
        if self.process is None:
            return
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            self.process.wait(timeout=STOP_SECONDS)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            self.process.kill()
            self.process.wait()


@contextmanager
def prefect_server(workspace: Workspace) -> Iterator[PrefectServer]:
    """Use the Prefect server that is configured, or one of our own that starts now and ends with the block.

    Yields:
        PrefectServer: at once; `wait()` before the first flow.
    Raises:
        PrefectServerFailed: nobody answers at the configured address, or our own server cannot be started.
        WorkspaceRefused: our own server could not write into the workspace.
    """
    if workspace.prefect_api_url is not None:
        _check_answers(workspace.prefect_api_url)
        running = PrefectServer(workspace.prefect_api_url)
        with exported(_CLIENT_SETTINGS | running.client_settings):
            yield running
        return
    require_writable(workspace.private)
    own = _start(workspace.prefect_home)
    try:
        with exported(_environment(workspace, own)):
            yield own
    finally:
        own.stop()


@contextmanager
def lasting_server(workspace: Workspace) -> Iterator[PrefectServer]:
    """As `prefect_server`, with a server of our own that stays for the next run of this process, and ends with it.

    A notebook makes one release after another, and each would wait for a server that starts.
    """
    home = workspace.prefect_home
    if workspace.prefect_api_url is not None:
        with prefect_server(workspace) as running:
            yield running
        return
    known = _lasting.get(home)
    if known is None or known.process is None or known.process.poll() is not None:
        known = _lasting[home] = _start(home)
    try:
        with exported(_environment(workspace, known)):
            yield known
    except PrefectServerFailed:
        stop_lasting(workspace)
        raise


def stop_lasting(workspace: Workspace) -> None:
    """End the server that stays for a workspace's runs in this process, if there is one."""
    known = _lasting.pop(workspace.prefect_home, None)
    if known is not None:
        known.stop()


def _environment(workspace: Workspace, own: PrefectServer) -> dict[str, str]:
    """Return what Prefect reads in the environment beside a server of our own."""
    home = {"PREFECT_HOME": str(workspace.prefect_home)}
    return _CLIENT_SETTINGS | home | own.client_settings | loopback_without_proxy()


def _check_answers(api_url: str) -> None:
    """Refuse an address where nobody answers, before anything else is done."""
    try:
        urlopen(f"{api_url.rstrip('/')}/health", timeout=ANSWER_SECONDS).close()
    except HTTPError:
        return  # somebody answers; what Prefect's client may do there is between the two
    except (OSError, ValueError) as error:
        remedy = "start it, or unset PREFECT_API_URL and [prefect] api_url to have one started with each run"
        raise PrefectServerFailed(
            f"no Prefect server answers at {api_url} ({type(error).__name__}): {remedy}"
        ) from error


def _start(home: Path) -> PrefectServer:
    """Start a server; it inherits a bound socket, so that its address is known before it is up."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    auth = f"sudare:{secrets.token_urlsafe(24)}"
    own = {"PREFECT_HOME": str(home), "PREFECT_API_AUTH_STRING": auth, "PREFECT_SERVER_API_AUTH_STRING": auth}
    ready, says_ready = os.pipe()
    with contextlib.closing(socket.socket()) as listener, (home / PREFECT_SERVER_LOG).open("wb") as log:
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/api"
        process = subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-m",
                "flows.prefect_runs.server_process",
                "serve",
                str(listener.fileno()),
                str(says_ready),
                str(home),
            ],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd=home,
            env=environment_for_prefect(_SERVER_SETTINGS | own),
            pass_fds=[listener.fileno(), says_ready],
            start_new_session=True,
        )
    os.close(says_ready)
    return PrefectServer(url, auth, process, ready, home / PREFECT_SERVER_LOG)
