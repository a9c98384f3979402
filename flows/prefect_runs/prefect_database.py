"""The database of a workspace's own Prefect server: made once, whole or not at all, in the background.

`python -m flows.prefect_runs.prefect_database HOME` makes it. Prefect takes some hundred steps for it (about 4 s), so
`sudare init` begins them and ends, and a server that starts meanwhile waits for them. Whoever comes second waits at
the lock, finds the database, and does nothing.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from contracts.errors import SudareError
from tasks.storage.workspace.environment import environment_for_prefect

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
            [sys.executable, "-P", "-m", "flows.prefect_runs.prefect_database", str(home)],
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


if __name__ == "__main__":
    create_database(Path(sys.argv[1]))
