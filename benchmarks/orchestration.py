"""What Prefect adds to a release: whole processes with the flow, against the same steps as plain functions.

Each way makes a release of its own of the Adult example, one after another and round after round, so that all meet
the same load. `sudare run` is timed with a server of its own and against one that runs already; what it adds is the
median of the differences from the plain functions of the same round.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final

from benchmarks.results import Row, machine, write
from console.main import exit_with
from tasks.storage.workspace.settings import Workspace

ROUNDS: Final = 7
RUNNING_TARGET: Final = 2.0
EMBEDDED_TARGET: Final = 5.0
ADULT: Final = Path(__file__).parents[1] / "examples" / "adult"
SUDARE: Final = (sys.executable, "-c", "from console.main import main; main()")
WAYS: Final = ("plain", "running", "embedded")


def main() -> None:
    """Measure the three ways and write results/orchestration.json."""
    if sys.argv[1:2] == ["plain"]:
        exit_with(lambda: release_plainly(Path(sys.argv[2]), Path(sys.argv[3])))
    with TemporaryDirectory() as folder:
        spent = _measure(Path(folder))
    settings = machine("prefect", "great-expectations", "duckdb")
    settings |= {"rounds": ROUNDS, "statistic": "median of whole processes", "spec": "examples/adult/tables.yaml"}
    settings |= {"niceness": os.getpriority(os.PRIO_PROCESS, 0)}
    rows = []
    for clock, of_clock in (("seconds", 0), ("CPU seconds", 1)):
        plain = [round_[of_clock] for round_ in spent["plain"]]
        rows.append(Row(f"the steps as plain functions, {clock}", round(median(plain), 2), "s", settings=settings))
        for way, most in (("running", RUNNING_TARGET), ("embedded", EMBEDDED_TARGET)):
            added = median(round_[of_clock] - base for round_, base in zip(spent[way], plain, strict=True))
            what = f"sudare run over the plain functions, {_WORDS[way]}, {clock}"
            target, holds = (most, added <= most) if of_clock == 0 else (None, None)
            rows.append(Row(what, round(added, 2), "s", target=target, holds=holds, settings=settings))
    write("orchestration", rows)


_WORDS: Final = {"running": "against a running Prefect server", "embedded": "with a Prefect server of its own"}


def release_plainly(
    spec: Path, root: Path, *, period: str | None = None, supersede: bool = False, due: str | None = None
) -> int:
    """Make one release with the functions that the flow's tasks wrap, in the flow's order, without Prefect."""
    from flows.prepare import intake
    from flows.request import as_charged, read_request
    from privacy.ledger.terms import VersionEntry
    from tasks.charge import charge
    from tasks.products.approvals import approved
    from tasks.products.charge_request import run_key
    from tasks.products.product_kind import Making, making_of
    from tasks.publish import probe_store, publish
    from tasks.records.ledger_facts import gather
    from tasks.records.private_record import AuditorRecords
    from tasks.records.software import software
    from tasks.report import report
    from tasks.storage.workspace.run_folder import COMPLETE, hold, run_name
    from tasks.validate import validate
    from tasks.verify import check_staged

    workspace = Workspace.open(root)
    request = read_request(spec, workspace, period, due)
    name = run_name(request.spec.release, request.spec.run_digest)
    with hold(workspace.runs, name, keep_snapshot=False) as run, closing(workspace.open_ledger()) as ledger:
        table = intake(run, request, workspace, supersede=supersede)
        key = run_key(request.spec, request.contract, table)
        with run.charge_seen(ledger, key):
            request = as_charged(request, ledger.charge(key))
            spec_, contract, plan = request.spec, request.contract, request.plan
            outcomes = validate(table, contract, folder=run.path, memory_limit=workspace.memory_limit)
            probe_store(request.store(workspace), spec_.release)
            grant = charge(ledger, spec_, contract, plan, table)
            making, made = Making(grant, spec_, plan, table, contract, run.path, key), None
            for step in making_of(spec_.product.kind).steps:
                made = step.make(making, made)

            signer = workspace.signer()

            def write_files(folder: Path, version: VersionEntry) -> None:
                facts = gather(ledger, spec_, contract, plan, version, made, outcomes, software())
                facts = replace(facts, approvals=approved(spec_, contract, plan))
                report(facts, folder=folder, auditors=AuditorRecords(workspace.records, signer))

            publish(ledger, signer, key, request.store(workspace), write_files, check=check_staged)
        run.charge = COMPLETE
    return 0


def _measure(folder: Path) -> dict[str, list[tuple[float, float]]]:
    """Return the seconds and CPU seconds of each round, by way."""
    from flows.prefect_runs.server import prefect_server

    shutil.copytree(ADULT, folder / "adult")
    _run([*SUDARE, "init", str(folder / "w")], {})
    opened = "budget open adult-1994 --population adults --block 1994 --unit row --epsilon 100 --calculus pure"
    source = ["--source", str(folder / "adult" / "adult.parquet")]
    at = ["--workspace", str(folder / "w")]
    _run([*SUDARE, *opened.split(), "--adjacency", "add_remove", *source, *at], {})
    spent: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    other = Workspace.create(folder / "server")
    with prefect_server(other) as server:
        server.wait()
        running = {"PREFECT_API_URL": server.api_url, "PREFECT_API_AUTH_STRING": server.auth or ""}
        for number in range(-1, ROUNDS):
            for way in WAYS:
                spec = _spec(folder, f"{way}-{number + 1}")
                command = [sys.executable, "-m", "benchmarks.orchestration", "plain", str(spec), str(folder / "w")]
                if way != "plain":
                    command = [*SUDARE, "run", str(spec), *at]
                taken = _run(command, running if way == "running" else {})
                if number >= 0:  # the round before warms the disk
                    spent[way].append(taken)
    return spent


def _spec(folder: Path, release: str) -> Path:
    """Write the example's spec under another name, at a small cost."""
    text = (ADULT / "tables.yaml").read_text(encoding="utf-8")
    text = text.replace("release: adult-tables", f"release: {release}").replace("epsilon: 1.0", "epsilon: 0.1")
    path = folder / "adult" / f"{release}.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def _run(command: list[str], extra: dict[str, str]) -> tuple[float, float]:
    """Run a command to its end; return its seconds, and the CPU seconds of it and of the server that it waits for."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    began, before = perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env={**own, **extra}, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return perf_counter() - began, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
