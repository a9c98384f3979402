"""A small federation for the tests: sites with workspaces, ledgers and rows of their own, and a coordinator."""

from contextlib import closing
from fractions import Fraction
from pathlib import Path

import numpy as np

from contracts.periods.time_blocks import time_block
from contracts.release.source import source_name
from privacy.accounting.amounts import ATTO, PICO
from privacy.accounting.calculus import RenyiCalculus
from privacy.ledger.ledger import Ledger
from privacy.ledger.terms import AccountTerms
from tasks.storage.workspace.settings import Workspace

SITES = ("north", "east", "south")
CONTRACT = """\
apiVersion: v3.1.0
kind: DataContract
id: wards
name: Wards
version: 1.0.0
status: active
schema:
  - name: stays
    logicalType: object
    physicalType: table
    customProperties:
      - property: privacy
        value: {unit: {kind: row, scope: block}, adjacency: add_remove, invariants: [],
          structural_zeros: [], gates: []}
    properties:
      - name: age
        logicalType: integer
        customProperties:
          - property: domain
            value:
              kind: integer
              bounds: [0, 99]
              bins: {width: 10}
              nulls: {policy: map, to: 0}
              provenance: {kind: declared}
      - name: ward
        logicalType: string
        customProperties:
          - property: domain
            value: {kind: categories, values: [A, B, C], nulls: {policy: map, to: A}, provenance: {kind: declared}}
      - name: long
        logicalType: string
        customProperties:
          - property: domain
            value:
              kind: categories
              values: ["no", "yes"]
              nulls: {policy: map, to: "no"}
              provenance: {kind: declared}
"""
FEDERATION = """\
federation: long-stays
contract: wards.odcs.yaml
charge: {account: everyone, epsilon: 8, delta: 1e-5}
sites:
  - {name: north, rows_about: 200}
  - {name: east, rows_about: 300}
  - {name: south, rows_about: 200}
learner: {label: long, hidden: [4], learning_rate: 0.05}
training: {rounds: 1, batch: 300, reserve: 2}
trust: {noise: sites, secure_aggregation: true, server: null, fewest: 2, colluding: 1, sites_per_person: 1}
publish: models
"""
TABLES = FEDERATION.replace(
    "learner: {label: long, hidden: [4], learning_rate: 0.05}\ntraining: {rounds: 1, batch: 300, reserve: 2}",
    "tables: {cliques: [[ward, long], [age]], reserve: 2}",
)
GENERATOR = FEDERATION.replace(
    "learner: {label: long, hidden: [4], learning_rate: 0.05}\ntraining: {rounds: 1, batch: 300, reserve: 2}",
    "generator: {name: p3gm, options: {label: long, hidden: [8], dimensions: 3, learning_rate: 0.05}, rows: 500}\n"
    "training: {rounds: 2, batch: 300, reserve: 1}",
).replace("epsilon: 8", "epsilon: 20")
MARGINALS = FEDERATION.replace(
    "learner: {label: long, hidden: [4], learning_rate: 0.05}\ntraining: {rounds: 1, batch: 300, reserve: 2}",
    "generator: {name: marginals, options: {cliques: [[age, long], [ward]]}, rows: 600}",
)
TRUSTING = ("secure_aggregation: true, server: null", "secure_aggregation: false, server: the office")


def a_workspace(folder: Path, *, federation: str = FEDERATION, contract: str = CONTRACT) -> Workspace:
    """A party's workspace, with its own copies of spec and contract."""
    workspace = Workspace.create(folder)
    (folder / "wards.odcs.yaml").write_text(contract)
    (folder / "federation.yaml").write_text(federation)
    return workspace


def a_site(folder: Path, name: str, *, rows: int = 200, epsilon: int = 100, **copies: str) -> tuple[Path, Workspace]:
    """A site with rows, and an account with a cap; its site file, and its workspace."""
    workspace, random = a_workspace(folder, **copies), np.random.default_rng(len(name))
    ages, wards = random.integers(0, 100, rows), random.integers(0, 3, rows)
    lines = [f"{age},{'ABC'[ward]},{'yes' if age > 50 else 'no'}" for age, ward in zip(ages, wards, strict=True)]
    (folder / "stays.csv").write_text("\n".join(["age,ward,long", *lines]) + "\n")
    site = folder / "site.yaml"
    account = f"{name}-2026"
    site.write_text(
        f"site: {name}\nfederation: federation.yaml\ncontract: wards.odcs.yaml\n"
        f"source: {{path: stays.csv}}\naccount: {account}\n"
    )
    open_account(workspace, account, source_name(folder / "stays.csv"), epsilon)
    return site, workspace


def a_coordinator(folder: Path, *, epsilon: int = 100, **copies: str) -> tuple[Path, Workspace]:
    workspace = a_workspace(folder, **copies)
    spec = folder / "federation.yaml"
    open_account(workspace, "everyone", source_name(spec), epsilon)
    return spec, workspace


def open_account(workspace: Workspace, account: str, source: str, epsilon: int) -> None:
    with closing(ledger_of(workspace)) as ledger:
        calculus = RenyiCalculus(Fraction(12))
        cap, delta = epsilon * PICO, ATTO // 10**5
        ledger.open_account(AccountTerms(account, account, "2026", "row", "add_remove", calculus, cap, delta))
        ledger.bind_source(source, account, time_block("2026"))


def ledger_of(workspace: Workspace) -> Ledger:
    return workspace.open_ledger()


def drawn(workspace: Workspace) -> list[str]:
    """Keys of all draws that a workspace's ledger has entered."""
    with closing(ledger_of(workspace)) as ledger:
        runs = {
            charge.request.run_key
            for state in ledger.accounts()
            for charge in ledger.charges(account=state.terms.name)
        }
        return [e.body["key"] for run in sorted(runs) for e in ledger.entries_of(run) if e.kind == "noise_drawn"]
