"""Workloads of national statistics: how far expected errors are over the least, and how long wide ones take.

    python -m benchmarks.national

The least sum of variances is computed here again, by subsets and floats, from the closed form of ResidualPlanner
(Xiao, He, Zhang, Kifer 2023): over all sets A of columns, (Σ √(p c))² / (2 ρ), p = Π (1 - 1/n), c the sum over the
tables that hold A of  n cells · p · Π_{the others} 1/n². The plans are those of `split: residuals` under add_remove;
beside them stands `split: optimal`. Adult has the cells of `examples/adult`; its nine columns are the categories.
120 binary columns are made up: the tables are planned, drawn by a grant with its ledger from 50,000 rows in a
snapshot, and made of what was drawn; a process of its own does that, whose largest memory is given.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from fractions import Fraction
from itertools import combinations
from math import prod, sqrt
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final

import numpy as np
import polars as pl

from benchmarks.results import Row, Setting, machine, write
from contracts.contract.contract import Contract
from contracts.contract.odcs import load_contract
from contracts.periods.time_blocks import time_block
from contracts.release.spec import ReleaseSpec, load_spec
from contracts.release.tables.tables import tables_of
from privacy.accounting.amounts import ATTO, PICO
from privacy.accounting.calculus import RenyiCalculus
from privacy.grant.grant import open_grant
from privacy.ledger.ledger import Ledger
from privacy.ledger.terms import AccountTerms
from privacy.private_table import snapshot_mark
from privacy.table_plans.plan import TablesPlan, plan_tables
from tasks.ingest import ingest
from tasks.products.charge_request import request_for
from tasks.products.tables.table_measurement import measure

MOST: Final = 1.01
PLANNING_SECONDS, MEASURING_SECONDS, GIGABYTES = 5.0, 60.0, 2.0
ROWS, COLUMNS = 50_000, 120
ADULT: Final = Path(__file__).parents[1] / "examples" / "adult"
NINE: Final = (
    *("workclass", "education", "marital-status", "occupation", "relationship"),
    *("race", "sex", "native-country", "income"),
)
SPEC: Final = """\
release: national
contract: contract.odcs.yaml
source: {{path: rows.parquet}}
charge: {{account: people, epsilon: 1, delta: 1e-9}}
product: {{kind: tables, mechanism: gaussian, split: {split}, tables: [{tables}]}}
publish: {{to: releases, formats: [parquet]}}
"""
COLUMN: Final = """\
      - name: {name}
        logicalType: integer
        customProperties:
          - property: domain
            value: {{kind: integer, bounds: [0, 1], bins: {{width: 1}}, nulls: {{policy: map, to: 0}},
              provenance: {{kind: declared}}}}
"""
CONTRACT: Final = """\
apiVersion: v3.1.0
kind: DataContract
id: wide
name: Wide
version: 1.0.0
status: active
schema:
  - name: rows
    logicalType: object
    physicalType: table
    customProperties:
      - property: privacy
        value: {unit: {kind: row, scope: block}, adjacency: add_remove, invariants: [], gates: []}
    properties:
"""


def main() -> None:
    """Measure, and write results/national.json; with a folder, measure the wide tables in it and print what came."""
    if len(sys.argv) > 1:
        print(json.dumps(wide(Path(sys.argv[1]))))
        return
    base: dict[str, Setting] = machine("numpy", "duckdb")
    adult = load_contract(ADULT / "adult.odcs.yaml")
    rows = []
    with TemporaryDirectory() as place:
        folder = Path(place)
        for name, columns in (("9", NINE), ("14", _without(adult, "fnlwgt"))):
            for ways in ((2,), (1, 2, 3)):
                found = {split: planned(folder, adult, columns, ways, split) for split in ("residuals", "optimal")}
                rows.append(_ratio(f"Adult, {name} columns, {_all(ways)}", found, base))
        write_wide(folder)
        command = [sys.executable, "-m", "benchmarks.national", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows += _wide_rows(json.loads(done.stdout.splitlines()[-1]), base)
    write("national", rows)


def _without(contract: Contract, name: str) -> tuple[str, ...]:
    return tuple(column.name for column in contract.columns if column.name != name)


def _all(ways: Iterable[int]) -> str:
    return "all " + " and ".join(f"{each}-way" for each in ways) + " tables"


def planned(folder: Path, contract: Contract, columns: tuple[str, ...], ways: tuple[int, ...], split: str) -> float:
    """Return the expected sum of all cells' squared errors of a plan, over the least that is computed here."""
    spec = _spec(folder, columns, ways, split)
    plan = plan_tables(spec, contract)
    sizes = {name: contract.shape((name,))[0] for name in columns}
    tables = [table.columns for table in tables_of(spec.tables_product, contract)]
    return errors(plan) / least(sizes, tables, _rho(plan))


