"""Finished runs for the tests of the record: made by the real contract, spec, plan, ledger, grant and refinement."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from contracts.contract.cell_codes import cell_codes
from contracts.contract.contract import Contract, checks
from contracts.contract.odcs import load_contract
from contracts.periods.time_blocks import LIFETIME, time_block
from contracts.release.spec import ReleaseSpec, load_spec
from privacy.accounting.amounts import ATTO, PICO
from privacy.accounting.calculus import Calculus, PureCalculus, RenyiCalculus
from privacy.grant.grant import open_grant
from privacy.ledger.ledger import Ledger
from privacy.ledger.terms import AccountTerms, ChargeRequest
from privacy.marginals.counts import Coarsening, PrivateCounts, SparseCounts
from privacy.noise.random_bytes import SeededBytes
from privacy.private_table import snapshot_mark
from privacy.table_plans.plan import plan_tables
from tasks.products.charge_request import request_for
from tasks.products.tables.reference_version import earlier_version
from tasks.products.tables.table_measurement import measure_counts
from tasks.products.tables.table_refinement import refine
from tasks.records.facts import CheckOutcome, Outputs, RunFacts
from tasks.records.ledger_facts import gather
from tasks.records.software import Software
from tests.privacy.ledger.ledgers import record_publication

KEYED_HASH = "c" * 64
CONTRACT = """\
apiVersion: {api}
kind: DataContract
id: {id}
name: {title}
version: {version}
status: active
{description}
schema:
  - name: {table}
    logicalType: object
    physicalType: table
    customProperties:
      - property: privacy
        value:
{privacy}
    properties:
{properties}
"""
SPEC = """\
release: {release}
contract: contract.odcs.yaml
source: {source}
charge: {{account: {account}, epsilon: {epsilon}, delta: {delta}}}
product: {product}
publish: {{to: {store}, formats: {formats}}}
"""


def contract_yaml(
    name: str,
    privacy: str,
    properties: str,
    *,
    title: str = "",
    table: str = "",
    description: str = "",
    version: str = "1.0.0",
    api: str = "v3.1.0",
) -> str:
    """Write a contract; privacy is a flow mapping, and title and table are named after the contract by default."""
    head = {"api": api, "id": name, "title": title or name.capitalize(), "version": version, "table": table or name}
    return CONTRACT.format(**head, description=description, privacy=f"          {privacy}", properties=properties)


def spec_yaml(
    release: str,
    source: str,
    product: str,
    *,
    account: str,
    epsilon: str,
    delta: str = "0",
    store: str = "releases",
    formats: str = "[parquet]",
) -> str:
    charge = {"account": account, "epsilon": epsilon, "delta": delta}
    return SPEC.format(release=release, source=source, product=product, **charge, store=store, formats=formats)


ABOUT = """\
about:
  curator: Town registrar
  operator: Statistics section
  sector: public administration
  region: the town
  audience: planners
  legal_basis: Town statistics act, article 4
  policy_version: privacy policy 3
  contact: registrar@town.example
  trust_model: the section sees the rows, nobody else
  retention: the snapshot goes with the run
  witness: the town archive
  permitted_uses: [planning, teaching]
  approvers: [{name: A. Registrar, at: 2026-03-01, role: head}]
  rationale: one unit of loss a year
  delta_rationale: far below one over the number of people
  registry_id: town-1
  lineage: the register of residents
  tuned_on_data: none
  exploratory_access: {what: the registrar knows the register, accounted: unaccounted}
  hyperparameter_search: {what: on the tables of another town, accounted: public data}
  feature_selection: {what: columns of the yearbook, accounted: public data}
"""
OTHER_ABOUT = """\
about:
  curator: Guild master
  operator: The guild's clerk
  sector: crafts
  region: the valley
  audience: members
  legal_basis: Charter of the guild
  policy_version: "7"
  contact: clerk@guild.example
  trust_model: the clerk is trusted
  retention: ten years
  witness: the other guild
  permitted_uses: [wage talks]
  approvers: [{name: B. Master, at: 2027-08-01T09:30Z}]
  rationale: as the members voted
  delta_rationale: as for the last release
  registry_id: guild-9
  lineage: contracts of work
  tuned_on_data: {what: the bins of wages, accounted: unaccounted}
  exploratory_access: none
  hyperparameter_search: none
  feature_selection: {what: as the members asked, accounted: unaccounted}
