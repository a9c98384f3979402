"""Runs that are killed (SIGKILL), and then run again.

A run is the plain functions that the flow's tasks wrap, in a forked process, or the whole command `sudare run` with
its Prefect server. It is killed
    - at every instant at which something becomes durable: just before and just after each fsync, each rename and
      each commit of the ledger;
    - after random delays, on SQLite and on PostgreSQL.
After each kill, and after the run that follows it, these must hold:
    no version, or a whole one that verifies; never a version without a charge; one charge and one version at the end;
    what was drawn before the kill is what is published; no entry of the journal that was committed is lost, and the
    journal only grows; the ledger verifies.
"""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import count
from pathlib import Path
from random import Random
from secrets import randbits
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final

from benchmarks._kill_places import Place, look, lost, make_place, new_database
from benchmarks._kill_ways import (
    Kill,
    Run,
    after,
    after_charge,
    at_instant,
    command_after,
    command_after_charge,
    command_again,
    count_instants,
    release_again,
)
from benchmarks._ledger_places import database
from benchmarks.results import Row, machine, write
from flows.prefect_runs.server import create_database
from tasks.records.software import software
from tasks.validate import warm

ON_SQLITE: Final = 90
ON_POSTGRESQL: Final = 40
COMMANDS: Final = 12
TARGET: Final = 200
AFTER_CHARGE: Final = 0.4  # of a run's time
COMMAND_AFTER_CHARGE: Final = 0.1

# Makes a place in an empty folder.
Make = Callable[[Path], Place]


@dataclass(frozen=True)
class Outcome:
    """What came of one kill.

    Args:
        reached: kind of the last entry in the journal when the run was dead.
        wrong: what did not hold, in words.
    """

    reached: str
    wrong: tuple[str, ...]


def kill_and_run_again(place: Place, kill: Kill, again: Run) -> Outcome | None:
    """Kill a run, look, run again, look again; None where the run ended before it could be killed."""
    if not kill(place):
        return None
    journal, drawn = place.journal(), place.draws()
    wrong = [*lost(place, journal), *look(place)]
    if not again(place):
        wrong.append("the run that follows fails")
    wrong += look(place)
    if [path.name for path in place.versions] != ["v1"]:
        wrong.append(f"versions at the end: {[path.name for path in place.versions]}")
    if any(place.draws().get(name) != values for name, values in drawn.items()):
        wrong.append("something was drawn a second time")
    if place.journal()[: len(journal)] != journal:
        wrong.append("the journal does not begin with what it held after the kill")
    return Outcome(journal[-1].kind, tuple(wrong))


def kill_at_instants(folder: Path, chosen: Callable[[int], Sequence[int]]) -> list[Outcome]:
    """Kill a run at those of its durable instants that are chosen, each in a fresh place."""
    with _fresh(folder, make_place) as place:
        instants = count_instants(place)
    outcomes = []
    for instant in chosen(instants):
        with _fresh(folder, make_place) as place:
            killed = kill_and_run_again(place, at_instant(instant), release_again)
        outcomes.append(killed or Outcome("", (f"instant {instant} of {instants} never came",)))
    return outcomes


def _kill_at_random(
    folder: Path,
    kills: int,
    source: Random,
    *,
    make: Make,
    kill_after: Callable[[float], Kill],
    again: Run,
    within: float,
) -> list[Outcome]:
    """Kill so many runs, each in a fresh place, after random delays of up to `within` seconds."""
    outcomes: list[Outcome] = []
    while len(outcomes) < kills:
        with _fresh(folder, make) as place:
            killed = kill_and_run_again(place, kill_after(source.uniform(0, within)), again)
        if killed is not None:
            outcomes.append(killed)
    return outcomes