def errors(plan: TablesPlan) -> float:
    """Add up the variance of every cell of every table, rounded counts as they are published."""
    return sum(draw.cells * draw.variance for draw in plan.measured if draw.clique)


def _rho(plan: TablesPlan) -> float:
    """What all draws cost, from their events."""
    costs = (Fraction(sum(m * m for m in e.moves)) / (2 * e.sigma_squared) for e in plan.events)  # type: ignore[union-attr]
    return float(sum(costs, Fraction(0)))


def least(sizes: dict[str, int], tables: Iterable[tuple[str, ...]], rho: float) -> float:
    """Return the least sum of variances under add_remove, from the closed form."""
    weight: dict[frozenset[str], float] = defaultdict(float)
    for table in tables:
        cells = prod(sizes[name] for name in table)
        for size in range(len(table) + 1):
            for chosen in combinations(table, size):
                own = prod(1 - 1 / sizes[name] for name in chosen)
                weight[frozenset(chosen)] += cells * own / prod(sizes[n] ** 2 for n in table if n not in chosen)
    total = sum(sqrt(c * prod(1 - 1 / sizes[name] for name in chosen)) for chosen, c in weight.items())
    return total**2 / (2 * rho)


def _spec(folder: Path, columns: Iterable[str], ways: Iterable[int], split: str) -> ReleaseSpec:
    named = ", ".join(columns)
    path = folder / f"{split}.yaml"
    path.write_text(SPEC.format(split=split, tables=", ".join(f"{{all: {each}, of: [{named}]}}" for each in ways)))
    return load_spec(path)


def _ratio(what: str, found: dict[str, float], base: dict[str, Setting]) -> Row:
    ratio = float(f"{found['residuals']:.7g}")
    settings: dict[str, Setting] = {**base, "split optimal": float(f"{found['optimal']:.4g}")}
    return Row(f"{what}: sum of variances over the least", ratio, "ratio", MOST, ratio <= MOST, settings=settings)


def write_wide(folder: Path) -> None:
    """Write contract and rows of 120 binary columns that depend on each other."""
    source = np.random.default_rng(11)
    hidden = source.random((ROWS, 1))
    bits = (source.random((ROWS, COLUMNS)) < 0.2 + 0.6 * hidden).astype(np.int8)
    names = [f"x{number:03d}" for number in range(COLUMNS)]
    pl.DataFrame(bits, schema=names).write_parquet(folder / "rows.parquet")
    (folder / "contract.odcs.yaml").write_text(CONTRACT + "".join(COLUMN.format(name=name) for name in names))


def wide(folder: Path) -> dict[str, float]:
    """Plan, draw and make all pairs of the binary columns; seconds, gigabytes, and the error over the least."""
    contract = load_contract(folder / "contract.odcs.yaml")
    names = [column.name for column in contract.columns]
    spec = _spec(folder, names, (2,), "residuals")
    begun = perf_counter()
    plan = plan_tables(spec, contract)
    planning = perf_counter() - begun
    over = errors(plan) / least(dict.fromkeys(names, 2), combinations(names, 2), _rho(plan))
    table = ingest(spec.source, contract, folder=folder / "run", key=bytes(32), memory_limit="1GB")
    books = f"sqlite:///{folder / 'ledger.sqlite'}"
    ledger = Ledger(books, draws=folder / "draws", clock=lambda: "2026-01-01T00:00:00Z")
    calculus = RenyiCalculus(Fraction(16))
    ledger.open_account(
        AccountTerms("people", "everybody", "2024", "row", "add_remove", calculus, 9 * PICO, ATTO // 10**8)
    )
    ledger.bind_source(spec.source.name, "everybody", time_block("2024"))
    mark = snapshot_mark(table.keyed_hash, spec.digest)
    ledger.reserve(request_for(spec, contract, plan, run_key="wide", snapshot_hash=mark))
    begun = perf_counter()
    drawn = measure(open_grant(ledger, "wide"), plan, table, contract)
    seconds = perf_counter() - begun
    return {
        "tables": len(drawn) - 2,
        "planning": planning,
        "measuring": seconds,
        "gigabytes": getrusage(RUSAGE_SELF).ru_maxrss * 1024 / 1e9,
        "over": over,
    }


def _wide_rows(found: dict[str, float], base: dict[str, Setting]) -> list[Row]:
    what, settings = f"{int(found['tables']):,} pairs of {COLUMNS} binary columns", {**base, "rows": ROWS}
    limits = (
        ("sum of variances over the least", "over", "ratio", MOST),
        ("planning", "planning", "s", PLANNING_SECONDS),
        ("measuring and making the tables", "measuring", "s", MEASURING_SECONDS),
        ("largest memory", "gigabytes", "GB", GIGABYTES),
    )
    return [
        Row(f"{what}: {name}", float(f"{found[key]:.6g}"), unit, most, found[key] <= most, settings=dict(settings))
        for name, key, unit, most in limits
    ]


if __name__ == "__main__":
    main()
