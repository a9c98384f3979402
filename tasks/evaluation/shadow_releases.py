"""Shadow releases: a spec's product made of public rows, again and again, by the steps that make the release itself.

Each goes through a grant of a ledger that lies beside the snapshot and is gone afterwards: the noise is drawn as in
any run, and no account of the workspace pays, since the rows are nobody's secret. Nothing of it is published.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.domains.value_sql import identifier, literal
from contracts.errors import Finding, Refused
from contracts.periods.time_blocks import LIFETIME, time_block
from contracts.release.product_kinds import product_kinds
from contracts.release.spec import ReleaseSpec
from privacy.accounting.amounts import PICO
from privacy.accounting.calculus import PureCalculus, RenyiCalculus, best_order
from privacy.evaluation.seen_releases import Seen
from privacy.evaluation.shadow_attacks import Trials
from privacy.grant.grant import Grant, open_grant
from privacy.ledger.ledger import Ledger
from privacy.ledger.terms import AccountTerms
from privacy.private_table import PrivateTable, snapshot_mark
from tasks.products.charge_request import request_for
from tasks.records.outputs import Plan
from tasks.storage.duckdb_session import attempt, connect, trouble
from tasks.storage.progress import Bar, quietly, step

LEAST_RELEASES: Final = 4
_FIRST_OF_UNIT: Final = (
    "SEMI JOIN (SELECT min(rowid) AS place FROM units GROUP BY unit) firsts ON codes.rowid = firsts.place"
)
RowNumbers = NDArray[np.int64]
OnProgress = Callable[[float, str], None]
LookAtProduct = Callable[[ReleaseSpec, Contract, Any, Grant, PrivateTable, OnProgress], Seen]
"""From spec, contract and plan, a grant, a snapshot and what moves the bar, to a release as an attacker sees it."""
Make = Callable[[int, RowNumbers, OnProgress], Seen]
"""From a number, the places of rows in the snapshot, and what moves the bar, to a release as it is seen."""


@dataclass(frozen=True, eq=False)
class Shadows:
    """Makes shadow releases of rows of a snapshot.

    Args:
        spec: the release spec.
        contract: its contract; with a declared total, that of a shadow release.
        plan: what it draws.
        table: the snapshot of the public rows.
        ledger: pays.
        folder: takes what is made on the way.
        memory_limit: DuckDB's limit, such as "1GB" [text].
    """

    spec: ReleaseSpec
    contract: Contract
    plan: Plan
    table: PrivateTable
    ledger: Ledger
    folder: Path
    memory_limit: str

    def make(self, number: int, places: RowNumbers, advance: OnProgress) -> Seen:
        """Make one release of the rows at these places of the snapshot."""
        part = self._part(number, places)
        try:
            return self._seen(self.grant(number, part), part, advance)
        finally:
            part.path.unlink(missing_ok=True)

    def _part(self, number: int, places: RowNumbers) -> PrivateTable:
        """Copy rows into a snapshot of their own."""
        path = self.folder / f"shadow-{number}.duckdb"
        copied = (
            f"ATTACH {literal(str(self.table.path))} AS whole (READ_ONLY); CREATE TABLE codes AS "
            "SELECT codes.* FROM whole.codes SEMI JOIN chosen ON codes.rowid = chosen.place"
        )
        with connect(path, memory_limit=self.memory_limit, spill=self.folder / "spill") as connection:
            connection.register("chosen", pa.table({"place": np.sort(places)}))
            attempt(lambda: connection.execute(copied), lambda error: trouble(error, path, "copying rows"))
        return PrivateTable(path, secrets.token_hex(32), self.contract.digest, f"file:shadow-{number}")

    def grant(self, number: int, part: PrivateTable) -> Grant:
        """Open an account that pays this release alone, and its grant; `part` has the rows."""
        name, run = f"shadow-{number}", f"shadow-{number}"
        mark = snapshot_mark(part.keyed_hash, self.spec.digest)
        asked = request_for(self.spec, self.contract, self.plan, run_key=run, snapshot_hash=mark, source=part.source)
        asked = replace(asked, account=name, days=None, due=None)
        cap = 10 * asked.epsilon + PICO
        order = None if not asked.delta else best_order(Fraction(cap, PICO), Fraction(asked.delta, 10**18))
        calculus = PureCalculus() if order is None else RenyiCalculus(order)
        terms = AccountTerms(name, name, LIFETIME, asked.unit, asked.adjacency, calculus, cap, asked.delta)
        self.ledger.open_account(terms)
        self.ledger.bind_source(part.source, name, time_block(LIFETIME))
        self.ledger.reserve(asked)
        return open_grant(self.ledger, run)

    def _seen(self, grant: Grant, part: PrivateTable, advance: OnProgress) -> Seen:
        """Make the product, and return what is published of it."""
        look: LookAtProduct = product_kinds()[self.spec.product.kind].load("shadow")
        return look(self.spec, self.contract, self.plan, grant, part, advance)


@contextmanager
def shadows_of(
    spec: ReleaseSpec, contract: Contract, plan: Plan, table: PrivateTable, *, memory_limit: str
) -> Iterator[Shadows]:
    """Open the ledger of shadow releases beside a snapshot of public rows, inside the block; nothing of it stays."""
    with TemporaryDirectory(dir=table.path.parent, prefix="shadows-") as name:
        folder, own = Path(name), replace(table, contract_digest=contract.digest)
        with closing(Ledger(f"sqlite:///{folder / 'ledger.sqlite'}", draws=folder / "draws")) as ledger:
            yield Shadows(spec, contract, plan, own, ledger, folder, memory_limit)


def play(
    make: Make, places: RowNumbers, *, paired: bool, releases: int, seconds: float, random: np.random.Generator
) -> tuple[tuple[Seen, ...], Trials]:
    """Toss coins for rows, and make a release of each toss, as many as there is time for.

    Args:
        make: makes a release.
        places: of the rows that coins are tossed for, in the snapshot.
        paired: whether a coin decides between two rows, places i and i + half.
        releases: how many, at most.
        seconds: for all together; at least `LEAST_RELEASES` are made, where the first says that there is time.
        random: tosses the coins.
    Returns:
        tuple: the releases, and which rows were in which.
    Raises:
        Refused: there is not time enough.
    """
    seen: list[Seen] = []
    inside: list[NDArray[np.bool_]] = []
    began = monotonic()
    with step("shadow releases") as bar:
        while len(seen) < releases:
            spent = monotonic() - began
            if seen and spent + spent / len(seen) > seconds:
                _check_time(spent / len(seen), len(seen), seconds)
                break
            inside.append(_tossed(len(places), paired, random))
            with quietly():
                seen.append(make(len(seen), places[inside[-1]], _share_of(bar, len(seen), releases)))
    return tuple(seen), Trials(np.stack(inside), len(seen) // 2, paired)


def _tossed(rows: int, paired: bool, random: np.random.Generator) -> NDArray[np.bool_]:
    if not paired:
        return random.random(rows) < 0.5
    heads = random.random(rows // 2) < 0.5
    return np.concatenate([heads, ~heads])


def _share_of(bar: Bar, number: int, releases: int) -> OnProgress:
    """Return what moves the bar within one release."""

    def advance(share: float, doing: str = "") -> None:
        bar.advance((number + min(max(share, 0.0), 1.0)) / releases, f"release {number + 1} of {releases}")

    advance(0.0)
    return advance


def _check_time(seconds_per_release: float, releases: int, seconds: float) -> None:
    """Refuse a time in which the fewest releases cannot be made."""
    if releases < LEAST_RELEASES:
        each = f"about {seconds_per_release:.0f} seconds each"
        found = f"{seconds / 60:.2g} minutes, in which {releases} were made of {each}"
        allowed = f"time for at least {LEAST_RELEASES} shadow releases"
        minutes = max(1, round(LEAST_RELEASES * 1.5 * seconds_per_release / 60 + 0.5))
        remedy = f"write --minutes {minutes}, or fewer rows or columns"
        raise Refused([Finding("the attack", "--minutes", found, allowed, remedy)])


def public_codes(
    table: PrivateTable, contract: Contract, names: Sequence[str], *, memory_limit: str
) -> tuple[NDArray[np.int64], RowNumbers]:
    """Return the codes of public rows, one a unit, and their places in the snapshot.

    Args:
        table: the snapshot of the rows that are declared public.
        contract: says what a unit is: of one with several rows the first is taken, so that a coin decides over it.
        names: the columns.
        memory_limit: DuckDB's limit.
    """
    chosen = ", ".join(f"codes.{identifier(name)}" for name in names)
    kept = "" if contract.unit.column is None else _FIRST_OF_UNIT
    query = f"SELECT codes.rowid AS {identifier(' place')}, {chosen} FROM codes {kept} ORDER BY codes.rowid"
    with connect(
        table.path, memory_limit=memory_limit, spill=table.path.parent / "spill", read_only=True
    ) as connection:
        found = attempt(
            lambda: connection.execute(query).fetchnumpy(), lambda error: trouble(error, table.path, "reading it")
        )
    codes = np.stack([np.asarray(found[name], dtype=np.int64) for name in names], axis=1)
    return codes, np.asarray(found[" place"], dtype=np.int64)
