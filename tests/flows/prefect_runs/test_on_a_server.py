"""Events and deliveries that a worker carries out, on a Prefect server that runs, and what that server is told.

The rows are in a PostgreSQL server that asks for a password, and the password is in a Secret block.
"""

import json
import os
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree
from time import monotonic, sleep
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import psycopg
import pytest

from benchmarks._periodic_place import DAYS, SPEC, Periodic, make_periodic
from contracts.periods.time_blocks import time_block
from contracts.release.spec import load_spec
from deploy.postgres_server import find_binaries, postgres_server
from privacy.ledger.ledger import Ledger
from tests.worlds.ports import port_of_its_own

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]

SECRET, WRONG, PREFECTS = "hunter2-Xq7zz", "hunter3-Yr8aa", "sudare:of-the-server"
SUDARE = [sys.executable, "-c", "from console.main import main; main()"]
PREFECT = [sys.executable, "-m", "prefect", "--no-prompt"]
BLOCK = "import sys; from prefect.blocks.system import Secret; Secret(value={}).save('warehouse', overwrite=True)"
AS_TEXT, AS_OBJECT = BLOCK.format("sys.stdin.read()"), BLOCK.format("__import__('json').load(sys.stdin)")
TOLD = ("flow_runs", "task_runs", "logs", "artifacts", "events", "deployments", "automations", "block_documents")
PATIENCE = 300.0
"""Seconds until something has to be so, beside tests of Spark; only a failure waits them out."""


@dataclass(frozen=True)
class Running:
    """A Prefect server, a worker of its pool, and the workspace of both."""

    place: Periodic
    folder: Path
    environment: dict[str, str]

    def run(self, *command: str, given: str | None = None, code: int = 0) -> str:
        done = subprocess.run(
            command, env=self.environment, cwd=self.folder, input=given, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def sudare(self, *words: str, code: int = 0) -> str:
        return self.run(*SUDARE, *words, "--workspace", str(self.place.workspace.root), code=code)

    def emit(self, period: str) -> None:
        """Say that a partition arrived, as docs/platform.md does."""
        where = ("--resource-id", "sudare.deployment.visits", "--payload", json.dumps({"period": period}))
        self.run(*PREFECT, "event", "emit", "sudare.partition.arrived", *where)

    def told(self, kind: str) -> Any:
        url = f"{self.environment['PREFECT_API_URL']}/{kind}/filter"
        known = f"Basic {b64encode(PREFECTS.encode()).decode()}"
        headers = {"Content-Type": "application/json", "Authorization": known}
        with closing(urlopen(Request(url, b"{}", headers), timeout=PATIENCE)) as answer:
            return json.load(answer)

    def states(self, spec: Path) -> list[str]:
        """Return the states of the runs that were queued of a spec, the oldest first."""
        runs = [run for run in self.told("flow_runs") if run["parameters"]["spec_path"] == str(spec)]
        return [run["state_type"] for run in sorted(runs, key=lambda run: run["created"])]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, prefect_home: Path) -> Iterator[Running]:
    """Start PostgreSQL, a Prefect server and one worker; queue and automation are made as a person would."""
    try:
        find_binaries()
    except RuntimeError as none:
        pytest.skip(str(none))
    folder = tmp_path_factory.mktemp("running")
    copytree(prefect_home, folder / "prefect")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "SUDARE_", "PG"))}
    own = kept | {"OMP_NUM_THREADS": "1", "DO_NOT_TRACK": "1", "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
    with postgres_server("reader", SECRET, folder / "postgres.log") as port:
        with psycopg.connect(f"postgresql://reader:{SECRET}@127.0.0.1:{port}/postgres") as database:
            database.execute("CREATE TABLE visits (id int PRIMARY KEY, ward text, day date)")
            row = "SELECT i, chr(97 + i % 3), DATE '2024-01-01' + i % 180 FROM generate_series(1, 600) AS t(i)"
            database.execute(f"INSERT INTO visits {row}".encode())
        table = f"{{path: 'postgresql://localhost:{port}/postgres', table: visits, credentials: warehouse, by: day"
        spec = SPEC.replace("{path: visits.csv, by: day", f"{table}, select: 'SELECT ward, day FROM source'")
        place = make_periodic(folder / "place", spec=spec)
        with closing(place.ledger()) as ledger:
            source = load_spec(place.spec, "2024Q1").source.name
            ledger.bind_source(source, "patients", time_block(DAYS), by="day")
        url = f"http://127.0.0.1:{port_of_its_own()}/api"
        client = own | {"PREFECT_API_URL": url, "PREFECT_API_AUTH_STRING": PREFECTS}
        client["PREFECT_HOME"] = str(folder / "c")
        with _server(url, own, folder), _worker(place, client, folder):
            made = Running(place, folder, client)
            made.sudare("deploy", str(place.spec), "--on-event")
            yield made


@contextmanager
def _server(url: str, own: dict[str, str], folder: Path) -> Iterator[None]:
    told = {"PREFECT_HOME": str(folder / "prefect"), "PREFECT_SERVER_API_AUTH_STRING": PREFECTS}
    port = url.removesuffix("/api").rpartition(":")[2]
    command = [*PREFECT, "server", "start", "--host", "127.0.0.1", "--port", port, "--no-ui"]
    with _process(command, own | told, folder / "server.log") as server:
        began = monotonic()
        while monotonic() - began < PATIENCE and server.poll() is None:
            with suppress(URLError, OSError), closing(urlopen(f"{url}/health", timeout=5)):
                break
            sleep(0.2)
        yield


@contextmanager
def _worker(place: Periodic, client: dict[str, str], folder: Path, *words: str) -> Iterator[None]:
    command = [*SUDARE, "work", "--workspace", str(place.workspace.root), *words]
    with _process(command, client | {"PREFECT_WORKER_QUERY_SECONDS": "1"}, folder / "worker.log"):
        yield


@contextmanager
def _process(command: list[str], environment: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=environment, cwd=log.parent, stdout=out, stderr=out)
    try:
        yield process
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=20)
        process.kill()
        process.wait()


