"""Kill processes of a release that a cluster of two workers counts: a worker, the master, the driver.

    SUDARE_SPARK_PYTHON=.venv-spark/bin/python python -m benchmarks.spark_cluster_kills [KILLS-OF-EACH] [SEED]

Each kill has a workspace and an authenticated, encrypted cluster of its own on loopback. The victim gets SIGKILL at a
random instant between the start of Spark and some seconds after the charge. Then what was killed of the cluster is
started again, and the same release is run again. What has to hold is what `spark_kills` asks: nothing published by
halves, nothing charged or drawn twice, and the run that follows completes. Results are written beside those of
`spark_kills`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from secrets import randbits
from tempfile import TemporaryDirectory
from time import sleep
from typing import Final

from benchmarks._kill_places import Place
from benchmarks._kill_ways import fork
from benchmarks._spark_cluster import SECURE, SparkProcesses, standalone_cluster, start_worker
from benchmarks._spark_kill import LOOK_SECONDS, Kill, Outcome, ended_as, lives_now, looked_again, work
from benchmarks._spark_place import make_spark_place, processes
from benchmarks.kills import load
from benchmarks.results import write
from benchmarks.spark_kills import of_other_ways, rows_of, settings_of
from tasks.storage.workspace.settings import FILE, Workspace

VICTIMS: Final = ("cluster worker", "master", "driver")
SECRET: Final = "the-secret-of-a-benchmark"
AFTER_CHARGE_SECONDS: Final = 12.0
BEFORE_CHARGE_SECONDS: Final = 25.0


def kill_one(victim: str, folder: Path, python: Path, source: Random) -> Outcome | None:
    """Kill one process of a run in a fresh place; None where the run ended before."""
    folder.mkdir()
    (folder / "spark").mkdir()
    with standalone_cluster(folder / "spark", python, secret=SECRET) as cluster:
        place = _with_cluster(make_spark_place(folder, python), cluster)
        charged = source.random() < 0.5
        kill = Kill(victim, seconds=source.uniform(0, _most(charged)), charged=charged)
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
        if victim == "driver":
            seen["driver"].kill()
        else:
            cluster.kill("worker0" if victim == "cluster worker" else "master")
        return looked_again(place, kill, folder, ended_as(driver, folder), seen, _restarted(cluster, victim))


def _most(charged: bool) -> float:
    return AFTER_CHARGE_SECONDS if charged else BEFORE_CHARGE_SECONDS


def _with_cluster(place: Place, cluster: SparkProcesses) -> Place:
    """Let the workspace name the cluster."""
    root = place.workspace.root
    file, own = (
        root / FILE,
        f'master = "spark://127.0.0.1:{cluster.port}"\ncredentials = "benchmark"\nmemory = "512m"',
    )
    file.write_text(file.read_text().replace("[spark]\n", f"[spark]\n{own}\n"))
    return Place(place.spec, Workspace.open(root))


def _restarted(cluster: SparkProcesses, victim: str) -> Callable[[], None]:
    """Return what starts the killed process again."""
    settings = {**SECURE, "spark.authenticate.secret": SECRET}

    def restart() -> None:
        if victim == "cluster worker":
            start_worker(cluster, "worker2", settings)
        elif victim == "master":
            words = ("--host", "127.0.0.1", "--port", str(cluster.port), "--webui-port", str(cluster.pages["master"]))
            name = "org.apache.spark.deploy.master.Master"
            cluster.start("master", settings, name, *words, awaited="New state: ALIVE")
            start_worker(cluster, "worker2", settings)

    return restart


def main() -> None:
    """Kill, and write what came of it to results/spark_kills.json."""
    python = Path(os.environ["SUDARE_SPARK_PYTHON"])
    each = int(sys.argv[1]) if sys.argv[1:] else 20
    seed = int(sys.argv[2]) if sys.argv[2:] else randbits(32)
    os.environ["SUDARE_CREDENTIALS_BENCHMARK"] = json.dumps({"secret": SECRET})
    load()
    source, outcomes, tries = Random(seed), list[Outcome](), 0
    left = [victim for _ in range(each) for victim in VICTIMS]
    with TemporaryDirectory() as name:
        while left:
            tries += 1
            outcome = kill_one(left[0], Path(name) / str(tries), python, source)
            print(outcome, flush=True)
            if outcome is not None:
                outcomes.append(outcome)
                left.pop(0)
    settings = settings_of(python) | {"master": "spark://, two workers of one core", "seed": seed}
    write("spark_kills", [*of_other_ways("cluster"), *rows_of("cluster", outcomes, settings)])


if __name__ == "__main__":
    main()
