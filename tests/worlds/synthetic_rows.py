"""Finished synthetic runs for the tests: the real contract, spec, plan, ledger, grant, generator and snapshot."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import numpy as np
import polars as pl

from contracts.contract.contract import NULL_LABEL, Contract, checks
from contracts.domains.lattice import MISSING, ValueLattice, offset_of
from contracts.periods.time_blocks import time_block
from contracts.release.spec import ReleaseSpec
from flows.request import read_request
from privacy.accounting.amounts import ATTO, PICO
from privacy.accounting.calculus import Calculus, PureCalculus, RenyiCalculus
from privacy.generators.calibration import FittedPlan
from privacy.grant.grant import open_grant
from privacy.ledger.ledger import Ledger
from privacy.ledger.terms import AccountTerms
from privacy.noise.random_bytes import SeededBytes
from privacy.private_table import PrivateTable, snapshot_mark
from tasks.products.charge_request import request_for
from tasks.products.synthetic.fit import synthesize
from tasks.records.facts import CheckOutcome, Outputs, RunFacts
from tasks.records.ledger_facts import gather
from tasks.records.outputs import Synthesis
from tests.worlds.tables import KEYED_HASH, contract_yaml, first, property_yaml, spec_yaml

PlanT = TypeVar("PlanT")
STAY = (
    property_yaml(
        "age",
        "integer",
        "{kind: integer, bounds: [0, 99], bins: {width: 25}, nulls: {policy: category}, "
        "provenance: {kind: declared}}",
        "Age in years.",
    )
    + property_yaml(
        "arrived",
        "date",
        "{kind: date, bounds: [2024-01-01, 2024-12-31], granularity: quarter, nulls: {policy: category}, "
        "provenance: {kind: declared}}",
    )
    + property_yaml(
        "left",
        "date",
        "{kind: date, bounds: [2024-01-01, 2025-03-31], granularity: quarter, nulls: {policy: category}, "
        "provenance: {kind: declared}}",
    )
    + property_yaml(
        "ward",
        "string",
        "{kind: categories, values: [surgery, children, 'x, \"y\"'], nulls: {policy: category}, "
        "provenance: {kind: declared}}",
    )
    + property_yaml(
        "floor",
        "integer",
        '{kind: categories, values: ["1", "2"], other: "9", nulls: {policy: map, to: "9"}, '
        "provenance: {kind: declared}}",
    )
    + property_yaml(
        "bill",
        "number",
        "{kind: decimal, bounds: [0, 900], bins: {edges: [0, 12.5, 100, 900]}, nulls: {policy: map, to: 0}, "
        "provenance: {kind: declared}}",
    )
    + property_yaml(
        "insured",
        "boolean",
        '{kind: categories, values: ["true", "false"], nulls: {policy: category}, provenance: {kind: declared}}',
    )
    + property_yaml(
        "one",
        "string",
        "{kind: categories, values: [only], nulls: {policy: map, to: only}, provenance: {kind: declared}}",
    )
)
ZEROS = "structural_zeros: [{age: [75 to 99], ward: [children]}]"
CONSTRAINTS = (
    "constraints: [{less_or_equal: [arrived, left]}, {determines: {by: ward, column: floor, "
    "mapping: {surgery: '1', children: '2', 'x, \"y\"': '2'}}}]"
)


@dataclass
class SyntheticScenario:
    """What a finished synthetic run is made from.

    Args:
        privacy: the contract's privacy block.
        product: the product of the spec.
        epsilon, delta: the charge, as text.
        calculus, cap: of the account.
        formats: of the published rows.
        rows: how many made-up rows are counted.
        seeded: whether the noise is drawn from a seed.
        clock: what the ledger's clock says.
        release: its name.
        unit: the column of the privacy unit's ids; empty without one.
        properties: the columns of the contract, as YAML.
    """

    privacy: str = "{unit: {kind: row, scope: block}, adjacency: add_remove, ZEROS, CONSTRAINTS}"
    product: str = "{kind: synthetic, generator: aim, options: {degree: 2, rounds: 24}}"
    epsilon: str = "2"
    delta: str = "1e-9"
    calculus: Calculus = field(default_factory=lambda: RenyiCalculus(Fraction(12)))
    cap: tuple[int, int] = (20 * PICO, ATTO // 10**9)
    formats: str = "[parquet, csv]"
    rows: int = 3000
    seeded: bool = False
    clock: str = "2026-03-04T05:06:07Z"
    release: str = "stays"
    unit: str = ""
    properties: str = STAY

    def run(self, folder: Path) -> RunFacts:
        """Make the run for real: plan, reserve, open, fit, draw the seed, number the version, gather."""
        spec, contract, plan, ledger = self.prepared(folder)
        made = self.made(folder, spec, contract, plan, ledger)
        version = ledger.allocate_version(self.run_key(spec))
        outcomes = tuple(CheckOutcome(check.name, True, check.gate) for check in checks(contract))
        facts = gather(ledger, spec, contract, plan, version, Outputs(synthesis=made), outcomes, first().software)
        ledger.close()
        return facts

    def prepared(self, folder: Path) -> tuple[ReleaseSpec, Contract, FittedPlan[Any], Ledger]:
        """Write contract and spec, plan, and open the account."""
        return self.prepared_of(folder, FittedPlan)

    def prepared_of(self, folder: Path, kind: type[PlanT]) -> tuple[ReleaseSpec, Contract, PlanT, Ledger]:
        """Write contract and spec, plan what must be of that kind, and open the account."""
        folder.mkdir(parents=True, exist_ok=True)
        privacy = self.privacy.replace("ZEROS", ZEROS).replace("CONSTRAINTS", CONSTRAINTS)
        contract_text = contract_yaml(
            "stays",
            privacy,
            (f"      - name: {self.unit}\n        logicalType: string\n" if self.unit else "") + self.properties,
            title="Stays in the hospital",
            description="description: {purpose: Tests of synthetic rows.}",
        )
        spec_text = spec_yaml(
            self.release,
            "{path: stays.parquet}",
            self.product,
            account="stays-2024",
            epsilon=self.epsilon,
            delta=self.delta,
            formats=self.formats,
        )
        (folder / "contract.odcs.yaml").write_text(contract_text)
        (folder / "spec.yaml").write_text(spec_text)
        request = read_request(folder / "spec.yaml")
        assert isinstance(request.plan, kind)
        ledger = Ledger(f"sqlite:///{folder / 'ledger.sqlite'}", draws=folder / "draws", clock=lambda: self.clock)
        spec, contract = request.spec, request.contract
        if not ledger.accounts():
            unit = contract.unit.column or "row"
            terms = AccountTerms("stays-2024", "patients", "2024", unit, contract.adjacency, self.calculus, *self.cap)
            ledger.open_account(terms)
            ledger.bind_source(spec.source.name, "patients", time_block("2024"))
        return spec, contract, request.plan, ledger

    def run_key(self, spec: ReleaseSpec) -> str:
        return f"{spec.release}-{spec.digest[:8]}"

    def made(
        self, folder: Path, spec: ReleaseSpec, contract: Contract, plan: FittedPlan[Any], ledger: Ledger
    ) -> Synthesis:
        """Reserve, open, and fit on a snapshot of made-up rows."""
        key = self.run_key(spec)
        mark = snapshot_mark(KEYED_HASH, spec.digest)
        ledger.reserve(request_for(spec, contract, plan, run_key=key, snapshot_hash=mark))
        grant = open_grant(ledger, key, seeded=SeededBytes(7) if self.seeded else None)
        table = self.snapshot(folder, contract, spec.synthetic_product.lattices(contract))
        private = folder / "private"
        private.mkdir(exist_ok=True)
        return synthesize(grant, spec.synthetic_product, plan, table, contract, private, key)

    def snapshot(self, folder: Path, contract: Contract, lattices: Sequence[ValueLattice] = ()) -> PrivateTable:
        """Write made-up rows as a snapshot: columns that depend on each other, and keep the constraints."""
        path = folder / "snapshot.duckdb"
        if not path.exists():
            columns = made_up(contract, self.rows)
            codes = pl.DataFrame({**columns, **made_up_offsets(contract, columns, lattices)})
            with duckdb.connect(str(path)) as connection:
                connection.register("rows", codes)
                connection.execute("CREATE TABLE codes AS SELECT * FROM rows")
        return PrivateTable(path, KEYED_HASH, contract.digest, "stays.parquet")


def made_up(contract: Contract, rows: int) -> dict[str, np.ndarray]:
    """Draw codes for made-up rows that no impossible cell excludes; each column leans on the one before."""
    rng = np.random.default_rng(rows)
    names = [column.name for column in contract.columns]
    shared = rng.random(6 * rows + 100)
    columns = {
        name: np.minimum(
            (np.clip(shared + rng.normal(0, 0.3, shared.size), 0, 0.999) * contract.column(name).size).astype(
                np.int64
            ),
            contract.column(name).size - 1,
        )
        for name in names
    }
    possible = np.ones(shared.size, dtype=bool)
    for clique in contract.zero_cliques():
        possible &= ~contract.impossible(clique)[tuple(columns[name] for name in clique)]
    kept = np.flatnonzero(possible)[:rows]
    assert kept.size == rows
    return {name: codes[kept] for name, codes in columns.items()}


def made_up_offsets(
    contract: Contract, columns: dict[str, np.ndarray], lattices: Sequence[ValueLattice]
) -> dict[str, np.ndarray]:
    """Draw offsets inside the bins of the codes, half of them where the bin begins; as a snapshot has them."""
    rng, found = np.random.default_rng(len(lattices)), {}
    for lattice in lattices:
        column = contract.column(lattice.column)
        codes = columns[lattice.column]
        ends = [[offset_of(lattice, Decimal(end)) for end in pair] for pair in column.domain.axis]
        low, high = np.array(ends).T
        bins = np.minimum(codes, low.size - 1)
        inside = np.where(rng.random(codes.size) < 0.5, 0, rng.integers(0, high[bins] - low[bins] + 1))
        missing = (codes == column.labels.index(NULL_LABEL)) if NULL_LABEL in column.labels else codes < 0
        found[lattice.name] = np.where(missing, MISSING, 1 + low[bins] + inside)
    return found


def aim() -> SyntheticScenario:
    """Rows, add_remove, a zCDP budget, choices, constraints, CSV."""
    return SyntheticScenario()


def pure() -> SyntheticScenario:
    """Laplace noise under a pure account, a public total, few columns, a number of rows of the spec's own."""
    privacy = (
        "{unit: {kind: row, scope: block}, adjacency: replace_one, ZEROS, "
        'invariants: [{kind: total, value: 3000, reference: "yearbook"}]}'
    )
    product = "{kind: synthetic, generator: independent, columns: [ward, age, bill], rows: 500}"
    return replace(
        aim(),
        privacy=privacy,
        product=product,
        delta="0",
        calculus=PureCalculus(),
        cap=(20 * PICO, 0),
        formats="[parquet]",
        release="pure",
    )


