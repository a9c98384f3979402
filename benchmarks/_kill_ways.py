"""Ways to run a release, and to kill the run (SIGKILL): at a durable instant, or after so many seconds."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from time import sleep
from typing import Any

from sqlalchemy import Engine, event

from benchmarks._kill_places import ACCOUNT, Place, witness_commits
from benchmarks.orchestration import SUDARE, release_plainly

Run = Callable[[Place], bool]
"""Runs to the end, and says whether it ended well."""
Kill = Callable[[Place], bool]
"""Runs, is killed, and says whether it was; False where it ended before."""


def release(place: Place) -> None:
    """Make the release with plain functions, in this process."""
    release_plainly(place.spec, place.workspace.root)


def at_instant(instant: int) -> Kill:
    """Return how to kill a run at one of its durable instants."""

    def work(place: Place) -> None:
        witness_commits(place.witness)
        Instants(instant).watch()
        release(place)

    return lambda place: _killed(os.waitpid(fork(lambda: work(place)), 0)[1])


def after(seconds: float, *, charged: bool = False) -> Kill:
    """Return how to kill a run after so many seconds, counted from its start, or from when it was charged."""

    def work(place: Place) -> None:
        witness_commits(place.witness)
        release(place)

    def kill(place: Place) -> bool:
        child = fork(lambda: work(place))
        while charged and not place.witness.exists() and _lives(child):
            sleep(0.001)
        sleep(seconds)
        os.kill(child, signal.SIGKILL)  # a child that has ended stays until it is waited for
        return _killed(os.waitpid(child, 0)[1])

    return kill


def after_charge(seconds: float) -> Kill:
    """Return how to kill a run so many seconds after it was charged."""
    return after(seconds, charged=True)


def command_after(seconds: float, *, charged: bool = False) -> Kill:
    """Return how to kill `sudare run` after so many seconds, counted from its start, or from when it was charged."""

    def kill(place: Place) -> bool:
        with command(place) as child, closing(place.ledger()) as ledger:
            while charged and not ledger.charges(account=ACCOUNT) and child.poll() is None:
                sleep(0.01)
            try:
                child.wait(timeout=seconds)
            except subprocess.TimeoutExpired:
                child.kill()
            return child.wait() == -signal.SIGKILL

    return kill


def command_after_charge(seconds: float) -> Kill:
    """Return how to kill `sudare run` so many seconds after it was charged."""
    return command_after(seconds, charged=True)


def command(place: Place) -> subprocess.Popen[bytes]:
    """Start `sudare run` with a Prefect server of its own."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "SUDARE_"))}
    words = [*SUDARE, "run", str(place.spec), "--workspace", str(place.workspace.root)]
    nowhere = subprocess.DEVNULL
    return subprocess.Popen(words, env=own, stdin=nowhere, stdout=nowhere, stderr=nowhere)


def release_again(place: Place) -> bool:
    """Make the release with plain functions, in a forked process; say whether it ended well."""
    return os.waitpid(fork(lambda: release(place)), 0)[1] == 0


def command_again(place: Place) -> bool:
    """Run the command to its end; say whether it ended well."""
    with command(place) as child:
        return child.wait() == 0


def fork(work: Callable[[], Any]) -> int:
    """Do the work in a forked process whose output goes nowhere, and return its id."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        with open(os.devnull, "w") as nowhere:  # noqa: PTH123
            os.dup2(nowhere.fileno(), 1)
            os.dup2(nowhere.fileno(), 2)
        work()
        status = 0
    finally:
        os._exit(status)


def _lives(child: int) -> bool:
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


def _killed(status: int) -> bool:
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def count_instants(place: Place) -> int:
    """Run to the end and return how many durable instants there were."""
    tally = place.spec.with_name("tally")

    def work() -> None:
        instants = Instants(None)
        instants.watch()
        release(place)
        tally.write_text(str(instants.seen))

    if os.waitpid(fork(work), 0)[1] != 0:
        raise RuntimeError("the run that is only counted failed")
    return int(tally.read_text())


class Instants:
    """Counts fsyncs, renames and commits, and kills this process at one of them.

    Args:
        fatal: the instant to die at: 2i just before, 2i + 1 just after the i-th durable step; None for never.
    """

    def __init__(self, fatal: int | None) -> None:
        self.seen = 0
        self._fatal = fatal

    def watch(self) -> None:
        """Begin to count in this process; there is no way back."""
        for holder, name in ((os, "fsync"), (os, "link"), (Path, "rename"), (Path, "replace")):
            setattr(holder, name, self._around(getattr(holder, name)))
        event.listen(Engine, "commit", lambda _connection: self._instant())

    def _around(self, durable: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **named: Any) -> Any:
            self._instant()
            done = durable(*arguments, **named)
            self._instant()
            return done

        return counted

    def _instant(self) -> None:
        if self.seen == self._fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        self.seen += 1
