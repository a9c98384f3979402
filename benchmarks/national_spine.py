"""Counts by place at the size of a nation: time, memory and verification; errors and intervals by level.

    python -m benchmarks.national_spine [--mesh japan2020_mesh500m_pop.parquet] [--blocks 600000] [--from-counts]

The mesh (row, col, population) may also be named by SUDARE_BENCHMARK_MESH; without it nothing is measured. Places,
sexes, citizenship and ages are made up (`_nation`): 126 million people in 600,000 blocks, 72 cells each. The release
is made of a row a person, by the steps of a run: rows taken in, counted, drawn by a grant with its ledger, refined,
written with record and page, published. Each of release and verification is a process of its own, whose largest
memory is given. With fewer blocks the tree is smaller in proportion; nothing is then compared with the targets of the
full size. With --from-counts the exact counts are there already: what it takes to read a row a person and to count
them is left out.

Errors are those of the published counts against the exact ones, and of two others made of the same draws:

- like TopDown: each level from its own measurements, under the counts of the level above;
- like BlueDown: least squares from below, under the counts of the level above.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from fractions import Fraction
from functools import partial
from itertools import pairwise
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks._nation import CELLS, LEVELS, SHARES, SIZES, write_nation
from benchmarks._spine_baselines import from_the_top, own_measurements
from benchmarks.results import Row, Setting, machine, write
from contracts.contract.contract import Contract
from contracts.periods.time_blocks import time_block
from flows.request import read_request
from privacy.accounting.amounts import ATTO, PICO
from privacy.accounting.calculus import RenyiCalculus
from privacy.grant.grant import open_grant
from privacy.ledger.journal.signing import Signer
from privacy.ledger.ledger import Ledger
from privacy.ledger.terms import AccountTerms
from privacy.marginals.counts import PrivateCounts
from privacy.private_table import PrivateTable, snapshot_mark
from privacy.refine.estimates import final_variances
from privacy.refine.place_counts import whole_counts
from privacy.refine.whole_counts import interval_ends, margin_deviations
from tasks.ingest import ingest
from tasks.products.charge_request import request_for
from tasks.products.product_kind import Making, making_of
from tasks.products.spine import making as spine_making
from tasks.products.spine.spine_intervals import published_spine
from tasks.publish import publish
from tasks.records.ledger_facts import gather
from tasks.records.private_record import AuditorRecords
from tasks.records.software import software
from tasks.report import report
from tasks.verify import check_staged, verify

MINUTES, GIGABYTES, CHECK_SECONDS, CHECK_GIGABYTES = 10.0, 8.0, 60.0, 4.0
MIDDLE: Final = ("city", "area")
UPPER: Final = ("nation", "region", "city")
CLASSES: Final = ((0, 0), (1, 9), (10, 99), (100, 999), (1000, 10**12))
FEWEST: Final = 1000
"""Cells of a size class whose share of intervals that hold is told by itself."""
SEED: Final = bytes(range(32))
COUNTED: Final = "counted"
"""A file that says that no row need be counted."""


class CountedPlaces:
    """Stands in for the counts of a snapshot: the exact counts are there already."""

    def __init__(self, table: PrivateTable, contract: Contract, *, exact: NDArray[np.int64], **_: Any) -> None:
        self._mark, self._exact = (table.keyed_hash, contract.digest), exact

    def marginal(self, clique: tuple[str, ...]) -> PrivateCounts:
        """Return the handle on the one marginal that is there."""
        return PrivateCounts(clique, self._exact.shape, *self._mark, lambda: self._exact)


def _clique(plan: Any) -> tuple[str, ...]:
    return (plan.draws[0].clique[0], *plan.columns)


def release(folder: Path) -> dict[str, float]:
    """Make and publish the release in a folder; seconds of each step, gigabytes."""
    begun = perf_counter()
    request = read_request(folder / "spec.yaml")
    spec, contract = request.spec, request.contract
    times = {"plan": perf_counter() - begun}
    ledger = Ledger(
        f"sqlite:///{folder / 'ledger.sqlite'}", draws=folder / "draws", clock=lambda: "2026-01-01T00:00:00Z"
    )
    calculus, cap = RenyiCalculus(Fraction(12)), (9 * PICO, ATTO // 10**9)
    ledger.open_account(AccountTerms("nation-2025", "people", "2025", "row", "replace_one", calculus, *cap))
    ledger.bind_source(spec.source.name, "people", time_block("2025"))
    begun = perf_counter()
    table = ingest(spec.source, contract, folder=folder / "run", key=bytes(32), memory_limit="2GB")
    times["ingest"] = perf_counter() - begun
    if (folder / COUNTED).exists():
        exact = np.load(folder / "exact.npy").astype(np.int64).reshape(contract.shape(_clique(request.plan)))
        stand_in = partial(CountedPlaces, exact=exact)
        spine_making.SnapshotCounts = stand_in  # type: ignore[attr-defined]
    mark = snapshot_mark(table.keyed_hash, spec.digest)
    ledger.reserve(request_for(spec, contract, request.plan, run_key="nation", snapshot_hash=mark))
    making: Any = Making(open_grant(ledger, "nation"), spec, request.plan, table, contract, folder / "run", "nation")
    made = None
    for step in making_of("spine").steps:
        begun = perf_counter()
        made = step.make(making, made)
        times[step.name] = perf_counter() - begun
    assert made is not None
    begun = perf_counter()
    facts = gather(ledger, spec, contract, request.plan, ledger.allocate_version("nation"), made, (), software())
    auditors = AuditorRecords(folder / "records", Signer(SEED))
    publish(
        ledger,
        Signer(SEED),
        "nation",
        folder / "releases",
        lambda staging, version: report(facts, folder=staging, auditors=auditors),
        check=check_staged,
    )
    times["publish"] = perf_counter() - begun
    return {**times, "cpu": process_time(), "gigabytes": getrusage(RUSAGE_SELF).ru_maxrss * 1024 / 1e9}


def check(folder: Path) -> dict[str, float]:
    """Verify the release; seconds, gigabytes, and whether all of it holds."""
    begun = perf_counter()
    found = verify(folder / "releases" / "nation" / "v1", public_key=Signer(SEED).public_key)
    seconds, memory = perf_counter() - begun, getrusage(RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    for finding in found.findings:
        sys.stderr.write(f"{finding}\n")
    return {"seconds": seconds, "cpu": process_time(), "gigabytes": memory, "holds": float(found.ok)}


def exact_levels(folder: Path) -> list[NDArray[np.int64]]:
    """Return the exact counts of all levels, (places, cells)."""
    smallest, parents = np.load(folder / "exact.npy"), np.load(folder / "parents.npz")
    levels = [smallest.astype(np.int64)]
    for name in reversed(parents.files):
        starts = np.flatnonzero(np.diff(parents[name], prepend=-1))
        levels.insert(0, np.add.reduceat(levels[0], starts, axis=0))
    return levels


def errors(folder: Path) -> dict[str, dict[str, Any]]:
    """Compare counts and intervals of each level with the exact ones, and with the two baselines."""
    version, exact = published_spine(folder / "releases" / "nation" / "v1"), exact_levels(folder)
    measured, total = version.estimate.measured, version.plan.public_total
    nobody = [np.zeros((1, CELLS), dtype=np.bool_)] * len(LEVELS)
    spreads, found = final_variances(version.estimate), {}
    alone = {draw.level: draw.half_width for draw in version.plan.draws if draw.table == "detail"}
    for level, counts, values in whole_counts(version.estimate, total=total, impossible=nobody):
        deviations = margin_deviations(spreads[level], measured.shape, (True, True, True))[:, None]
        lower, upper = interval_ends(values, deviations, counts)
        truth = exact[level]
        holds = (lower <= truth) & (truth <= upper)
        classes = {f"{low} to {high}": (truth >= low) & (truth <= high) for low, high in CLASSES}
        shares = {name: float(holds[inside].mean()) for name, inside in classes.items() if inside.sum() >= FEWEST}
        found[LEVELS[level]] = {
            "rmse": _rmse(counts, truth),
            "holds": float(holds.mean()),
            "by_class": shares,
            "length": float((upper - lower).mean()) / (2 * alone[LEVELS[level]]),
        }
    everything = [values.reshape(-1, *measured.shape) for values in version.estimate.upward]
    for name, start in (
        ("topdown", own_measurements(measured)),
        ("bluedown", (everything, version.estimate.variances)),
    ):
        for level, counts in enumerate(from_the_top(measured, *start, total=total)):
            found[LEVELS[level]][name] = _rmse(counts, exact[level])
    return found


def _rmse(counts: NDArray[np.int64], exact: NDArray[np.int64]) -> float:
    return float(np.sqrt(np.mean((counts - exact) ** 2)))


def _apart(step: str, folder: Path) -> dict[str, Any]:
    """Run one step in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.national_spine", step, str(folder)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def rows(
    made: dict[str, float], checked: dict[str, float], told: dict[str, Any], base: dict[str, Setting]
) -> list[Row]:
    """Return the rows of the table; targets only at full size."""
    full = base["blocks"] == SIZES[-1]
    minutes = sum(made[step] for step in ("plan", "ingest", "measure", "refine", "publish")) / 60
    steps = {f"{name} [s]": round(seconds, 1) for name, seconds in made.items() if name != "gigabytes"}
    limits = [
        ("release", minutes, "min", MINUTES, {**base, **steps}),
        ("release, largest memory", made["gigabytes"], "GB", GIGABYTES, base),
        ("verify", checked["seconds"], "s", CHECK_SECONDS, {**base, "cpu [s]": round(checked["cpu"], 1)}),
        ("verify, largest memory", checked["gigabytes"], "GB", CHECK_GIGABYTES, base),
    ]
    for level, each in told.items():
        beside: dict[str, Setting] = {**base, "rmse": round(each["rmse"], 4)}
        for name in ("topdown", "bluedown"):
            most = (0.8 if level in MIDDLE else 1.0) if name == "topdown" else None
            limits.append((f"{level}: RMSE over that like {name}", each["rmse"] / each[name], "ratio", most, beside))
        worst = min([each["holds"], *each["by_class"].values()])
        limits.append(
            (f"{level}: 95 % intervals that hold, worst size class", 100 * worst, "%", 95.0, each["by_class"])
        )
        most = 0.7 if level in UPPER else None
        limits.append((f"{level}: length of intervals over a draw's own", each["length"], "ratio", most, base))
    made_rows = []
    for what, value, unit, most, settings in limits:
        target = most if full else None
        met = None if target is None else (value >= target if unit == "%" else value <= target)
        made_rows.append(Row(what, float(f"{value:.4g}"), unit, target, met, settings=dict(settings)))
    return made_rows