def fixed() -> SyntheticScenario:
    """Listed marginals, Gaussian, the public total kept."""
    privacy = (
        "{unit: {kind: row, scope: block}, adjacency: replace_one, ZEROS, CONSTRAINTS, "
        'invariants: [{kind: total, value: 3000, reference: "yearbook"}]}'
    )
    product = "{kind: synthetic, generator: fixed, options: {cliques: [[ward, floor], [arrived, left], [age, bill]]}}"
    return replace(aim(), privacy=privacy, product=product, release="fixed")


def gaussians() -> SyntheticScenario:
    """Noisy sums over rows instead of marginals: a centre, means, axes, a Gaussian for each ward; constraints."""
    product = (
        "{kind: synthetic, generator: p3gm, options: "
        "{label: ward, dimensions: 6, scale: declared, labels: components, decoder: linear, rows_about: 3000}}"
    )
    return replace(aim(), product=product, release="gaussians")


def looked_into() -> SyntheticScenario:
    """Counts inside bins before a tree of pairs; a decimal column, missing values."""
    product = "{kind: synthetic, generator: mst, inside_bins: {share: 0.2}}"
    return replace(aim(), product=product, release="looked-into")


def joined() -> SyntheticScenario:
    """Bins that noisy counts join before a tree of pairs; a decimal column, missing values."""
    product = "{kind: synthetic, generator: mst, bins: private, inside_bins: {share: 0.3}}"
    properties = STAY.replace("[0, 12.5, 100, 900]", "[0, 1, 2, 3, 5, 8, 12.5, 20, 100, 200, 400, 600, 900]")
    properties = properties.replace("{width: 25}", "{width: 2}")
    privacy = aim().privacy.replace("ZEROS", ZEROS.replace("75 to 99", "98 to 99"))
    return replace(aim(), privacy=privacy, product=product, properties=properties, release="joined")


def stretched() -> SyntheticScenario:
    """A number most of whose values lie in a small part of its range, stretched as noisy counts of norms say."""
    product = (
        "{kind: synthetic, generator: p3gm, columns: [ward, floor, insured, bill], options: "
        "{label: ward, dimensions: 3, numbers: scaled, labels: components, decoder: linear, rows_about: 3000}}"
    )
    properties = STAY.replace("[0, 12.5, 100, 900]", "[0, 1, 2, 3, 4, 5, 900]")
    return replace(aim(), product=product, properties=properties, release="stretched")
