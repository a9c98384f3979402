"""A workspace with visits of many days in one table, an account for each period, and a spec with `period:`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from contracts.domains.calendar_periods import Granularity
from contracts.periods.period import read_periods
from contracts.periods.time_blocks import time_block
from privacy.accounting.amounts import PICO
from privacy.accounting.calculus import PureCalculus
from privacy.ledger.ledger import Ledger
from privacy.ledger.terms import AccountTerms
from tasks.storage.workspace.settings import FILE, Workspace

CONTRACT = """\
apiVersion: v3.1.0
kind: DataContract
id: visits
name: Visits
version: 1.0.0
status: active
schema:
  - name: visits
    logicalType: object
    physicalType: table
    customProperties:
      - property: privacy
        value: {unit: {kind: row, scope: block}, adjacency: add_remove}
    properties:
      - name: ward
        logicalType: string
        customProperties:
          - property: domain
            value:
              {kind: categories, values: [a, b, c], nulls: {policy: category}, provenance: {kind: declared}}
      - name: day
        logicalType: date
        customProperties:
          - property: domain
            value:
              kind: date
              bounds: ["2024-01-01", "2025-12-31"]
              granularity: month
              nulls: {policy: category}
              provenance: {kind: declared}
"""
SPEC = """\
release: visits-{period}
period: quarter
contract: visits.odcs.yaml
source: {path: visits.csv, by: day}
charge: {account: "visits-{period}", epsilon: 1, delta: 0}
product: {kind: tables, mechanism: laplace, tables: [[ward]], refine: {method: simplex}, total: noisy}
publish: {to: releases/}
"""
QUARTERS = "2024Q1..2025Q2"
DAYS = "2024-01-01..2026-01-01"


@dataclass(frozen=True)
class Periodic:
    """The workspace and what lies beside it.

    Args:
        workspace: the workspace.
        folder: where contract, spec and table are.
    """

    workspace: Workspace
    folder: Path

    @property
    def spec(self) -> Path:
        """The release spec."""
        return self.folder / "visits.yaml"

    def ledger(self) -> Ledger:
        """Open the ledger."""
        return self.workspace.open_ledger()

    def charges(self) -> dict[str, int]:
        """What each account has lost, in whole epsilons; only accounts that lost something."""
        with closing(self.ledger()) as ledger:
            return {each.terms.name: each.spent // PICO for each in ledger.accounts() if each.spent}


def write_rows(file: Path, quarters: Sequence[tuple[int, int]], rows: int = 12) -> None:
    """Write rows of the first days of quarters, as (year, quarter)."""
    lines = [
        f"{'abc'[number % 3]},{year}-{3 * quarter - 2:02d}-{number % 28 + 1:02d}"
        for year, quarter in quarters
        for number in range(rows + quarter)
    ]
    file.write_text("\n".join(["ward,day", *lines]) + "\n")


def make_periodic(
    folder: Path, *, ledger_url: str = "", spec: str = SPEC, periods: str = QUARTERS, length: Granularity = "quarter"
) -> Periodic:
    """Make it; of quarters, 2025-Q2 has an account and no rows, 2025-Q3 no account.

    Args:
        folder: made if it is missing.
        ledger_url: an empty database; none for a SQLite file in the workspace.
        spec: the spec.
        periods: which of them have accounts, as A..B.
        length: of each.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "visits.odcs.yaml").write_text(CONTRACT)
    (folder / "visits.yaml").write_text(spec)
    write_rows(folder / "visits.csv", [(2024, 1), (2024, 2), (2024, 3), (2024, 4), (2025, 1)])
    Workspace.create(folder / "w")
    settings = folder / "w" / FILE
    settings.write_text(settings.read_text().replace('url = ""  ', f'url = "{ledger_url}"  '))
    made = Periodic(Workspace.open(folder / "w"), folder)
    with closing(made.ledger()) as ledger:
        open_accounts(ledger, folder, periods=periods, length=length)
    return made


def open_accounts(ledger: Ledger, folder: Path, *, periods: str = QUARTERS, length: Granularity = "quarter") -> None:
    """Open an account of ε 2 for each period, and bind the table by its days."""
    for period in read_periods(periods, length):
        terms = (f"visits-{period}", "patients", str(period), "row", "add_remove", PureCalculus(), 2 * PICO, 0)
        ledger.open_account(AccountTerms(*terms))
    ledger.bind_source(str((folder / "visits.csv").resolve()), "patients", time_block(DAYS), by="day")