def main() -> None:
    """Measure, print and write the table."""
    named = os.environ.get("SUDARE_BENCHMARK_MESH")
    parser = argparse.ArgumentParser()
    parser.add_argument("--mesh", type=Path, default=Path(named) if named else None)
    parser.add_argument("--blocks", type=int, default=SIZES[-1])
    parser.add_argument("--from-counts", action="store_true")
    asked = parser.parse_args()
    mesh, blocks, counted = asked.mesh, asked.blocks, asked.from_counts
    if mesh is None:
        print("nothing is measured: no --mesh and no SUDARE_BENCHMARK_MESH")
        return
    sizes = (*SIZES[:2], *(max(64, size * blocks // SIZES[-1]) for size in SIZES[2:]))
    sizes = sizes if all(above <= below for above, below in pairwise(sizes)) else SIZES
    with TemporaryDirectory() as place:
        folder = Path(place)
        write_nation(folder, mesh, sizes, rows=not counted)
        if counted:
            (folder / COUNTED).touch()
        base = {**machine("numpy", "pyarrow", "duckdb"), "blocks": blocks, "cells": blocks * CELLS, "shares": SHARES}
        base |= {"from": "exact counts" if counted else "a row a person"}
        made, checked = _apart("release", folder), _apart("check", folder)
        assert checked["holds"] == 1.0, "the release does not verify"
        write("national_spine", rows(made, checked, _apart("errors", folder), base))


if __name__ == "__main__":
    steps = {"release": release, "check": check, "errors": errors}
    if sys.argv[1:2] and sys.argv[1] in steps:
        sys.stdout.write(json.dumps(steps[sys.argv[1]](Path(sys.argv[2]))))
    else:
        main()
