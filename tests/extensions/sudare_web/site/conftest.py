"""A workspace with real versions, and the site over it."""

import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import uvicorn
from fastapi import FastAPI
from fastapi.testclient import TestClient

from benchmarks.orchestration import release_plainly
from console.main import execute
from sudare_web.serve import make_site
from sudare_web.site.app import make_app
from sudare_web.site.asking import Site
from sudare_web.site.desk import Answer, Desk
from sudare_web.site.server import config_for
from sudare_web.site.version import folder_of, verified
from tasks.storage.workspace.settings import Workspace
from tests.console.conftest import Place, place_in
from tests.worlds.once import once
from tests.worlds.tiers import is_elsewhere

SCRIPT = "<script>alert('x')</script>"
REASON = f"wrong reference year {SCRIPT}"


@dataclass(frozen=True)
class Shown:
    """A workspace with something to show: adult-tables v1 to v3, adult-old v1 withdrawn, and a refused run."""

    place: Place

    @property
    def workspace(self) -> Workspace:
        return self.place.workspace


@pytest.fixture(scope="session")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    """A copy for each process, since a site writes its logs; the tests only read."""
    made = once(tmp_path_factory, "shown", lambda folder: _publish(place_in(folder)))
    workspace = copied(Workspace.open(made / "w"), tmp_path_factory.mktemp("shown") / "w")
    return Shown(Place(workspace, made / "adult"))


def _publish(place: Place) -> None:
    """Publish three versions of a release and one of another, withdraw that, and have a run refused."""
    at = ("--workspace", str(place.workspace.root))
    contract = place.adult / "adult.odcs.yaml"
    for epsilon in ("1.0", "0.5", "0.3"):
        release_plainly(
            place.spec("adult-tables", ("epsilon: 1.0", f"epsilon: {epsilon}")), place.workspace.root, supersede=True
        )
    described = contract.read_text()
    contract.write_text(described.replace("name: UCI Adult", f'name: "UCI {SCRIPT}"', 1))
    assert contract.read_text() != described
    release_plainly(place.spec("adult-old", ("epsilon: 1.0", "epsilon: 0.2")), place.workspace.root)
    assert execute(["releases", "withdraw", "adult-old", "--version", "1", "--reason", REASON, *at]) == 0
    _refuse_a_run(place.workspace)


def _refuse_a_run(workspace: Workspace) -> None:
    """Write down that a gate stopped a run, as the flow does."""
    ledger = workspace.open_ledger()
    try:
        [charge, *_] = ledger.charges(account="adult-1994")
        ledger.record_gate_failure(replace(charge.request, release="secret-release"), ["secret-gate"])
    finally:
        ledger.close()


@pytest.fixture(scope="session")
def site(shown: Shown) -> Iterator[Site]:
    made = make_site(shown.workspace)
    yield made
    made.verifications.close()
    made.forecasts.close()
    made.view.close()


@pytest.fixture(autouse=True)
def _nobody_at_the_desk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a pure case what a page asks of the site's other process stays asked."""
    if "site" in request.fixturenames and not is_elsewhere(request.node):
        monkeypatch.setattr(Desk, "ask", lambda desk, key, argument: Answer("waiting"))


@pytest.fixture(scope="session")
def app(site: Site) -> FastAPI:
    return make_app(site)


@pytest.fixture
def client(app: FastAPI) -> TestClient:
    """A reader who comes for the first time: with no cookie of a language."""
    return TestClient(app, base_url="http://localhost", follow_redirects=False)


@dataclass(frozen=True)
class Served:
    """A site that answers on a port of this machine."""

    site: Site
    url: str


@contextmanager
def serving(site: Site) -> Iterator[Served]:
    """Serve a site, as `sudare serve` does, inside the block."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=256)
    server = uvicorn.Server(config_for(make_app(site)))
    thread = threading.Thread(target=lambda: server.run(sockets=[listening]), daemon=True)
    thread.start()
    try:
        yield Served(site, f"http://127.0.0.1:{listening.getsockname()[1]}")
    finally:
        server.should_exit = True
        thread.join(30)
        listening.close()


def answered(ask: Callable[[], Answer]) -> Answer:
    """Ask until the work is done; beside other tests the nice process gets a fifteenth of a core."""
    until = time.monotonic() + 400
    while (answer := ask()).state in ("waiting", "running", "busy"):
        assert time.monotonic() < until
        time.sleep(0.05)
    return answer


def copied(workspace: Workspace, to: Path) -> Workspace:
    """Copy a workspace, to do harm to it."""
    shutil.copytree(workspace.root, to, symlinks=True)
    return Workspace.open(to)


@pytest.fixture(scope="module")
def served(shown: Shown) -> Iterator[Served]:
    """The site with its verification done, so that no page looks again by itself."""
    site = make_site(shown.workspace)
    with serving(site) as made:
        for release, number in (("adult-tables", 3), ("adult-old", 1)):
            answer = answered(lambda r=release, n=number: verified(site, folder_of(site, r, n)))  # type: ignore[misc]
            assert answer.state == "done"
        yield made
