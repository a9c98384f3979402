"""Scheduled releases on several workers that are killed at random.

A Prefect server and a ledger, both on PostgreSQL, twenty months of one table, each with its account and a run
in the queue of a deployment. Four processes of `sudare work` take them. At random instants one of them is killed
(SIGKILL): with the run that it was at, without it, or the run alone; workers that were killed are started again, as
a container engine would. At the end it must hold:
    every month is published exactly once, as version 1, and verifies; every account lost exactly what one release
    costs; nothing was drawn twice; the ledger verifies.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from random import Random
from secrets import randbits
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Final
from urllib.error import URLError
from urllib.request import urlopen

from benchmarks._kill_places import new_database
from benchmarks._periodic_place import SPEC, Periodic, make_periodic
from benchmarks.orchestration import SUDARE
from benchmarks.results import Row, machine, write
from contracts.periods.period import Period, read_periods
from deploy.postgres_server import free_port, postgres_server
from privacy.accounting.amounts import PICO
from tasks.verify import verify

MONTHS: Final = "2024-01..2025-08"
WORKERS: Final = 4
KILLS: Final = 16
BETWEEN: Final = (4.0, 16.0)  # seconds between two kills
PATIENCE: Final = 2400.0
WAYS: Final = ("worker and run", "worker alone", "run alone")


def main() -> None:
    """Run it and write results/platform_schedule.json; the seed is the first argument, or random."""
    seed = int(sys.argv[1]) if sys.argv[1:] else randbits(32)
    print(f"seed {seed}")
    with TemporaryDirectory() as name, postgres_server("sudare", "secret", Path(name) / "postgres.log") as port:
        server = f"postgresql://sudare:secret@127.0.0.1:{port}/postgres?connect_timeout=10"
        place = _place(Path(name), new_database(server, "ledger"))
        with _prefect(Path(name), new_database(server, "prefect")) as url:
            began = monotonic()
            kills = _release_all(place, url, Random(seed))
            seconds = monotonic() - began
        wrong = list(_wrong(place))
    for each in wrong:
        print(each)
    months = read_periods(MONTHS, "month")
    settings = machine("prefect", "sqlalchemy", "psycopg", "asyncpg") | {
        "seed": seed,
        "workers": WORKERS,
        "seconds": round(seconds),
        "killed": dict(kills),
    }
    rows = [
        Row(
            "scheduled months, workers killed: something did not hold", len(wrong), f"of {len(months)}", 0, not wrong
        ),
        Row("kills that hit a run", _that_hit(kills), "kills", KILLS, _that_hit(kills) >= KILLS),
    ]
    write("platform_schedule", [Row(**{**vars(row), "settings": settings}) for row in rows])


def _place(folder: Path, ledger_url: str) -> Periodic:
    """Make the workspace, and rows of every month, of each another number."""
    spec = SPEC.replace("period: quarter", "period: month")
    place = make_periodic(folder / "visits", ledger_url=ledger_url, spec=spec, periods=MONTHS, length="month")
    rows = [
        f"{'abc'[number % 3]},{month.first.replace(day=number % 28 + 1)}"
        for place_of, month in enumerate(read_periods(MONTHS, "month"))
        for number in range(30 + place_of)
    ]
    (place.folder / "visits.csv").write_text("\n".join(["ward,day", *rows]) + "\n")
    return place


@contextmanager
def _prefect(folder: Path, database_url: str) -> Iterator[str]:
    """Run a Prefect server on PostgreSQL inside the block."""
    port = free_port()
    own = {
        "PREFECT_HOME": str(folder / "server"),
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": database_url.replace(
            "postgresql://", "postgresql+asyncpg://"
        ).partition("?")[0],
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
    }
    words = [sys.executable, "-m", "prefect", "--no-prompt", "server", "start", "--host", "127.0.0.1", "--no-ui"]
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen([*words, "--port", str(port)], env=_environment(own), stdout=log, stderr=log)
    try:
        _await(f"http://127.0.0.1:{port}/api/health", server, folder / "server.log")
        yield f"http://127.0.0.1:{port}/api"
    finally:
        server.terminate()
        with suppress(subprocess.TimeoutExpired):
            server.wait(timeout=20)
        server.kill()
        server.wait()


def _environment(own: dict[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "SUDARE_"))}
    return {**kept, "OMP_NUM_THREADS": "1", **own}


def _await(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(600):
        with suppress(URLError, OSError):
            urlopen(url, timeout=5).close()
            return
        if server.poll() is not None:
            break
        sleep(0.5)
    raise RuntimeError(f"the Prefect server did not start: {log.read_text()[-2000:]}")


def _release_all(place: Periodic, url: str, source: Random) -> Counter[str]:
    """Queue all months, work and kill until all are published; return the kills by kind."""
    own = _environment({"PREFECT_API_URL": url, "PREFECT_WORKER_QUERY_SECONDS": "2"})
    at = ["--workspace", str(place.workspace.root)]
    deploy = [*SUDARE, "deploy", str(place.spec), "--cron", "0 6 2 * *", "--backfill", MONTHS, *at]
    subprocess.run(deploy, env=own, check=True, capture_output=True)
    workers = [_worker(number, own, at, place.folder) for number in range(WORKERS)]
    kills: Counter[str] = Counter()
    began = monotonic()
    try:
        while len(_published(place)) < len(read_periods(MONTHS, "month")):
            if monotonic() - began > PATIENCE:
                print("not all were published in time")
                break
            sleep(source.uniform(*BETWEEN))
            if _that_hit(kills) < KILLS:
                number = source.randrange(WORKERS)
                kills[_kill(workers[number], source.choice(WAYS))] += 1
                print(f"{monotonic() - began:5.0f} s: {dict(kills)}, {len(_published(place))} published", flush=True)
            workers = [
                each if each.poll() is None else _worker(number, own, at, place.folder)
                for number, each in enumerate(workers)
            ]
    finally:
        for each in workers:
            _kill(each, WAYS[0])
    return kills


def _that_hit(kills: Counter[str]) -> int:
    """Return how many kills hit a worker with a run, or a run."""
    return sum(kills[way] for way in WAYS)


def _worker(number: int, environment: dict[str, str], at: list[str], folder: Path) -> subprocess.Popen[bytes]:
    words = [*SUDARE, "work", "--name", f"worker-{number}", "--every", "5", "--grace", "90", *at]
    with (folder / f"worker-{number}.log").open("ab") as log:
        return subprocess.Popen(words, env=environment, stdout=log, stderr=log, start_new_session=True)


def _kill(worker: subprocess.Popen[bytes], way: str) -> str:
    """Kill a worker, or its run, or both, and return what was killed; a run that is not there cannot be."""
    runs = list(_below(worker.pid))
    wanted = [*([worker.pid] if way != WAYS[2] else []), *(runs if way != WAYS[1] else [])]
    for process in wanted:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    if way != WAYS[2]:
        worker.wait()
    if not wanted:
        return "nothing"
    return way if runs else "idle worker"


def _below(process: int) -> Iterator[int]:
    """Yield the processes that a process started, and theirs."""
    with suppress(OSError):
        for task in Path(f"/proc/{process}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield int(child)
                yield from _below(int(child))


def _published(place: Periodic) -> list[str]:
    with closing(place.ledger()) as ledger:
        return [version.release for version in ledger.versions() if version.status == "published"]


def _wrong(place: Periodic) -> Iterator[str]:
    """Yield what does not hold at the end."""
    key = place.workspace.public_key_file.read_text().strip()
    with closing(place.ledger()) as ledger:
        versions, accounts, entries = ledger.versions(), ledger.accounts(), ledger.journal()
        yield from (f"ledger: {finding}" for finding in ledger.verify(public_key=key))
    for month in read_periods(MONTHS, "month"):
        yield from _wrong_of(month, place, [(each.release, each.number, each.status) for each in versions], key)
    yield from (f"{each.terms.name} lost {each.spent}" for each in accounts if each.spent != PICO)
    drawn = Counter((entry.body["run_key"], entry.body["key"]) for entry in entries if entry.kind == "noise_drawn")
    yield from (f"{each} was drawn {times} times" for each, times in drawn.items() if times > 1)
    reserved = sum(entry.kind == "charge_reserved" for entry in entries)
    if reserved != len(accounts):
        yield f"{reserved} charges for {len(accounts)} months"


def _wrong_of(month: Period, place: Periodic, versions: list[tuple[str, int, str]], key: str) -> Iterator[str]:
    release = f"visits-{month.slug}"
    mine = [each for each in versions if each[0] == release]
    if mine != [(release, 1, "published")]:
        yield f"{release}: {mine}"
    folders = sorted(path.name for path in place.workspace.releases.glob(f"{release}/v*"))
    if folders != ["v1"] or not verify(place.workspace.releases / release / "v1", public_key=key).ok:
        yield f"{release}: {folders}, or it does not verify"


if __name__ == "__main__":
    main()
