"""Our generators, run as the peers are: codes and domain in, codes and a report out, in a process of its own.

    python -m benchmarks._synthetic_ours --method aim --data rows.parquet --domain domain.json --out made.parquet
        --seed 1 --epsilon 1 --delta 1e-9 --adjacency add_remove --options '{"degree": 2}'

Everything is the program's own: the rows are ingested under a contract, an account pays, and the generator reaches
the counts through the grant alone. As for the peers, the clock does not run while the rows are read and encoded: it
runs from the plan to the last sampled row. Noise comes from a seed, so that a run can be repeated; what such a grant
gives cannot be published.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pyarrow.parquet as parquet

from benchmarks._no_seed import no_seed
from benchmarks._synthetic_data import read_codes, write_codes
from benchmarks.results import installed
from contracts.contract.contract import Contract
from contracts.contract.odcs import load_contract
from contracts.periods.time_blocks import time_block
from contracts.release.spec import Source
from privacy.accounting.amounts import ATTO, PICO
from privacy.accounting.calculus import Calculus, PureCalculus, RenyiCalculus, best_order
from privacy.generators.calibration import generator
from privacy.generators.generator import Fitted, SynthesisTask
from privacy.grant.grant import Grant, open_grant
from privacy.learning.layout import row_layout
from privacy.ledger.ledger import Ledger
from privacy.ledger.terms import AccountTerms, ChargeRequest
from privacy.marginals.graph import CellDomain
from privacy.noise.random_bytes import SeededBytes
from privacy.private_table import PrivateTable, snapshot_mark
from privacy.snapshots import snapshot as counts_module
from privacy.snapshots.snapshot_source import SnapshotSource
from tasks.ingest import ingest

KEY: Final = bytes(range(32))
BLOCK: Final = "2024"
RUN: Final = "run-1"
SPEC: Final = "a" * 64
_CONTRACT: Final = """\
apiVersion: v3.1.0
kind: DataContract
id: benchmark
name: Benchmark
version: 1.0.0
status: active
description: {{purpose: benchmark, limitations: none, usage: benchmark}}
schema:
  - name: rows
    logicalType: object
    physicalType: table
    customProperties:
      - property: privacy
        value:
          unit: {{kind: row, scope: block}}
          adjacency: {adjacency}
          invariants: {invariants}
          structural_zeros: []
          gates: []
    properties:
{columns}
"""
_COLUMN: Final = """\
      - name: {name}
        logicalType: string
        customProperties:
          - property: domain
            value:
              kind: categories
              values: {values}
              nulls: {{policy: map, to: "0"}}
              provenance: {{kind: declared}}
"""
_NUMBER: Final = """\
      - name: {name}
        logicalType: integer
        customProperties:
          - property: domain
            value:
              kind: integer
              bounds: [0, {last}]
              bins: {{width: 1}}
              nulls: {{policy: map, to: 0}}
              provenance: {{kind: declared}}
"""


@dataclass(frozen=True)
class Wanted:
    """What is asked for.

    Args:
        method: name of the generator.
        options: its options.
        epsilon, delta: what the release may cost.
        adjacency: neighbour relation; replace_one declares the number of rows public.
        seed: of the noise and of the sampling.
    """

    method: str
    options: Mapping[str, Any]
    epsilon: Decimal
    delta: Decimal
    adjacency: str
    seed: int


def main() -> None:
    """Run one generator and report."""
    asked = _arguments()
    wanted = Wanted(asked.method, asked.options, asked.epsilon, asked.delta, asked.adjacency, asked.seed)
    domain: dict[str, int] = json.loads(asked.domain.read_text())
    with TemporaryDirectory() as folder:
        begun = time.perf_counter()
        contract, table, rows = _snapshot(Path(folder), asked.data, domain, wanted.adjacency, asked.numbers)
        reading = time.perf_counter() - begun
        before = resource.getrusage(resource.RUSAGE_SELF)
        with _timed_counts() as counting:
            begun = time.perf_counter()
            fitted = _fit(Path(folder), contract, table, wanted)
            made = fitted.model.sample(rows, seed=wanted.seed)
            seconds = time.perf_counter() - begun
    write_codes(asked.out, contract_columns(contract), made.astype("int64"))
    used = resource.getrusage(resource.RUSAGE_SELF)
    report: dict[str, Any] = {
        "seconds": round(seconds, 2),
        "cpu_seconds": round(used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime, 2),
        "peak_gigabytes": round(used.ru_maxrss * 1024 / 1e9, 2),
        "reading_seconds": round(reading, 2),
        "counting_seconds": round(sum(counting), 2),
        "versions": {package: installed(package) for package in ("sudare", "numpy", "duckdb")},
        "notes": list(fitted.notes),
        "draws": _draws(fitted),
    }
    if asked.steps:
        from benchmarks._synthetic_steps import step_errors

        report["steps"] = step_errors(read_codes(asked.data, tuple(domain)), fitted)
    print(json.dumps(report))


def contract_columns(contract: Contract) -> tuple[str, ...]:
    """Return the columns in the contract's order."""
    return tuple(column.name for column in contract.columns)


