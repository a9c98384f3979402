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
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from random import Random
from secrets import randbits
from statistics import median
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Final

from benchmarks._kill_places import Place
from benchmarks._kill_ways import fork
from benchmarks._spark_cluster import JAVA
from benchmarks._spark_kill import LOOK_SECONDS, Kill, Outcome, ended_as, error_of, lives_now, looked_again, work
from benchmarks._spark_place import NAMED, ROWS, Process, make_spark_place, processes
from benchmarks.kills import load
from benchmarks.results import FOLDER, Row, Setting, machine, write

VICTIMS: Final = ("driver", "worker", "java", "all")
WAYS: Final = {
    "life": ("killed at random in its life", 7),
    "charge": ("killed at random after the charge", 6),
    "named": ("killed at a named instant", 0),
    "cluster": ("a cluster's processes, killed at random", 0),
}
"""What each way of killing is called, and how often each victim is killed at random."""
KEPT: Final = Path("build") / "spark_kills"


def lives_of(folder: Path, python: Path, lanes: int) -> dict[str, float]:
    """Return how long each lives, and lives after the charge, where nobody kills: medians of `lanes` runs."""
    with _pool(lanes) as pool:
        seen = list(pool.map(_timed_in, [folder / f"timed-{lane}" for lane in range(lanes)], [python] * lanes))
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
                keep(outcome.kill.way, outcome)
    return outcomes


def keep(way: str, outcome: Outcome) -> None:
    """Write down an outcome at once, so that a benchmark that is stopped goes on where it was."""
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / way).open("a") as file:
        file.write(json.dumps(asdict(outcome)) + "\n")


def kept(way: str) -> list[Outcome]:
    """Return what a benchmark that was stopped has measured."""
    file = KEPT / way
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return [Outcome(**line | {"kill": Kill(**line["kill"]), "wrong": tuple(line["wrong"])}) for line in lines]


def _pool(lanes: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(lanes, mp_context=get_context("fork"))


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


def _pairs(struck: Path) -> list[list[str]]:
    return [line.split() for line in struck.read_text().splitlines()] if struck.exists() else []


def _timed_in(folder: Path, python: Path) -> dict[str, float]:
    folder.mkdir()
    return timed(make_spark_place(folder, python), folder)


def timed(place: Place, folder: Path) -> dict[str, float]:
    """Run to the end and return how long each process lived, and lived after the charge [seconds]."""
    first, last, charged = dict[str, float](), dict[str, float](), 0.0
    driver = fork(lambda: work(place, None, folder / "struck"))
    while lives_now(driver):
        for role in processes(driver):
            first.setdefault(role, monotonic())
            last[role] = monotonic()
        charged = charged or (monotonic() if place.witness.exists() else 0.0)
        sleep(LOOK_SECONDS)
    if ended_as(driver, folder) != "done" or len(first) < 3:
        raise RuntimeError(f"the run that is only timed failed: {error_of(folder)}")
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
            before = kept(way)
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
