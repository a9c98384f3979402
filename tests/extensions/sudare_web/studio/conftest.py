"""A studio over a folder with the example, that answers on a port of this machine."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import uvicorn
from fastapi.testclient import TestClient

from sudare_web.site.server import config_for
from sudare_web.studio.app import Studio, make_app
from tasks.storage.workspace.settings import Workspace
from tests.console.conftest import Place


@dataclass(frozen=True)
class Open:
    """A studio that answers on a port of this machine."""

    studio: Studio
    url: str

    @property
    def entrance(self) -> str:
        return f"{self.url}/enter?token={self.studio.keys.token}"

    @property
    def root(self) -> str:
        """What every address behind the door begins with."""
        return self.url + self.studio.keys.root


@contextmanager
def opened(folder: Path, workspace: Workspace | None, named: Path | None = None) -> Iterator[Open]:
    """Serve a studio, as `sudare studio` does, inside the block."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=256)
    port = listening.getsockname()[1]
    studio = Studio(folder, workspace, named=named, port=port)
    server = uvicorn.Server(config_for(make_app(studio)))
    thread = threading.Thread(target=lambda: server.run(sockets=[listening]), daemon=True)
    thread.start()
    try:
        yield Open(studio, f"http://127.0.0.1:{port}")
    finally:
        server.should_exit = True
        thread.join(30)
        listening.close()


@pytest.fixture
def place_of_studio(place: Place) -> tuple[Path, Workspace]:
    """The folder of contract and spec, and the workspace with their account."""
    return place.adult, place.workspace


PORT = 8351


@pytest.fixture
def studio(place_of_studio: tuple[Path, Workspace]) -> Iterator[Studio]:
    made = Studio(*place_of_studio, named=None, port=PORT)
    yield made
    made.close()


@pytest.fixture
def client(studio: Studio) -> TestClient:
    made = TestClient(make_app(studio), base_url=f"http://127.0.0.1:{PORT}", follow_redirects=False)
    assert made.get("/enter", params={"token": studio.keys.token}).status_code == 200
    made.base_url = made.base_url.join(studio.keys.root)
    made.headers["Origin"] = f"http://127.0.0.1:{PORT}"
    return made