"""


def audits(code: str, bound: float) -> dict[str, Any]:
    control = {"what": f"the noise of scale {bound}", "lower_bound": bound + 2, "caught": bound > 1}
    game = {"mechanism": f"noise {bound}", "threat": f"canary {bound}", "trials": int(1000 * bound)}
    game |= {
        "claimed_epsilon": 1.0,
        "lower_bound": bound,
        "confidence": 0.99,
        "holds": bound <= 1,
        "negative_control": control,
    }
    return {"code_digest": code, "games": [game] * (1 + (bound > 1)), "attacks": [{"attack": f"of {bound}"}]}


def property_yaml(name: str, kind: str, domain: str, description: str = "") -> str:
    described = f"        description: {description}\n" if description else ""
    return (
        f"      - name: {name}\n        logicalType: {kind}\n{described}"
        f"        customProperties:\n          - property: domain\n            value: {domain}\n"
    )


AGE = property_yaml(
    "age",
    "integer",
    "{kind: integer, bounds: [0, 99], bins: {width: 10}, nulls: {policy: map, to: 0}, provenance: {kind: declared}}",
    "Age in years.",
)
SCHOOLED = property_yaml(
    "schooled",
    "integer",
    "{kind: integer, bounds: [0, 30], bins: {width: 5}, nulls: {policy: category}, provenance: {kind: declared}}",
    "Years at school.",
)
SEX = property_yaml(
    "sex",
    "string",
    "{kind: categories, values: [female, male], nulls: {policy: category}, "
    'provenance: {kind: public, reference: "census questionnaire, item 2"}}',
)
WAGE = property_yaml(
    "wage",
    "number",
    '{kind: decimal, bounds: [0, 50], bins: {edges: [0, 12.5, 20, 50]}, nulls: {policy: category}, missing: ["-"], '
    "provenance: {kind: declared}}",
)
HIRED = property_yaml(
    "hired",
    "date",
    "{kind: date, bounds: [2020-01-01, 2021-12-31], granularity: quarter, nulls: {policy: map, to: 2020-01-01}, "
    "provenance: {kind: declared}}",
    "Day of hiring.",
)
TRADE = property_yaml(
    "trade",
    "string",
    "{kind: mapping, mapping: {m: mason, p: painter}, other: other trade, nulls: {policy: category}, "
    "provenance: {kind: declared}}",
)
WORKER = "      - name: worker\n        logicalType: string\n"


@dataclass
class Scenario:
    """What a finished run is made from.

    Args:
        contract: text of the contract.
        spec: text of the spec.
        calculus: calculus of the account.
        cap: epsilon [10^-12] and delta [10^-18] of the account.
        place: population and time block of the account.
        clock: what the ledger's clock says.
        rows: how many made-up rows are counted.
        seeded: whether the noise is drawn from a seed.
        before: versions that were published before.
        failing: column whose domain check fails.
        software: what the record is told about the software.
    """

    contract: str
    spec: str
    calculus: Calculus
    cap: tuple[int, int]
    place: tuple[str, str]
    clock: str
    rows: int
    seeded: bool
    before: int
    failing: str
    software: Software

    def written(self, folder: Path, *pairs: tuple[str, str]) -> tuple[ReleaseSpec, Contract]:
        """Write contract and spec into a folder and load them; pairs are replaced in the spec before."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "contract.odcs.yaml").write_text(self.contract)
        spec = self.spec
        for old, new in pairs:
            assert old in spec, old
            spec = spec.replace(old, new)
        (folder / "spec.yaml").write_text(spec)
        return load_spec(folder / "spec.yaml"), load_contract(folder / "contract.odcs.yaml")

    def run(self, folder: Path) -> RunFacts:
        """Make the run for real: reserve, open, draw, refine, number the version, gather."""
        spec, contract = self.written(folder)
        plan = plan_tables(spec, contract)
        ledger = self._ledger(folder, spec.charge.account, contract)
        population, block = self.place
        ledger.bind_source(spec.source.name, population, time_block(block))
        mark = snapshot_mark(KEYED_HASH, spec.digest)
        key = f"{spec.release}-{spec.digest[:8]}"
        request = request_for(spec, contract, plan, run_key=key, snapshot_hash=mark)
        for number in range(self.before):
            self._earlier(ledger, request, number)
        ledger.reserve(request)
        grant = open_grant(ledger, request.run_key, seeded=SeededBytes(7) if self.seeded else None)
        rows = made_up_rows(contract, self.rows)
        measured = measure_counts(grant, plan, MadeUpCounts(contract, rows))
        outcomes = tuple(
            CheckOutcome(check.name, check.name != f"domain:{self.failing}", check.gate) for check in checks(contract)
        )
        earlier = earlier_version(spec, contract, ledger, folder / "releases")
        version = ledger.allocate_version(request.run_key)
        return gather(
            ledger,
            spec,
            contract,
            plan,
            version,
            Outputs(tuple(measured), refine(spec.tables_product, plan, contract, measured, earlier)),
            outcomes,
            self.software,
            earlier,
        )

    def _ledger(self, folder: Path, account: str, contract: Contract) -> Ledger:
        """Open the ledger, the account, and one for the lifetime of its people where the contract asks for it."""
        ledger = Ledger(f"sqlite:///{folder / 'ledger.sqlite'}", draws=folder / "draws", clock=lambda: self.clock)
        population, block = self.place
        epsilon, delta = self.cap
        unit, adjacency = contract.unit.column or "row", contract.adjacency
        terms = AccountTerms(account, population, block, unit, adjacency, self.calculus, epsilon, delta)
        ledger.open_account(terms)
        if contract.unit.scope == LIFETIME:
            ledger.open_account(replace(terms, name=f"{account}/lifetime", block=LIFETIME, epsilon=2 * epsilon))
        return ledger

    def _earlier(self, ledger: Ledger, request: ChargeRequest, number: int) -> None:
        """Publish an earlier version of the same release."""
        earlier = replace(request, run_key=f"earlier-{number}")
        ledger.reserve(earlier)
        open_grant(ledger, earlier.run_key)
        ledger.allocate_version(earlier.run_key)
        record_publication(ledger, earlier.run_key, "ab" * 32)


