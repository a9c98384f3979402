"""The Prefect server of our own: up when it is needed, behind a password, gone with its parent; or one that runs."""

import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prefect import flow
from prefect.artifacts import create_markdown_artifact

from flows import steps
from flows.prefect_runs.server import PrefectServer, PrefectServerFailed, prefect_server
from tasks.storage.workspace.run_folder import RunFolder, UnexpectedError, hold
from tasks.storage.workspace.settings import Workspace
from tests.worlds.ports import port_of_its_own
from tests.worlds.waiting import wait_until

START_AND_WAIT = """
import sys, time
from pathlib import Path
from flows.prefect_runs.server import prefect_server
from tasks.storage.workspace.settings import Workspace
with prefect_server(Workspace.open(Path(sys.argv[1]))) as started:
    print(started.process.pid, flush=True)
    if sys.argv[2] == "up":
        started.wait()
        print("up", flush=True)
    time.sleep(60)
"""


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory, prefect_home: Path) -> Workspace:
    made = Workspace.create(tmp_path_factory.mktemp("workspace"))
    shutil.copytree(prefect_home, made.prefect_home)
    return made


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the server of the other tests: commands find their server in the environment."""
    monkeypatch.delenv("PREFECT_API_URL", raising=False)


@pytest.fixture(scope="module")
def running(workspace: Workspace) -> Iterator[PrefectServer]:
    with prefect_server(workspace) as started:
        started.wait()
        yield started


double = steps.as_task(lambda number: 2 * number, name="double")
fail = steps.as_task(lambda row: int(row), name="fail")


@flow(name="small", persist_result=False)
def small(folder: str) -> int:
    with hold(Path(folder), "small", keep_snapshot=False) as run:
        create_markdown_artifact("done", key="small")
        return double(run, double(run, 1))


@flow(name="broken", persist_result=False)
def broken(folder: str) -> int:
    with hold(Path(folder), "broken", keep_snapshot=False) as run:
        return fail(run, "row Ganymede")


def _rows(workspace: Workspace, query: str) -> list[tuple[str, ...]]:
    """Ask the server's database."""
    with sqlite3.connect(workspace.prefect_home / "prefect.db") as database:
        return database.execute(query).fetchall()


def test_a_flow_runs_on_our_own_server_with_its_steps_and_artifact(
    workspace: Workspace, running: PrefectServer, tmp_path: Path
):
    """Runs, named steps, states and the artifact are in the workspace's own Prefect database."""
    with running.connected():
        assert small(str(tmp_path)) == 4

    def states() -> list[str]:
        return [state for (state,) in _rows(workspace, "select state_type from task_run")]

    # the server writes the last ones in batches
    assert wait_until(lambda: len(states()) >= 2 and set(states()) == {"COMPLETED"}), states()
    named = _rows(workspace, "select f.name, r.state_type from flow_run r join flow f on f.id = r.flow_id")
    assert ("small", "COMPLETED") in named
    assert ("small",) in _rows(workspace, "select key from artifact")


def test_what_prefect_is_told_of_an_unexpected_error_is_its_type(
    workspace: Workspace, running: PrefectServer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    """A library's error may quote a row: neither Prefect's database nor the terminal gets its text."""
    with running.connected(), pytest.raises(UnexpectedError):
        broken(str(tmp_path))
    assert "Ganymede" in (tmp_path / "broken" / "error.private.log").read_text()

    def stored() -> bytes:
        return b"".join(path.read_bytes() for path in workspace.prefect_home.glob("prefect.db*"))

    failed = "select 1 from task_run where name like 'fail%' and state_type = 'FAILED'"
    assert wait_until(lambda: _rows(workspace, failed) and b"unexpected ValueError" in stored())
    assert b"Ganymede" not in stored()
    told = capfd.readouterr()
    assert "Ganymede" not in told.out + told.err


def test_the_server_refuses_who_lacks_its_password(running: PrefectServer):
    """Other users of the machine reach loopback too."""
    assert httpx.post(f"{running.api_url}/flow_runs/filter", json={}).status_code == 401


def test_a_running_server_is_used_as_it_is(workspace: Workspace, running: PrefectServer, tmp_path: Path):
    """With an address configured nothing is started or stopped, and the same flow runs there."""
    elsewhere = Workspace(tmp_path, tmp_path, "sqlite://", "1GB", running.api_url)
    with prefect_server(elsewhere) as used:
        assert not used.embedded
        used.wait()
        used.auth = running.auth
        with used.connected():
            assert small(str(tmp_path)) == 4
    assert not elsewhere.private.exists()
    assert httpx.get(f"{running.api_url}/health").status_code == 200


@pytest.mark.services
def test_a_server_that_does_not_answer_is_named(tmp_path: Path):
    """The error says which address, and that nothing was begun."""
    url = f"http://127.0.0.1:{port_of_its_own()}/api"
    with (
        pytest.raises(PrefectServerFailed, match=url),
        prefect_server(Workspace(tmp_path, tmp_path, "sqlite://", "1GB", url)),
    ):
        pass


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    ("how", "when"), [(signal.SIGKILL, "starting"), (signal.SIGINT, "starting"), (signal.SIGKILL, "up")]
)
def test_no_server_outlives_its_parent(workspace: Workspace, how: signal.Signals, when: str):
    """However the parent ends, in whatever state the server is, it ends too."""
    command = [sys.executable, "-c", START_AND_WAIT, str(workspace.root), when]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as parent:
        assert parent.stdout is not None
        server = int(parent.stdout.readline())
        if when == "up":
            assert parent.stdout.readline() == "up\n"
        parent.send_signal(how)
        parent.wait()
    assert wait_until(lambda: not Path(f"/proc/{server}").exists())


@pytest.mark.usefixtures("alone")
def test_a_server_that_cannot_start_is_an_error_that_names_its_log(tmp_path: Path, prefect_home: Path):
    """A broken database ends the start; the error says where the server's own words are."""
    broken_workspace = Workspace.create(tmp_path)
    shutil.copytree(prefect_home, broken_workspace.prefect_home)
    (broken_workspace.prefect_home / "prefect.db").write_text("no database")
    with prefect_server(broken_workspace) as started, pytest.raises(PrefectServerFailed, match=r"server\.log"):
        started.wait()


def test_holding_the_run_is_what_a_step_needs(tmp_path: Path):
    """The plain function of a step runs without Prefect."""
    assert double.fn(RunFolder(tmp_path), 3) == 6