def _await(holds: Callable[[], bool], what: str, *, seconds: float = PATIENCE) -> None:
    began = monotonic()
    while not holds():
        assert monotonic() - began < seconds, what
        sleep(0.5)


def _published(ledger: Ledger, release: str) -> list[tuple[int, str]]:
    return [(version.number, version.status) for version in ledger.versions(release)]


def test_an_event_makes_a_worker_publish_from_a_database_whose_password_is_in_a_block(running: Running):
    """A wrong password is a failed run that charged nothing; neither password stands in any log, state or file."""
    before = running.states(running.place.spec)  # of a first try of this test, whose server is this one
    held = {"user": "reader", "password": WRONG}
    running.run(sys.executable, "-c", AS_TEXT, given=json.dumps(held))
    running.emit("2024Q1")
    _await(lambda: running.states(running.place.spec) == [*before, "FAILED"], "the run with a wrong password")
    _await(lambda: "a server that refuses these credentials" in json.dumps(running.told("logs")), "why it failed")
    _await(lambda: "charge: nothing was charged" in json.dumps(running.told("logs")), "how its charge stands")
    assert running.place.charges() == {}
    running.run(sys.executable, "-c", AS_TEXT, given=json.dumps(held | {"password": SECRET}))
    running.emit("2024Q1")
    ended = [*before, "FAILED", "COMPLETED"]
    _await(lambda: running.states(running.place.spec) == ended, "the run with the right password")
    with closing(running.place.ledger()) as ledger:
        assert _published(ledger, "visits-2024-q1") == [(1, "published")]
    assert running.place.charges() == {"visits-2024-Q1": 1}
    everything = {kind: json.dumps(running.told(kind)) for kind in TOLD}
    assert "warehouse" in everything["block_documents"]
    assert "********" in everything["block_documents"]
    assert "sudare.partition.arrived" in everything["events"]
    journal = running.sudare("budget", "history", "--json")
    written = [path for path in running.folder.rglob("*") if path.is_file()]
    assert {"server.log", "worker.log", "prefect.db", "record.json"} < {path.name for path in written}
    for secret in (SECRET, WRONG):
        assert [kind for kind, text in everything.items() if secret in text] == []
        assert [path for path in written if secret.encode() in path.read_bytes()] == []
        assert secret not in journal


