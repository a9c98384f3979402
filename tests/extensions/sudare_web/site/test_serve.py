"""`sudare serve` as it is typed: it serves until it is told to end, and says what keeps it from serving."""

import json
import signal
import socket
import subprocess
import urllib.request
from pathlib import Path

import pytest

from tests.console.conftest import COMMAND, Typed
from tests.extensions.sudare_web.site.conftest import Shown


@pytest.mark.services
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_a_signal_and_ends_with_0(shown: Shown, ending: signal.Signals):
    words = [*COMMAND, "serve", "--port", "0", "--json", "--workspace", str(shown.workspace.root)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        told = ""
        while not told.endswith("}\n"):
            told += process.stdout.readline()
        url = json.loads(told)["url"]
        with urllib.request.urlopen(f"{url}/api/health", timeout=60) as answer:
            assert json.load(answer)["ok"]
            assert "server" not in {name.lower() for name in answer.headers}
        process.send_signal(ending)
        assert process.wait(60) == 0
        assert process.stderr.read() == ""


@pytest.mark.services
def test_a_port_that_is_taken_is_named(shown: Shown, typed: Typed):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = typed("serve", "--port", str(port), at=shown.workspace)
    assert said.code == 1
    assert f"127.0.0.1:{port}" in said.err
    assert "--port PORT" in said.err


def test_without_a_workspace_it_says_how_to_make_one(typed: Typed, tmp_path: Path):
    typed("serve", "--workspace", str(tmp_path)).assert_ended(2, "sudare init")


def test_without_a_ledger_it_makes_none(shown: Shown, typed: Typed, tmp_path: Path):
    from tasks.storage.workspace.settings import Workspace

    bare = Workspace.create(tmp_path / "w")
    typed("serve", at=bare).assert_ended(1, "there is no ledger")
    assert not (bare.private / "ledger.sqlite").exists()
