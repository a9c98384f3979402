"""What Flower runs ends when the process of Sudare's that started it is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tasks.federation.flower import free_port
from tests.tasks.federations import FEDERATION, TRUSTING, a_coordinator, a_site

RUN = "from console.main import main; main()"


def test_nothing_of_flower_outlives_a_coordinator_and_a_site_that_are_killed(tmp_path: Path) -> None:
    """Killed by SIGKILL while the app waits for sites: link, app, node, and all that they started are gone."""
    federation, port = FEDERATION.replace(*TRUSTING), free_port()
    spec, _ = a_coordinator(tmp_path / "coordinator", federation=federation)
    site, _ = a_site(tmp_path / "north", "north", federation=federation)
    coordinator = sudare(spec.parent, "run", str(spec), "--port", str(port))
    answering = sudare(site.parent, "site", str(site), "--link", f"127.0.0.1:{port}")
    try:
        assert waited(lambda: serving(tmp_path), seconds=90), of_flower(tmp_path)
        assert len(of_flower(tmp_path)) > 3
        for each in (coordinator, answering):
            each.send_signal(signal.SIGKILL)
            each.wait()
        assert waited(lambda: not of_flower(tmp_path), seconds=30), of_flower(tmp_path)
    finally:
        for process in (*of_flower(tmp_path), coordinator.pid, answering.pid):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


def serving(folder: Path) -> bool:
    """Whether link, app and node run, and what the first two start."""
    said = [text for text in of_flower(folder).values() if text]
    return all(
        any(word in text for text in said) for word in ("superlink", "supernode", "serverapp", "own_app.py flwr")
    )


def sudare(folder: Path, *told: str) -> subprocess.Popen[bytes]:
    """`sudare federation` in a workspace."""
    with (folder / "said.log").open("wb") as log:
        return subprocess.Popen([sys.executable, "-c", RUN, "federation", *told], cwd=folder, stdout=log, stderr=log)


def of_flower(folder: Path) -> dict[int, str]:
    """Processes that have their Flower home below a folder, by number: what was called."""
    found = {}
    for place in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            number = int(place.name)
            if f"FLWR_HOME={folder}".encode() in (place / "environ").read_bytes():
                found[number] = command(number)
    return found


def command(process: int) -> str:
    """What a process was called with."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def waited(done: Callable[[], object], *, seconds: float) -> bool:
    """Wait until something holds."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if done():
            return True
        time.sleep(0.2)
    return False
