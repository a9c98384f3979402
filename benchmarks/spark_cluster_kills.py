"""Kill processes of a release that a cluster of two workers counts: a worker, the master, the driver.

    SUDARE_SPARK_PYTHON=.venv-spark/bin/python python -m benchmarks.spark_cluster_kills [KILLS-OF-EACH]

Each kill has a workspace of its own, and an authenticated, encrypted cluster on loopback. The victim gets SIGKILL at
a random instant: half of the kills from the start of Java on, half from the charge on, each uniform over how long a
run that nobody kills takes from there to its end. Then what was killed of the cluster is started again,
and the same release is run again. What has to hold is what `spark_kills` asks: nothing published by halves, nothing
charged or drawn twice, and the run that follows completes.

A cluster serves many kills; one whose master was killed serves none after. Each outcome is kept at once in
build/spark_kills/cluster, and results are written after each: a campaign that is stopped goes on where it was, until
each victim was killed so often.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import SystemRandom
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Final

from benchmarks._kill_places import Place
from benchmarks._kill_ways import fork
from benchmarks._spark_archive import archived_java
from benchmarks._spark_cluster import SECURE, SparkProcesses, standalone_cluster, start_worker
from benchmarks._spark_kill import LOOK_SECONDS, Kill, Outcome, ended_as, lives_now, looked_again, work
from benchmarks._spark_place import make_spark_place, processes, quick_java
from benchmarks.kills import load
from benchmarks.results import Setting, write
from benchmarks.spark_kills import KEPT, keep, kept, of_other_ways, rows_of, settings_of, timed
from tasks.storage.workspace.settings import FILE, Workspace

WAY: Final = "cluster"
WORKER, MASTER, DRIVER = VICTIMS = ("cluster worker", "master", "driver")
SECRET: Final = "the-secret-of-a-benchmark"
ARCHIVE: Final = KEPT / "classes.jsa"
"""The first run leaves it for the others."""


@dataclass
class Clusters:
    """One cluster at a time, with two workers.

    Args:
        folder: what its processes write.
        python: the Python that has PySpark.
        java: options of every Java.
    """

    folder: Path
    python: Path
    java: str
    _now: SparkProcesses | None = None
    _stack: ExitStack = field(default_factory=ExitStack)
    _number: count[int] = field(default_factory=count)
    _workers: list[str] = field(default_factory=list)

    def whole(self) -> SparkProcesses:
        """Return the cluster, or a new one."""
        if self._now is None:
            folder = self.folder / f"cluster{next(self._number)}"
            folder.mkdir()
            starting = standalone_cluster(folder, self.python, secret=SECRET, java=self.java)
            self._now = self._stack.enter_context(starting)
            self._workers = ["worker0", "worker1"]
        return self._now

    def kill(self, victim: str) -> None:
        """Kill one worker, or the master."""
        self.whole().kill(self._workers.pop(0) if victim == WORKER else "master")

    def restart(self, victim: str) -> None:
        """Start again what was killed. Workers find a new master by themselves, but only after a while: one comes."""
        cluster, settings = self.whole(), {**SECURE, "spark.authenticate.secret": SECRET}
        if victim == MASTER:
            words = ("--host", "127.0.0.1", "--port", str(cluster.port), "--webui-port", str(cluster.pages["master"]))
            name = "org.apache.spark.deploy.master.Master"
            cluster.start("master", settings, name, *words, awaited="New state: ALIVE")
        if victim != DRIVER:
            self._workers.append(f"worker{2 + next(self._number)}")
            start_worker(cluster, self._workers[-1], settings)

    def close(self) -> None:
        """End the cluster; the next is a new one."""
        self._stack.close()
        self._now = None


def kill_one(
    victim: str, folder: Path, clusters: Clusters, source: SystemRandom, lives: dict[str, float]
) -> Outcome | None:
    """Kill one process of a run in a fresh place; None where the run ended before."""
    place = place_in(folder, clusters)
    charged = source.random() < 0.5
    kill = Kill(victim, seconds=source.uniform(0, lives["charge" if charged else "java"]), charged=charged)
    begun, steps = monotonic(), dict[str, float]()

    def step(name: str) -> None:
        steps[name] = round(monotonic() - begun - sum(steps.values()), 1)

    driver = fork(lambda: work(place, None, folder / "struck"))
    while "java" not in processes(driver) or (charged and not place.witness.exists()):
        if not lives_now(driver):
            ended_as(driver, folder)
            return None
        sleep(LOOK_SECONDS)
    sleep(kill.seconds)
    seen = processes(driver)
    if "worker" not in seen:
        ended_as(driver, folder)
        return None
    if victim == DRIVER:
        seen["driver"].kill()
    else:
        clusters.kill(victim)
    step("to the kill")
    ended = ended_as(driver, folder)
    step("to the end of the run")

    def restart() -> None:
        step("looked at")
        clusters.restart(victim)
        step("started again")

    outcome = looked_again(place, kill, folder, ended, seen, restart)
    step("run and looked at again")
    print(steps, flush=True)
    return outcome


def place_in(folder: Path, clusters: Clusters) -> Place:
    """Make a place whose workspace names the cluster."""
    folder.mkdir()
    root, cluster = make_spark_place(folder, clusters.python).workspace.root, clusters.whole()
    quick_java(folder / "python", clusters.python, clusters.java)
    own = f'master = "spark://127.0.0.1:{cluster.port}"\ncredentials = "benchmark"\nmemory = "512m"'
    (root / FILE).write_text((root / FILE).read_text().replace("[spark]\n", f"[spark]\n{own}\n"))
    return Place(folder / "people.yaml", Workspace.open(root))


def main() -> None:
    """Kill until each victim was killed so often, and write what came of it to results/spark_kills.json."""
    python = Path(os.environ["SUDARE_SPARK_PYTHON"])
    each = int(sys.argv[1]) if sys.argv[1:] else 20
    os.environ["SUDARE_CREDENTIALS_BENCHMARK"] = json.dumps({"secret": SECRET})
    load()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # whoever stops it ends the cluster too
    outcomes, source, tries = kept(WAY), SystemRandom(), count()
    with TemporaryDirectory() as name, ExitStack() as stack:
        clusters = Clusters(Path(name), python, archived_java(ARCHIVE, python))
        stack.callback(clusters.close)
        lives = timed(place_in(Path(name) / "timed", clusters), Path(name) / "timed")
        print(lives, flush=True)
        while left := Counter(dict.fromkeys(VICTIMS, each)) - Counter(one.kill.victim for one in outcomes):
            [(victim, _)] = left.most_common(1)
            outcome = kill_one(victim, Path(name) / str(next(tries)), clusters, source, lives)
            print(outcome, flush=True)
            if victim == MASTER:
                clusters.close()
            if outcome is not None:
                keep(WAY, outcome)
                outcomes.append(outcome)
                write(
                    "spark_kills", [*of_other_ways(WAY), *rows_of(WAY, outcomes, _settings(python, outcomes, lives))]
                )


def _settings(python: Path, outcomes: list[Outcome], lives: dict[str, float]) -> dict[str, Setting]:
    """Return what else there is to say; when the victims were killed, and how many times of how many."""
    instants: dict[str, Setting] = {
        f"{victim}, seconds after the {'charge' if charged else 'start of Java'}": sorted(
            round(each.kill.seconds, 1)
            for each in outcomes
            if (each.kill.victim, each.kill.charged) == (victim, charged)
        )
        for victim in VICTIMS
        for charged in (False, True)
    }
    own: dict[str, Setting] = {"master": "spark://, two workers of one core", "killed_at": instants}
    return settings_of(python) | own | {"seconds_of_life": dict(lives)}


if __name__ == "__main__":
    main()