def made_up_rows(contract: Contract, rows: int) -> dict[str, np.ndarray]:
    """Draw codes for made-up rows: low codes are frequent, high codes are rare."""
    rng = np.random.default_rng(rows)
    skewed = {column.name: rng.beta(1.2, 2.5, rows) * column.size for column in contract.columns}
    return {name: codes.astype(np.int64) for name, codes in skewed.items()}


@dataclass(frozen=True)
class MadeUpCounts:
    contract: Contract
    rows: dict[str, np.ndarray]

    def marginal(self, clique: tuple[str, ...], coarsening: Coarsening | None = None) -> PrivateCounts:
        return counted(self.contract, clique, self.rows).coarser(coarsening)

    def marginals(self, cliques: Sequence[tuple[str, ...]]) -> tuple[PrivateCounts, ...]:
        return tuple(counted(self.contract, clique, self.rows) for clique in cliques)

    def sparse(self, clique: tuple[str, ...]) -> SparseCounts:
        shape = self.contract.shape(clique)
        codes = cell_codes([self.rows[name] for name in clique], shape)
        populated = np.unique(codes, return_counts=True)
        return SparseCounts(clique, prod(shape), KEYED_HASH, self.contract.digest, lambda: populated)


def counted(contract: Contract, clique: tuple[str, ...], rows: dict[str, np.ndarray]) -> PrivateCounts:
    """Wrap the exact marginal of made-up rows as the handle that a grant opens."""
    shape = contract.shape(clique)
    counts = np.zeros(shape, dtype=np.int64)
    if clique:
        np.add.at(counts, tuple(rows[name] for name in clique), 1)
    else:
        counts += len(next(iter(rows.values())))
    return PrivateCounts(clique, shape, KEYED_HASH, contract.digest, lambda: counts)


def first() -> Scenario:
    """Rows, add_remove, Laplace, pure account, simplex, whole numbers, nothing before."""
    contract = contract_yaml(
        "people",
        "{unit: {kind: row, scope: block}, adjacency: add_remove, invariants: [], gates: []}",
        AGE + SEX,
        title="People of the town",
        description="description: {purpose: Town planning., limitations: Nothing of visitors., usage: Cite us.}",
    )
    spec = spec_yaml(
        "town",
        "{path: people.csv}",
        "{kind: tables, mechanism: laplace, tables: [[age], [age, sex]], refine: {method: simplex}, total: noisy}",
        account="town-2024",
        epsilon="1.0",
    )
    spec += ABOUT
    software = Software(
        {"sudare": "0.1.0", "dp-accounting": "0.6.0", "numpy": "2.4.6"},
        "3.11.7",
        "Linux x86_64",
        "1" * 64,
        commit="a" * 40,
        dirty=False,
        installed=("numpy==2.4.6", "sudare==0.1.0"),
        container="sha256:" + "b" * 64,
        hardware="a machine of 2 processors",
        audits=audits("1" * 64, 1.5),
        audited_code="1" * 64,
    )
    return Scenario(
        contract,
        spec,
        PureCalculus(),
        cap=(3 * PICO, 0),
        place=("people of the town", "2024"),
        clock="2026-03-04T05:06:07Z",
        rows=6000,
        seeded=False,
        before=0,
        failing="age",
        software=software,
    )


