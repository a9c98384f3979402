"""What takes long to make is made once for all processes of a test run."""

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.worlds.known_noise import known_noise

MADE = "made"


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Return a folder that the first process that asks for it fills; the others wait, and nobody changes it later."""
    base = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent  # each worker's folder stands in the folder of the run
    folder = base / "once" / name
    folder.parent.mkdir(exist_ok=True)
    with folder.with_name(f"{name}.lock").open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.seek(0)
        if lock.read() != MADE:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            with known_noise(name):  # whichever test asks for it first
                make(folder)
            lock.write(MADE)
    return folder
