"""Workspaces for runs that are killed: one small source, an account that pays, and what must hold of them at rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy import create_engine, text

from contracts.periods.time_blocks import time_block
from privacy.accounting.amounts import PICO
from privacy.accounting.calculus import PureCalculus
from privacy.ledger.entries import Entry
from privacy.ledger.ledger import Ledger
from privacy.ledger.store.database import Store, Transaction
from privacy.ledger.terms import AccountTerms
from tasks.storage.workspace.settings import FILE, Workspace
from tasks.verify import verify

CONTRACT: Final = """\
apiVersion: v3.1.0
kind: DataContract
id: people
name: People
version: 1.0.0
status: active
schema:
  - name: people
    logicalType: object
    physicalType: table
    customProperties:
      - property: privacy
        value: {unit: {kind: row, scope: block}, adjacency: add_remove}
    properties:
      - name: sex
        logicalType: string
        customProperties:
          - property: domain
            value:
              {kind: categories, values: [f, m], nulls: {policy: category}, provenance: {kind: declared}}
"""
SPEC: Final = """\
release: people
contract: people.odcs.yaml
source: {path: people.csv}
charge: {account: people-2024, epsilon: 1, delta: 0}
product: {kind: tables, mechanism: laplace, tables: [[sex]], refine: {method: simplex}, total: noisy}
publish: {to: releases/}
"""
ACCOUNT: Final = "people-2024"


@dataclass(frozen=True)
class Place:
    """A workspace with one small source, an account that pays for it, and a spec.

    Args:
        spec: the release spec.
        workspace: the workspace.
    """

    spec: Path
    workspace: Workspace

    @property
    def versions(self) -> list[Path]:
        """The published folders that a reader sees."""
        return sorted(self.workspace.releases.glob("people/v*"))

    @property
    def witness(self) -> Path:
        """Where a run notes the size and the last hash of the journal after each of its commits."""
        return self.spec.with_name("witness")

    def draws(self) -> dict[str, bytes]:
        """What was drawn so far, by file."""
        return {path.name: path.read_bytes() for path in self.workspace.draws.rglob("*.draw")}

    def ledger(self) -> Ledger:
        """Open the ledger."""
        return self.workspace.open_ledger()

    def journal(self) -> tuple[Entry, ...]:
        """Return the journal's entries, in order."""
        with closing(self.ledger()) as ledger:
            return ledger.journal()


def make_place(folder: Path, *, ledger_url: str = "") -> Place:
    """Make the workspace, the source, the spec and the account.

    Args:
        folder: an empty folder.
        ledger_url: an empty database; none for a SQLite file in the workspace.
    """
    (folder / "people.odcs.yaml").write_text(CONTRACT)
    (folder / "people.yaml").write_text(SPEC)
    (folder / "people.csv").write_text("sex\n" + "f\nm\nm\n" * 20)
    Workspace.create(folder / "workspace")
    settings = folder / "workspace" / FILE
    settings.write_text(settings.read_text().replace('url = ""  ', f'url = "{ledger_url}"  '))
    place = Place(folder / "people.yaml", Workspace.open(folder / "workspace"))
    with closing(place.ledger()) as ledger:
        ledger.open_account(AccountTerms(ACCOUNT, "people", "2024", "row", "add_remove", PureCalculus(), 2 * PICO, 0))
        ledger.bind_source(str((folder / "people.csv").resolve()), "people", time_block("2024"))
    return place


def look(place: Place) -> list[str]:
    """Return what does not hold of a workspace at rest: versions that verify, one charge for them, a sound ledger."""
    key = place.workspace.public_key_file.read_text().strip()
    wrong = [f"{path.name} does not verify" for path in place.versions if not verify(path, public_key=key).ok]
    with closing(place.ledger()) as ledger:
        wrong += [f"ledger: {finding}" for finding in ledger.verify()]
        account, charges = ledger.account(ACCOUNT), ledger.charges(account=ACCOUNT)
    if place.versions and [charge.status for charge in charges] != ["published"]:
        wrong.append(f"a version with charges {[charge.status for charge in charges]}")
    if account.spent not in (0, PICO) or len(charges) > 1:
        wrong.append(f"{len(charges)} charges, {account.spent} spent")
    return wrong


def witness_commits(path: Path) -> None:
    """From here on in this process: note after each commit to the ledger what the journal held."""
    writing = Store.writing

    @contextmanager
    def witnessed(store: Store) -> Iterator[Transaction]:
        with writing(store) as transaction:
            yield transaction
            kept = transaction.connection.in_transaction()  # a rehearsal rolls back what it wrote
        if kept:
            with path.open("a") as file:
                file.write(f"{transaction.size} {transaction.last}\n")

    Store.writing = witnessed  # type: ignore[assignment, method-assign]


def lost(place: Place, journal: Sequence[Entry]) -> list[str]:
    """Return the commits that a killed run has seen and that are not in the journal."""
    lines = place.witness.read_text().splitlines() if place.witness.exists() else []
    seen = [(int(size), last) for size, last in (line.split() for line in lines)]
    held = {entry.sequence: entry.hash for entry in journal}
    return [f"entry {size - 1} is lost" for size, last in seen if held.get(size - 1) != last]


def new_database(server_url: str, name: str) -> str:
    """Make an empty database on a PostgreSQL server and return its URL."""
    driver = server_url.replace("postgresql://", "postgresql+psycopg://")
    engine = create_engine(driver, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return server_url.replace("/postgres?", f"/{name}?")