def second() -> Scenario:
    """Ids with three rows, replace_one, Gaussian, Rényi account, negative_l2, second version, seeded noise."""
    contract = contract_yaml(
        "workers",
        "{unit: {kind: id, scope: lifetime, column: worker, max_rows_per_unit: 3}, "
        'adjacency: replace_one, structural_zeros: [{trade: [painter], wage: ["[20, 50]"]}], gates: ["domain:wage"], '
        "constraints: [{determines: {by: trade, column: hired, mapping: {mason: 2020-Q2, painter: 2021-Q4}}}]}",
        WORKER + WAGE + HIRED + TRADE,
        title="Workers of the guild",
        table="contracts_of_work",
        description="description: {purpose: Wage statistics., limitations: Trades are as reported., usage: CC BY.}",
        version="2.3.1",
        api="v3.0.2",
    )
    spec = spec_yaml(
        "guild",
        "{path: guild.sqlite, table: work, select: 'SELECT worker, wage, hired, trade FROM source WHERE wage >= 0'}",
        "{kind: tables, mechanism: gaussian, "
        "tables: [{columns: [wage, trade], name: pay, weight: 3}, [hired]], "
        "refine: {method: negative_l2, lambda: 0.125, integers: false}, total: noisy}",
        account="guild-2020",
        epsilon="2.5",
        delta="1e-8",
        store="published",
        formats="[parquet, csv], formulas: accepted",
    )
    spec += OTHER_ABOUT
    software = Software(
        {"sudare": "0.2.0", "dp-accounting": "0.6.1", "numpy": "2.5.0"},
        "3.12.1",
        "Darwin arm64",
        "2" * 64,
        commit="c" * 40,
        dirty=True,
        installed=("numpy==2.5.0",),
        container="sha256:" + "d" * 64,
        hardware="another machine",
        audits=audits("3" * 64, 0.25),
        audited_code="2" * 64,
    )
    return Scenario(
        contract,
        spec,
        RenyiCalculus(Fraction(27, 2)),
        cap=(20 * PICO, ATTO // 10**7),
        place=("members of the guild", "2020-01-01..2022-01-01"),
        clock="2027-08-09T10:11:12Z",
        rows=900,
        seeded=True,
        before=1,
        failing="trade",
        software=software,
    )


def third() -> Scenario:
    """A public total, kept exactly, under replace_one; mechanism and method are chosen; the plainest source."""
    base = first()
    contract = contract_yaml(
        "census",
        "{unit: {kind: row, scope: block}, adjacency: replace_one, "
        'invariants: [{kind: total, value: 6000, reference: "yearbook, page 3"}], gates: ["nulls:sex"], '
        "constraints: [{less_or_equal: [schooled, age]}]}",
        SEX + AGE + SCHOOLED,
        title="Census extract",
        version="1.1.0",
    )
    spec = spec_yaml(
        "extract",
        "{path: census.parquet}",
        "{kind: tables, mechanism: auto, tables: all 2-way, refine: {method: auto}, total: invariant}",
        account="census-2024",
        epsilon="0.5",
    )
    return Scenario(
        contract,
        spec,
        RenyiCalculus(Fraction(20)),
        cap=(4 * PICO, ATTO // 10**9),
        place=("everybody", "2024"),
        clock="2026-05-05T05:05:05Z",
        rows=6000,
        seeded=False,
        before=0,
        failing="",
        software=base.software,
    )


def refined_by(refine: str) -> Scenario:
    """The second run's data, with structural zeros, ordered columns first, last and alone, refined in another way."""
    base = second()
    named = "refine: {method: negative_l2, lambda: 0.125, integers: false}"
    return replace(base, spec=base.spec.replace(named, f"refine: {refine}"), before=0)


def fourth() -> Scenario:
    """Negative l2 whose lambda is chosen from the noisy values."""
    return refined_by("{method: negative_l2, lambda: auto}")
