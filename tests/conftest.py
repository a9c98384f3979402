"""What the whole suite shares."""

from __future__ import annotations

import gc
import os
import platform
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from absl import logging as absl_logging
from hypothesis import HealthCheck, settings

from tests.worlds.known_noise import known_noise
from tests.worlds.once import once

if TYPE_CHECKING:
    from flows.prefect_runs.server import PrefectServer
    from tasks.storage.workspace.settings import Workspace
    from tests.worlds.versions import Worlds

# A shell without job control starts what runs in its background with SIGINT ignored; the tests press Ctrl-C for real.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# scikit-learn asks a process of its own how many cores there are.
os.environ.setdefault("LOKY_MAX_CPU_COUNT", "1")

# A process of the suite holds a million objects that stay: tests and their code. Looking for garbage among them took
# up to a quarter of its time: what collecting makes is set aside (below), and the rest is looked through less often.
gc.set_threshold(50_000, 20, 100)

# Processes that tests start, and workers that collect the same files, share compiled code, whatever was set outside.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Examples of properties follow from the test itself, as where CI is set: no run fails by an example that others would
# not meet, nor because a busy machine took long for one. `pytest --hypothesis-profile=default` looks for new ones.
settings.register_profile(
    "suite", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("suite")

# Prefect closes the handlers that it finds, and the one of absl (which dp-accounting brings) then closes its stream
# unless it is the standard error of that moment: let it not be the file into which pytest captures.
absl_logging.get_absl_handler().python_handler.stream = sys.__stderr__


pytest_plugins = ["tests.worlds.tiers"]

LONGEST = (
    *("test_fields.py", "test_deploy.py", "test_federation_keys.py", "test_readme.py", "test_federation_loopback.py"),
    *("test_deletion.py", "test_examples.py", "test_wheel.py"),
    *("test_run.py", "test_browser.py", "test_dist.py"),
    *("test_federated_versions.py", "test_calibration.py", "test_redraw.py", "test_synthetic.py"),
    *("test_training_draws.py", "test_games_mechanisms.py", "test_fuzz.py", "test_covert_room.py", "test_attack.py"),
)
"""Files that take longest or wait, the longest first: done last, one of them would be waited for alone."""


class FailuresAtOnce:
    """Tells what failed when it fails: a run that is cut off by a limit never comes to its summary."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and terminal is not None:
            terminal.write_line(f"\n{report.nodeid} failed ({report.when}, {report.duration:.0f} s)")
            terminal.write_line("\n".join(report.longreprtext.splitlines()[-20:]))


def pytest_configure(config: pytest.Config) -> None:
    """In the process that reports, where others run the tests or CI does."""
    slow = config.getoption("numprocesses", None) or "CI" in os.environ
    if slow and "PYTEST_XDIST_WORKER" not in os.environ:
        config.pluginmanager.register(FailuresAtOnce(config))


def pytest_sessionstart() -> None:
    """What every release of the tests would do again: ask git about this tree, and have its rows validated."""
    from tasks import validate
    from tasks.records import software
    from tests.worlds import fake_validator, tiers

    platform.processor()  # remembers what a process of its own said
    commit, real = software.code_commit, validate._suites
    known = commit()
    lasting = pytest.MonkeyPatch()
    lasting.setattr(software, "code_commit", lambda folder=None: known if folder is None else commit(folder))
    lasting.setattr(validate, "_suites", lambda: fake_validator.run_suites if tiers.takes_stand_ins() else real())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    place = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.name, len(LONGEST)))


def pytest_collection_finish() -> None:
    """Set aside what collecting made, which stays until the end: see the thresholds above."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Let what a fixture draws repeat, whichever test is the first to ask for it."""
    with noise_of(request.node, fixturedef.argname):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Let what a test draws repeat: a claim about chance is marked `stat`, and states its rate."""
    with noise_of(item, "call"):
        return (yield)


def noise_of(node: pytest.Item | pytest.Collector, part: str) -> AbstractContextManager[None]:
    """Noise that a test's name decides; that of `stat` tests is the real one."""
    return nullcontext() if node.get_closest_marker("stat") is not None else known_noise(f"{node.nodeid} {part}")


@pytest.fixture
def every_row_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let snapshots keep every row as delivered, for tests of what is read; otherwise only rows that do not fit."""
    monkeypatch.setattr("contracts.sql.encoding.kept_sql", lambda contract: "TRUE")


@pytest.fixture(scope="session")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worlds]:
    """Published versions of every kind of product, to be read, or copied and spoilt."""
    from tests.worlds.versions import Worlds

    made = Worlds(tmp_path_factory)
    yield made
    made.check()


@pytest.fixture(scope="session")
def initialised(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A workspace by `sudare init --json` in a process of its own, and what the command printed."""

    def make(folder: Path) -> None:
        command = [sys.executable, "-c", "from console.main import main; main()", "init", str(folder / "w"), "--json"]
        plain = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "SUDARE_"))}
        plain["XDG_CONFIG_HOME"] = str(folder / "config")
        done = subprocess.run(command, env=plain, capture_output=True, text=True, check=True)
        (folder / "printed").write_text(done.stdout)

    folder = once(tmp_path_factory, "initialised", make)
    return folder / "w", (folder / "printed").read_text()


@pytest.fixture(scope="session")
def prefect_home(initialised: tuple[Path, str]) -> Path:
    """Prefect's folder as `sudare init` begins it; tests copy it into their workspaces, for it takes long to make."""
    from flows.prefect_runs.server import create_database

    home = initialised[0] / ".sudare" / "prefect"
    create_database(home)  # waits for the one that was begun
    return home


@pytest.fixture(scope="session")
def serving(tmp_path_factory: pytest.TempPathFactory, prefect_home: Path) -> Iterator[Workspace]:
    """A workspace whose Prefect server stays for all tests of a process; to start one costs more than a run."""
    from flows.prefect_runs.server import stop_lasting
    from tasks.storage.workspace.settings import Workspace

    workspace = Workspace.create(tmp_path_factory.mktemp("serving") / "w")
    shutil.copytree(prefect_home, workspace.prefect_home)
    yield workspace
    stop_lasting(workspace)


@pytest.fixture(scope="module")
def prefect_server(serving: Workspace) -> Iterator[PrefectServer]:
    """That server, for a module's runs. What they tell Prefect lies in its folder, and not in their workspace's."""
    with served_by(serving) as started:
        yield started


@contextmanager
def served_by(workspace: Workspace) -> Iterator[PrefectServer]:
    """Have the Prefect server of a workspace inside the block; what runs in this process has its password."""
    from prefect import settings

    from flows.prefect_runs.server import lasting_server

    with lasting_server(workspace) as started:
        started.wait()
        with settings.temporary_settings({settings.PREFECT_API_AUTH_STRING: started.auth}):
            yield started


@pytest.fixture
def served(prefect_server: PrefectServer, monkeypatch: pytest.MonkeyPatch) -> PrefectServer:
    """Have the commands of a test find that server."""
    monkeypatch.setenv("PREFECT_API_URL", prefect_server.api_url)
    return prefect_server
