"""What a kill of a Spark release is, how it is made, and how the place is looked at before and after the next run."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Final

from benchmarks._kill_places import ACCOUNT, Place, look, lost, witness_commits
from benchmarks._kill_ways import fork, release
from benchmarks._spark_place import Process, processes, strike
from tasks.storage.workspace.run_folder import is_locked

PATIENCE_SECONDS: Final = 900.0
LOOK_SECONDS: Final = 0.05


@dataclass(frozen=True)
class Kill:
    """Whom to kill, and when.

    Args:
        victim: one of `VICTIMS`.
        instant: one of `_spark_place.NAMED`; empty for a random one.
        seconds: after the victim began to live, or after the charge, for a random one.
        charged: whether they are counted from the charge.
    """

    victim: str
    instant: str = ""
    seconds: float = 0.0
    charged: bool = False

    @property
    def way(self) -> str:
        """One of `spark_kills.WAYS`."""
        return "named" if self.instant else "charge" if self.charged else "life"


@dataclass(frozen=True)
class Outcome:
    """What came of one kill.

    Args:
        kill: whom, and when.
        reached: kind of the last entry in the journal when the run had ended.
        ended: how our process ended: "killed", with the class of its error, or "done".
        charges: charges at the end.
        versions: versions at the end.
        spoiled: draws at the end that failed while noise was drawn.
        wrong: what did not hold, in words.
    """

    kill: Kill
    reached: str
    ended: str
    charges: int
    versions: int
    spoiled: int
    wrong: tuple[str, ...]


def looked_again(
    place: Place,
    kill: Kill,
    folder: Path,
    ended: str,
    seen: Mapping[str, Process],
    restart: Callable[[], None] | None = None,
) -> Outcome:
    """Look at a place after a kill, run again, and look again.

    Args:
        place: where the run was.
        kill: whom, and when.
        folder: of the place.
        ended: how our process ended.
        seen: who lived when the kill came.
        restart: starts what the kill took from a cluster.
    """
    struck = folder / "struck"
    wrong = [] if _free(place) else ["the folder of the run is held minutes after it was killed"]
    journal, drawn = place.journal(), place.draws()
    wrong += [*lost(place, journal), *look(place)]
    if ended in ("hung", "killed") and kill.victim not in ("driver", "all"):
        wrong.append(f"our process is {ended} although another was killed")
    if restart is not None:
        restart()
    if ended_as(fork(lambda: work(place, None, struck)), folder) != "done":
        wrong.append(f"the run that follows fails: {error_of(folder)}")
    wrong += [*look(place), *(f"process {one} is left" for one in seen.values() if not _gone(one))]
    if any(place.draws().get(name) != values for name, values in drawn.items()):
        wrong.append("something was drawn a second time")
    if place.journal()[: len(journal)] != journal:
        wrong.append("the journal does not begin with what it held after the kill")
    with closing(place.ledger()) as ledger:
        charges = len(ledger.charges(account=ACCOUNT))
    spoiled = sum(b'"spoiled":true' in values for values in place.draws().values())
    if (charges, len(place.versions), spoiled, len(place.draws())) != (1, 1, 0, 3):
        wrong.append(f"{charges} charges, {len(place.versions)} versions, {spoiled} of {len(place.draws())} spoiled")
    return Outcome(kill, journal[-1].kind, ended, charges, len(place.versions), spoiled, tuple(wrong))


def work(place: Place, kill: Kill | None, struck: Path) -> None:
    """Make the release in this process, and note the class of the error that ends it."""
    witness_commits(place.witness)
    if kill is not None and kill.instant:
        strike(kill.instant, lambda: _strike(kill.victim, struck))
    try:
        release(place)
    except BaseException as error:
        struck.with_name("error").write_text(f"{type(error).__name__}: {error}")
        raise


def _strike(victim: str, struck: Path) -> None:
    """Kill processes of this run from inside, ours last, having noted who lived."""
    run = processes(os.getpid())
    struck.write_text("".join(f"{process.number} {process.started}\n" for process in run.values()))
    for role in ("java", "worker", "driver"):
        if victim in (role, "all") and role in run:
            run[role].kill()


def ended_as(driver: int, folder: Path) -> str:
    """Wait for our process, and say how it ended; one that hangs is killed."""
    until = monotonic() + PATIENCE_SECONDS
    while lives_now(driver):
        if monotonic() > until:
            os.kill(driver, signal.SIGKILL)
            os.waitpid(driver, 0)
            return "hung"
        sleep(LOOK_SECONDS)
    status = os.waitpid(driver, 0)[1]
    ended = "done" if status == 0 else error_of(folder).partition(":")[0]
    return "killed" if os.WIFSIGNALED(status) else ended


def error_of(folder: Path) -> str:
    """Return the error that ended our process."""
    return (folder / "error").read_text()[:300] if (folder / "error").exists() else "no error"


def lives_now(child: int) -> bool:
    """Say whether a child process has not ended."""
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


def _free(place: Place) -> bool:
    """Wait until Spark has let go of the run's folder, as a run that is started again does."""
    held = [path.name for path in place.workspace.runs.glob("*")]
    return _until(lambda: not any(is_locked(place.workspace.runs, name) for name in held))


def _gone(process: Process) -> bool:
    return _until(lambda: not process.lives())


def _until(true: Callable[[], bool]) -> bool:
    until = monotonic() + PATIENCE_SECONDS / 5
    while not true():
        if monotonic() > until:
            return False
        sleep(LOOK_SECONDS)
    return True