def test_what_prefect_would_show_or_keeps_from_us_is_told(running: Running):
    """An object in a block is shown by Prefect, so it is refused; a server that refuses us, or is away, is named."""
    place = running.place
    held = json.dumps({"user": "reader", "password": SECRET})
    running.run(sys.executable, "-c", AS_OBJECT, given=held)
    shown = json.dumps(running.told("block_documents"))
    assert SECRET in shown, "the reason for the refusal; see tasks.storage.credentials"
    asked = "('warehouse', ('user', 'password'), 'there')"
    look = f"from tasks.storage.credentials import credentials_of; credentials_of{asked}"
    said = running.run(sys.executable, "-c", look, code=1)
    assert "a Secret block 'warehouse' that holds an object" in said
    running.run(sys.executable, "-c", AS_TEXT, given=held)
    locked = Running(place, running.folder, running.environment | {"PREFECT_API_AUTH_STRING": "sudare:another"})
    refused = locked.run(sys.executable, "-c", look, code=1)
    assert "a Prefect server that refuses to look for the block 'warehouse'" in refused
    nobody = running.environment | {"PREFECT_API_URL": f"http://127.0.0.1:{port_of_its_own()}/api"}
    away = Running(place, running.folder, nobody).run(sys.executable, "-c", look, code=1)
    assert "no Prefect server answered" in away
    assert SECRET not in said + refused + away


def test_files_that_arrive_are_queued_once_and_published_by_the_worker(running: Running):
    """`watch --queue` looks, twice; the worker publishes. A deployment that is not there is named."""
    place = running.place
    spec = place.folder / "files.yaml"
    spec.write_text(SPEC.replace("release: visits", "release: files"))
    watch = ("watch", str(spec), "--periods", "2024Q2", "--quiet", "0", "--once", "--queue")
    assert "no deployment 'scheduled-release/files'" in running.sudare(*watch, code=2)
    running.sudare("deploy", str(spec))
    for _ in range(2):
        assert "2024-Q2" in running.sudare(*watch)
    _await(lambda: running.states(spec) == ["COMPLETED"], "one run")
    with closing(place.ledger()) as ledger:
        assert _published(ledger, "files-2024-q2") == [(1, "published")]
    assert "Nothing has arrived" in running.sudare(*watch)


def test_a_worker_lives_through_an_outage_of_prefect_at_the_end_of_a_run(tmp_path: Path, prefect_home: Path):
    """The server goes when the version is there. The worker says so and goes on; the run completes once it is back.

    Nothing is charged twice, nothing is a bug, and each run has its line.
    """
    copytree(prefect_home, tmp_path / "prefect")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "SUDARE_", "PG"))}
    own = kept | {"OMP_NUM_THREADS": "1", "DO_NOT_TRACK": "1", "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
    url = f"http://127.0.0.1:{port_of_its_own()}/api"
    client = own | {"PREFECT_API_URL": url, "PREFECT_API_AUTH_STRING": PREFECTS, "PREFECT_HOME": str(tmp_path / "c")}
    place = make_periodic(tmp_path / "place")
    made = Running(place, tmp_path, client)
    version = place.workspace.releases / "visits-2024-q1" / "v1"

    def said() -> str:
        return (tmp_path / "worker.log").read_text()

    with ExitStack() as working:
        with _server(url, own, tmp_path):
            working.enter_context(_worker(place, client, tmp_path, "--grace", "60", "--every", "2"))
            made.sudare("deploy", str(place.spec), "--backfill", "2024Q1..2024Q1")
            _await(version.exists, "the version", seconds=2 * PATIENCE)
        _await(lambda: "visits-2024-q1 v1 is published, exit 0" in said(), "the worker's line", seconds=4 * PATIENCE)
        with _server(url, own, tmp_path):
            _await(lambda: made.states(place.spec) == ["COMPLETED"], "the run's end", seconds=3 * PATIENCE)
    assert "visits.yaml 2024-Q1 (visits-2024-q1): started" in said()
    assert "bug of Sudare" not in said()
    assert place.charges() == {"visits-2024-Q1": 1}