def kill_releases_at_random(folder: Path, kills: int, source: Random, make: Make) -> list[Outcome]:
    """Kill half of the runs at random within the whole run, and half after the charge: most of a run comes before."""
    usual = _usual_seconds(folder, make, release_again)
    kill = partial(_kill_at_random, folder, source=source, make=make, again=release_again)
    whole = kill(kills // 2, kill_after=after, within=usual)
    return whole + kill(kills - len(whole), kill_after=after_charge, within=AFTER_CHARGE * usual)


def kill_commands_at_random(folder: Path, kills: int, source: Random, make: Make) -> list[Outcome]:
    """Kill half of the commands at random within the whole command, and half after the charge."""
    usual = _usual_seconds(folder, make, command_again)
    kill = partial(_kill_at_random, folder, source=source, make=make, again=command_again)
    whole = kill(kills // 2, kill_after=command_after, within=usual)
    return whole + kill(kills - len(whole), kill_after=command_after_charge, within=COMMAND_AFTER_CHARGE * usual)


def load() -> None:
    """Load what every forked run would load again."""
    for module in ("flows.prepare", "tasks.publish", "tasks.report"):
        import_module(module)
    warm()
    software()


def _usual_seconds(folder: Path, make: Make, run: Run) -> float:
    """Return how long a run takes that nobody kills: the median of three."""
    seconds = []
    for _ in range(3):
        with _fresh(folder, make) as place:
            began = perf_counter()
            if not run(place):
                raise RuntimeError("the run that is only timed failed")
            seconds.append(perf_counter() - began)
    return median(seconds)


@contextmanager
def _fresh(folder: Path, make: Make) -> Iterator[Place]:
    """Yield a place that is gone afterwards."""
    inside = folder / "place"
    inside.mkdir()
    try:
        yield make(inside)
    finally:
        shutil.rmtree(inside)


# --- the benchmark ----------------------------------------------------------------------------------------------


def main() -> None:
    """Kill in every way and write results/kills.json; the seed of the delays is the first argument, or random."""
    seed = int(sys.argv[1]) if sys.argv[1:] else randbits(32)
    print(f"seed {seed}")
    load()
    with TemporaryDirectory() as name:
        folder, source = Path(name), Random(seed)
        rows = [
            _row("at every durable instant, SQLite", kill_at_instants(folder, range), seed),
            _row("at random, SQLite", kill_releases_at_random(folder, ON_SQLITE, source, make_place), seed),
            _row("at random, PostgreSQL", _on_postgresql(folder, source), seed),
            _row("at random, the whole command", _commands(folder, source), seed),
        ]
    total = sum(int(row.unit.split()[-1]) for row in rows)
    rows.append(Row("kills in all", total, "kills", TARGET, total >= TARGET, settings=rows[0].settings))
    write("kills", rows)


def _on_postgresql(folder: Path, source: Random) -> list[Outcome]:
    """Kill runs whose ledger is a PostgreSQL database of their own."""
    server_folder, numbers = folder / "server", count()
    server_folder.mkdir()
    with database("PostgreSQL", server_folder) as server:

        def make(inside: Path) -> Place:
            return make_place(inside, ledger_url=new_database(server, f"killed{next(numbers)}"))

        return kill_releases_at_random(folder, ON_POSTGRESQL, source, make)


def _commands(folder: Path, source: Random) -> list[Outcome]:
    """Kill whole commands, whose workspaces get Prefect's database as `sudare init` makes it."""
    prefect = folder / "prefect"
    create_database(prefect)

    def make(inside: Path) -> Place:
        place = make_place(inside)
        shutil.copytree(prefect, place.workspace.prefect_home)
        return place

    return kill_commands_at_random(folder, COMMANDS, source, make)


def _row(what: str, outcomes: Sequence[Outcome], seed: int) -> Row:
    """Count the kills after which something did not hold, and tell which those were."""
    failed = [outcome for outcome in outcomes if outcome.wrong]
    for outcome in failed:
        print(what, outcome)
    reached = Counter(outcome.reached for outcome in outcomes)
    settings = machine("sqlalchemy", "duckdb", "psycopg", "prefect") | {
        "seed": seed,
        "journal_ended_with": dict(reached),
    }
    name = f"killed {what}: something did not hold"
    return Row(name, len(failed), f"of {len(outcomes)}", 0, not failed, settings=settings)


if __name__ == "__main__":
    main()
