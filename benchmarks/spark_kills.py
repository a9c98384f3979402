"""Releases counted by Spark whose processes are killed (SIGKILL), and then run again.

Three processes make such a release: ours (`driver`), the Python that drives Spark (`worker`), and Java, in which
Spark's own driver and its executor live, since Spark stays in one process. Each is killed alone, and all at once:
    - `life`: at a random instant, uniform over how long that process lives in a run that nobody kills;
    - `charge`: at a random instant, uniform over what such a run does after its charge, where all draws are;
    - `named`: just before and just after stage, hash, charge, count, draw, entry and publication.
What is left alive ends by itself or with an error of ours. Then, and after the run that follows, these must hold:
    no version, or a whole one that verifies; one charge and one version at the end; no draw is spoiled; what was
    drawn before the kill is what is published; the journal only grows; no process of the run is left.

`make bench-spark` names the Python that has pyspark in SUDARE_SPARK_PYTHON. Arguments: one of these ways, whose
results then replace its own alone; the seed of the delays; how many runs at once. Each outcome is kept at once in
build/spark_kills, a file a way, so that a benchmark that is stopped goes on where it was.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from random import Random
from secrets import randbits
from statistics import median
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Final

from benchmarks._kill_places import ACCOUNT, Place, look, lost, witness_commits
from benchmarks._kill_ways import fork, release
from benchmarks._spark_cluster import JAVA
from benchmarks._spark_place import NAMED, ROWS, Process, make_spark_place, processes, strike
from benchmarks.kills import load
from benchmarks.results import FOLDER, Row, Setting, machine, write
from tasks.storage.workspace.run_folder import is_locked

VICTIMS: Final = ("driver", "worker", "java", "all")
WAYS: Final = {
    "life": ("killed at random in its life", 7),
    "charge": ("killed at random after the charge", 6),
    "named": ("killed at a named instant", 0),
    "cluster": ("a cluster's processes, killed at random", 0),
}
"""What each way of killing is called, and how often each victim is killed at random."""
PATIENCE_SECONDS: Final = 900.0
LOOK_SECONDS: Final = 0.05
KEPT: Final = Path("build") / "spark_kills"


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
        """One of `WAYS`."""
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


def lives_of(folder: Path, python: Path, lanes: int) -> dict[str, float]:
    """Return how long each lives, and lives after the charge, where nobody kills: medians of `lanes` runs."""
    with _pool(lanes) as pool:
        seen = list(pool.map(_timed, [folder / f"timed-{lane}" for lane in range(lanes)], [python] * lanes))
    lives = {part: median(lives[part] for lives in seen) for part in seen[0]}
    return lives | {"all": lives["worker"]}


def kill_and_run_again(kill: Kill, folder: Path, python: Path) -> Outcome | None:
    """Kill a run in a fresh place, look, run again, look again; None where it ended before it could be killed."""
    folder.mkdir()
    place = make_spark_place(folder, python)
    struck = folder / "struck"
    driver = fork(lambda: work(place, kill, struck))
    seen = _kill_at_random(place, driver, kill) if not kill.instant else {}
    ended = ended_as(driver, folder)
    if not struck.exists() and not seen:
        return None
    seen |= {f"{number}": Process(int(number), int(began)) for number, began in _pairs(struck)}
    return looked_again(place, kill, folder, ended, seen)


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
        wrong.append(f"the run that follows fails: {_error(folder)}")
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


def kill_at_random(
    folder: Path,
    python: Path,
    victims: Sequence[str],
    source: Random,
    *,
    lanes: int,
    lives: Mapping[str, float],
    charged: bool,
    outcomes: Sequence[Outcome] = (),
) -> list[Outcome]:
    """Kill each of the victims at a random instant; one that has ended before is tried again.

    `outcomes` of kills that were made before are kept: each takes one of the victims.
    """
    outcomes, tries = list(outcomes), 0
    left = list((Counter(victims) - Counter(outcome.kill.victim for outcome in outcomes)).elements())
    while left:
        within = [lives["charge" if charged else victim] for victim in left]
        seconds = [source.uniform(0, most) for most in within]
        kills = [Kill(victim, seconds=after, charged=charged) for victim, after in zip(left, seconds, strict=True)]
        folders = [folder / f"random-{tries + number}" for number in range(len(kills))]
        tries += len(kills)
        found = _all(kills, folders, python, lanes)
        outcomes += [outcome for outcome in found if outcome is not None]
        left = [kill.victim for kill, outcome in zip(kills, found, strict=True) if outcome is None]
    return outcomes


def kill_at_named(folder: Path, python: Path, kills: Sequence[Kill], *, lanes: int) -> list[Outcome]:
    """Kill at named instants; one that never comes is wrong."""
    folders = [folder / f"named-{number}" for number in range(len(kills))]
    found = _all(kills, folders, python, lanes)
    never = partial(
        Outcome, reached="", ended="", charges=0, versions=0, spoiled=0, wrong=("the instant never came",)
    )
    return [outcome or never(kill) for kill, outcome in zip(kills, found, strict=True)]


def _all(kills: Sequence[Kill], folders: Sequence[Path], python: Path, lanes: int) -> list[Outcome | None]:
    outcomes = []
    with _pool(lanes) as pool:
        for outcome in pool.map(kill_and_run_again, kills, folders, [python] * len(kills)):
            print(outcome, flush=True)
            outcomes.append(outcome)
            if outcome is not None:
                _keep(outcome)
    return outcomes


def _keep(outcome: Outcome) -> None:
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / outcome.kill.way).open("a") as file:
        file.write(json.dumps(asdict(outcome)) + "\n")


def _kept(way: str) -> list[Outcome]:
    """Return what a benchmark that was stopped has measured."""
    file = KEPT / way
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return [Outcome(**line | {"kill": Kill(**line["kill"]), "wrong": tuple(line["wrong"])}) for line in lines]


def _pool(lanes: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(lanes, mp_context=get_context("fork"))


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


def _kill_at_random(place: Place, driver: int, kill: Kill) -> dict[str, Process]:
    """Wait until the victim lives, then so many seconds, and kill it; return who lived, nobody where it had ended."""
    awaited = "worker" if kill.victim == "all" else kill.victim
    while awaited not in processes(driver) or (kill.charged and not place.witness.exists()):
        if not lives_now(driver):
            return {}
        sleep(LOOK_SECONDS)
    sleep(kill.seconds)
    run = processes(driver)
    if awaited not in run:
        return {}
    for role, process in run.items():
        if kill.victim in (role, "all"):
            process.kill()
    return run


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
    ended = "done" if status == 0 else _error(folder).partition(":")[0]
    return "killed" if os.WIFSIGNALED(status) else ended


def _error(folder: Path) -> str:
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


def _pairs(struck: Path) -> list[list[str]]:
    return [line.split() for line in struck.read_text().splitlines()] if struck.exists() else []


def _timed(folder: Path, python: Path) -> dict[str, float]:
    """Run to the end and return how long each process lived."""
    folder.mkdir()
    place, first, last = make_spark_place(folder, python), dict[str, float](), dict[str, float]()
    charged = 0.0
    driver = fork(lambda: work(place, None, folder / "struck"))
    while lives_now(driver):
        for role in processes(driver):
            first.setdefault(role, monotonic())
            last[role] = monotonic()
        charged = charged or (monotonic() if place.witness.exists() else 0.0)
        sleep(LOOK_SECONDS)
    if ended_as(driver, folder) != "done" or len(first) < 3:
        raise RuntimeError(f"the run that is only timed failed: {_error(folder)}")
    return {role: last[role] - first[role] for role in first} | {"charge": last["driver"] - charged}


# --- the benchmark ----------------------------------------------------------------------------------------------


def main() -> None:
    """Kill in each way, or in the one that the first argument names, and write results/spark_kills.json."""
    python = Path(os.environ["SUDARE_SPARK_PYTHON"])
    ways = sys.argv[1:2] or [way for way in WAYS if way != "cluster"]
    seed = int(sys.argv[2]) if sys.argv[2:] else randbits(32)
    lanes = int(sys.argv[3]) if sys.argv[3:] else 2
    load()
    with TemporaryDirectory() as name:
        lives = {} if ways == ["named"] else lives_of(Path(name), python, lanes)
        print(f"seed {seed}, seconds: {lives}", flush=True)
        settings = settings_of(python) | {"seed": seed, "runs_at_once": lanes, "seconds_of_life": dict(lives)}
        for way in ways:
            folder = Path(name) / way
            folder.mkdir()
            before = _kept(way)
            if way == "named":
                known = {outcome.kill.instant for outcome in before}
                kills = [Kill(VICTIMS[number % len(VICTIMS)], instant) for number, instant in enumerate(NAMED)]
                kills = [kill for kill in kills if kill.instant not in known]
                outcomes = [*before, *kill_at_named(folder, python, kills, lanes=lanes)]
            else:
                outcomes = kill_at_random(
                    folder,
                    python,
                    VICTIMS * WAYS[way][1],
                    Random(seed),
                    lanes=lanes,
                    lives=lives,
                    charged=way == "charge",
                    outcomes=before,
                )
            write("spark_kills", [*of_other_ways(way), *rows_of(way, outcomes, settings)])
            (KEPT / way).unlink(missing_ok=True)


def of_other_ways(way: str) -> list[Row]:
    """Return what was measured before in other ways."""
    path = FOLDER / "spark_kills.json"
    rows = [Row(**each) for each in json.loads(path.read_text())] if path.exists() else []
    return [row for row in rows if row.settings["way"] != way]


def settings_of(python: Path) -> dict[str, Setting]:
    """Return the machine, the versions of what runs, and how Java is started."""
    asked = [str(python), "-I", "-c", "import pyspark; print(pyspark.__version__)"]
    pyspark = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr.splitlines()[0]
    settings = machine("sqlalchemy", "duckdb", "ibis-framework", "sqlglot")
    return settings | {"pyspark": pyspark, "java": java, "java_options": JAVA, "master": "local[2]", "rows": ROWS}


def rows_of(way: str, outcomes: Sequence[Outcome], settings: dict[str, Setting]) -> list[Row]:
    """Count the kills after which something did not hold, and what all runs came to in the end."""
    what, runs = WAYS[way][0], len(outcomes)
    failed = [outcome for outcome in outcomes if outcome.wrong]
    settings = {"way": way, **settings}
    came: dict[str, Setting] = {
        "victims": dict(Counter(outcome.kill.victim for outcome in outcomes)),
        "journal_ended_with": dict(Counter(outcome.reached for outcome in outcomes)),
        "our_process_ended": dict(Counter(outcome.ended for outcome in outcomes)),
        "failed": [f"{outcome.kill}: {'; '.join(outcome.wrong)}" for outcome in failed],
    }
    rows = [
        Row(f"{what}: something did not hold", len(failed), f"of {runs}", 0, not failed, settings=settings | came)
    ]
    for name in ("charges", "versions"):
        found = sum(getattr(outcome, name) for outcome in outcomes)
        rows.append(Row(f"{what}: {name}", found, f"of {runs} runs", runs, found == runs, settings=settings))
    spoiled = sum(outcome.spoiled for outcome in outcomes)
    rows.append(Row(f"{what}: spoiled draws", spoiled, f"of {3 * runs}", 0, spoiled == 0, settings=settings))
    return rows


if __name__ == "__main__":
    main()
