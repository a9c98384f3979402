"""Finished runs of statistics, for the tests: the real contract, plan, ledger, ingest, grant and tables."""

from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl

from contracts.contract.contract import Contract, checks
from contracts.release.spec import ReleaseSpec
from privacy.accounting.amounts import ATTO, PICO
from privacy.accounting.calculus import Calculus, PureCalculus, RenyiCalculus
from privacy.grant.grant import open_grant
from privacy.noise.random_bytes import SeededBytes
from privacy.private_table import PrivateTable, snapshot_mark
from privacy.statistics.plan import StatisticsPlan
from tasks.ingest import ingest
from tasks.products.charge_request import request_for
from tasks.products.product_kind import Making, making_of
from tasks.records.facts import CheckOutcome, RunFacts
from tasks.records.ledger_facts import gather
from tests.tasks.intake import KEY
from tests.worlds.synthetic_rows import SyntheticScenario
from tests.worlds.tables import first

TABLES = """[
  {by: [ward], of: [count, {mean: age}], weight: 2},
  {by: [ward, age], name: bills, of: [{sum: bill, clip: [0, 500], step: 2.5}, {mean: bill}, count]},
  {by: [], of: [count, {mean: bill}, {sum: age, clip: [18, 90], step: 4}]},
  {by: [insured, floor], name: how many, of: [count]}]"""


@dataclass
class StatisticsScenario(SyntheticScenario):
    """What a finished run of statistics is made from: the hospital's stays, whose bills and ages are added up."""

    privacy: str = "{unit: {kind: row, scope: block}, adjacency: add_remove, ZEROS}"
    product: str = f"{{kind: statistics, mechanism: laplace, tables: {TABLES}}}"
    delta: str = "0"
    calculus: Calculus = field(default_factory=PureCalculus)
    cap: tuple[int, int] = (20 * PICO, 0)
    rows: int = 2000
    release: str = "costs"
    plan_type: ClassVar[type] = StatisticsPlan

    def run(self, folder: Path) -> RunFacts:
        """Make the run for real: plan, ingest, reserve, open, draw, refine, number the version, gather."""
        spec, contract, plan, ledger = self.prepared_of(folder, self.plan_type)
        table = self.taken(folder, spec, contract)
        key = self.run_key(spec)
        ledger.reserve(
            request_for(spec, contract, plan, run_key=key, snapshot_hash=snapshot_mark(table.keyed_hash, spec.digest))
        )
        grant = open_grant(ledger, key, seeded=SeededBytes(7) if self.seeded else None)
        making, made = Making(grant, spec, plan, table, contract, folder / "private", key), None
        for step in making_of(spec.product.kind).steps:
            made = step.make(making, made)
        assert made is not None
        version = ledger.allocate_version(key)
        outcomes = tuple(CheckOutcome(check.name, True, check.gate) for check in checks(contract))
        facts = gather(ledger, spec, contract, plan, version, made, outcomes, first().software)
        ledger.close()
        return facts

    def planned(self, folder: Path) -> tuple[ReleaseSpec, Contract, Any]:
        """Plan, and leave nothing open."""
        spec, contract, plan, ledger = self.prepared_of(folder, self.plan_type)
        ledger.close()
        return spec, contract, plan

    def snapshot(self, folder: Path) -> tuple[Contract, Any, PrivateTable]:
        spec, contract, plan = self.planned(folder)
        return contract, plan, self.taken(folder, spec, contract)

    def taken(self, folder: Path, spec: ReleaseSpec, contract: Contract) -> PrivateTable:
        """Write made-up rows and take them in."""
        self.frame().select(contract.source_columns).write_parquet(folder / "stays.parquet")
        lattices = spec.product.lattices(contract)
        return ingest(
            spec.source, contract, folder=folder / "private", key=KEY, memory_limit="256MB", lattices=lattices
        )

    def frame(self) -> pl.DataFrame:
        """Make up stays: ages and bills within and outside their bounds, some missing; patients with many stays."""
        random = np.random.default_rng(self.rows)
        size = self.rows
        age = random.integers(-3, 110, size)
        missing = random.random(size) < 0.1
        return pl.DataFrame(
            {
                "patient": random.integers(0, max(1, size // 3), size).astype(str),
                "age": [None if gone else int(value) for gone, value in zip(missing, age, strict=True)],
                "arrived": ["2024-02-03"] * size,
                "left": ["2024-03-04"] * size,
                "ward": random.choice(["surgery", "children", 'x, "y"', "nowhere"], size),
                "floor": random.choice([1, 2, 3], size),
                "bill": np.where(missing[::-1], np.nan, random.exponential(200, size).round(3)),
                "insured": random.random(size) < 0.7,
                "one": ["only"] * size,
            }
        )


def pure() -> StatisticsScenario:
    """Laplace noise; four tables with structural zeros, of all rows, and of counts alone; Parquet and CSV."""
    return StatisticsScenario()


def gaussian() -> StatisticsScenario:
    """Gaussian noise under a Rényi account, replace_one and three rows a unit; Parquet in parts."""
    return replace(
        pure(),
        privacy="{unit: {kind: id, scope: block, column: patient, max_rows_per_unit: 3}, adjacency: replace_one}",
        unit="patient",
        product=pure().product.replace("laplace", "gaussian"),
        delta="1e-9",
        epsilon="3",
        calculus=RenyiCalculus(Fraction(12)),
        cap=(20 * PICO, ATTO // 10**9),
        formats="[parquet, parts]",
        release="units",
    )


def three_rows(tables: str) -> StatisticsScenario:
    """Other tables with Gaussian noise, replace_one and three rows a unit; Parquet in parts."""
    return replace(gaussian(), product=f"{{kind: statistics, mechanism: gaussian, tables: {tables}}}")


def of_tables(tables: str, **changed: object) -> StatisticsScenario:
    """Other tables, without CSV."""
    product = f"{{kind: statistics, mechanism: laplace, tables: {tables}}}"
    return replace(pure(), product=product, formats="[parquet]", **changed)  # type: ignore[arg-type]