def _snapshot(
    folder: Path, data: Path, domain: Mapping[str, int], adjacency: str, numbers: Sequence[str]
) -> tuple[Contract, PrivateTable, int]:
    """Write the contract of the codes, of which some are numbers with a bin each, and ingest them."""
    rows = parquet.read_metadata(data).num_rows
    public = f'[{{kind: total, value: {rows}, reference: "benchmark"}}]'
    columns = "".join(
        _NUMBER.format(name=json.dumps(name), last=size - 1)
        if name in numbers
        else _COLUMN.format(name=json.dumps(name), values=json.dumps([str(code) for code in range(size)]))
        for name, size in domain.items()
    )
    invariants = public if adjacency == "replace_one" else "[]"
    path = folder / "contract.odcs.yaml"
    path.write_text(_CONTRACT.format(adjacency=adjacency, invariants=invariants, columns=columns))
    contract = load_contract(path)
    table = ingest(Source(path=data), contract, folder=folder / "run", key=KEY, memory_limit="1GB")
    return contract, table, rows


def _fit(folder: Path, contract: Contract, table: PrivateTable, wanted: Wanted) -> Fitted[Any]:
    """Reserve the plan's events, open the grant, and fit."""
    made = generator(wanted.method)
    options = made.options.model_validate(dict(wanted.options))
    asked = SynthesisTask(
        CellDomain.of(contract),
        {},
        contract.adjacency,
        contract.unit.max_rows_per_unit,
        Fraction(wanted.epsilon),
        Fraction(wanted.delta),
        contract.total.value if contract.total is not None else None,
        row_layout(contract),
    )
    plan = made.plan(asked, options)
    grant = _grant(folder, contract, table, plan.events, wanted)
    return made.fit(asked, options, plan, SnapshotSource(table, contract), grant, lambda done, what: None, no_seed)


def _grant(folder: Path, contract: Contract, table: PrivateTable, events: tuple[Any, ...], wanted: Wanted) -> Grant:
    """Open an account that pays, reserve, and open the grant."""
    epsilon, delta = int(wanted.epsilon * PICO), int(wanted.delta * ATTO)
    cap = 2 * epsilon + PICO
    calculus: Calculus = (
        RenyiCalculus(best_order(Fraction(wanted.epsilon), Fraction(wanted.delta))) if delta else PureCalculus()
    )
    ledger = Ledger(f"sqlite:///{folder / 'ledger.sqlite'}", draws=folder / "draws")
    ledger.open_account(AccountTerms("account", "people", BLOCK, "row", contract.adjacency, calculus, cap, delta))
    ledger.bind_source(table.source, "people", time_block(BLOCK))
    request = ChargeRequest(
        run_key=RUN,
        account="account",
        source=table.source,
        release="benchmark",
        spec_digest=SPEC,
        contract_digest=contract.digest,
        snapshot_hash=snapshot_mark(table.keyed_hash, SPEC),
        adjacency=contract.adjacency,
        unit="row",
        scope=contract.unit.scope,
        rows_per_unit=contract.unit.max_rows_per_unit,
        events=events,
        epsilon=epsilon,
        delta=delta,
    )
    ledger.reserve(request)
    return open_grant(ledger, RUN, seeded=SeededBytes(wanted.seed))


@contextmanager
def _timed_counts() -> Iterator[list[float]]:
    """Note how long every scan of the rows takes [s]."""
    module: Any = counts_module
    real: Callable[..., Any] = module.count_marginals
    took: list[float] = []

    def timed(*arguments: Any, **named: Any) -> Any:
        begun = time.perf_counter()
        try:
            return real(*arguments, **named)
        finally:
            took.append(time.perf_counter() - begun)

    module.count_marginals = timed
    try:
        yield took
    finally:
        module.count_marginals = real


def _draws(fitted: Fitted[Any]) -> list[dict[str, Any]]:
    """List what was drawn, in order."""
    draws: list[Any] = [*fitted.measurements, *fitted.selections]
    drawn = sorted(draws, key=lambda draw: draw.number)
    return [{"key": draw.key, "clique": list(draw.clique), "event": draw.event.to_json()} for draw in drawn]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="run one of our generators")
    parser.add_argument("--method", required=True)
    for name in ("data", "domain", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--epsilon", type=Decimal, required=True)
    parser.add_argument("--delta", type=Decimal, required=True)
    parser.add_argument("--adjacency", choices=("add_remove", "replace_one"), required=True)
    parser.add_argument("--options", type=json.loads, default={})
    parser.add_argument("--numbers", nargs="*", default=(), help="columns of numbers; the others are categories")
    parser.add_argument("--steps", action="store_true", help="estimate the model after every measurement once more")
    return parser.parse_args()


if __name__ == "__main__":
    main()
