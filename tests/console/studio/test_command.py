"""`sudare studio` as it is typed: where it listens, what it prints, what keeps it from starting, how it ends."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.console.conftest import COMMAND, Place, Typed


@pytest.mark.services
def test_it_answers_loopback_until_a_signal_and_ends_with_0(tmp_path: Path) -> None:
    """In an empty folder, without a workspace: the address is of 127.0.0.1, and its token lets one reader in."""
    words = [*COMMAND, "studio", "--port", "0", "--json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(words, cwd=tmp_path, text=True, **pipes) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        told = ""
        while not told.endswith("}\n"):
            told += process.stdout.readline()
        payload = json.loads(told)
        assert payload["url"].startswith("http://127.0.0.1:")
        assert payload["workspace"] is None
        with urllib.request.urlopen(payload["url"], timeout=60) as answer:
            assert answer.status == 200
        try:
            urllib.request.urlopen(payload["url"], timeout=60)
            again = 200
        except urllib.error.HTTPError as refused:
            again = refused.code
        assert again == 403
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert process.stderr.read() == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.services
def test_a_port_that_is_taken_is_named(shared: Place, typed: Typed) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = typed("studio", str(shared.adult / "tables.yaml"), "--port", str(port), at=shared.workspace)
    assert said.code == 1
    assert f"127.0.0.1:{port}" in said.err
    assert "--port PORT" in said.err


def test_a_spec_that_is_not_there_is_named(shared: Place, typed: Typed) -> None:
    said = typed("studio", str(shared.adult / "nothing.yaml"), at=shared.workspace)
    assert said.code == 2
    assert "nothing.yaml" in said.err


def test_a_workspace_that_is_none_is_refused(typed: Typed, tmp_path: Path) -> None:
    said = typed("studio", "--workspace", str(tmp_path))
    assert said.code == 2
    assert "sudare init" in said.err
