"""Ledgers, accounts and handles for the tests; real ones, wherever a test wants them."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, NullPool, create_engine, make_url, text

from contracts.periods.time_blocks import time_block
from privacy.accounting.amounts import ATTO, PICO
from privacy.accounting.calculus import Calculus, PureCalculus, RenyiCalculus
from privacy.accounting.events import PrivacyEvent, ZeroConcentrated
from privacy.grant.grant import Grant, open_grant
from privacy.ledger.accounts import version_entries as publishing
from privacy.ledger.entries import Entry
from privacy.ledger.journal.signing import Signer
from privacy.ledger.ledger import Clock, Ledger, utc_now
from privacy.ledger.terms import AccountTerms, ChargeRequest
from privacy.marginals.counts import PrivateCounts
from privacy.marginals.sensitivity import LaplaceNoise, Noise, noise_event
from privacy.noise.random_bytes import SeededBytes
from privacy.private_table import snapshot_mark

CALCULI: tuple[Calculus, ...] = (PureCalculus(), RenyiCalculus(Fraction(12)))
KEYED_HASH = "c" * 64
SIGNER = Signer(bytes(range(32)))
HALF = LaplaceNoise(Fraction(1, 2))
SOURCE = "file:people.parquet"


@dataclass
class Place:
    """Where a ledger lives: the URL of its database, and a folder for its draws. Closes what was opened on it."""

    url: str
    folder: Path
    opened: list[Ledger] = field(default_factory=list)

    @property
    def kind(self) -> str:
        return make_url(self.url).get_backend_name()

    def open(self, *, clock: Clock = utc_now) -> Ledger:
        ledger = Ledger(self.url, draws=self.folder / "draws", clock=clock)
        self.opened.append(ledger)
        return ledger

    def open_unseen(self) -> Ledger:
        """Open it in a workspace that has never seen it: nothing outside the database speaks against the database."""
        ledger = Ledger(self.url, draws=self.folder / f"unseen-{len(self.opened)}")
        self.opened.append(ledger)
        return ledger

    def close(self) -> None:
        while self.opened:
            self.opened.pop().close()

    @contextmanager
    def by_hand(self) -> Iterator[Connection]:
        url = make_url(self.url)
        named = url if self.kind == "sqlite" else url.set(drivername="postgresql+psycopg")
        engine = create_engine(named, poolclass=NullPool)
        with engine.begin() as connection:
            yield connection

    def execute(self, *statements: str) -> None:
        with self.by_hand() as connection:
            for statement in statements:
                connection.execute(text(statement))

    def start(self, script: str, *arguments: str) -> subprocess.Popen[str]:
        head = "import sys\nfrom pathlib import Path\nfrom tests.privacy.ledger.ledgers import *\n"
        given = "place, arguments = Place(sys.argv[1], Path(sys.argv[2])), sys.argv[3:]\n"
        command = [sys.executable, "-c", head + given + script, self.url, str(self.folder), *arguments]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def terms(
    calculus: Calculus | None = None,
    *,
    epsilon: int = 3,
    block: str = "2024",
    name: str | None = None,
    **changed: str,
) -> AccountTerms:
    calculus = calculus or PureCalculus()
    delta = 0 if calculus.kind == "pure" else ATTO // 10**9
    name = name or f"people-{block}"
    made = AccountTerms(name, "people", block, "row", "add_remove", calculus, epsilon * PICO, delta)
    return replace(made, **changed)  # type: ignore[arg-type]


def request(run_key: str = "run-1", *, noise: tuple[Noise, ...] = (HALF, HALF), **changed: object) -> ChargeRequest:
    events = tuple(noise_event(part, adjacency="add_remove", rows_per_unit=1) for part in noise)
    made = ChargeRequest(
        run_key=run_key,
        account="people-2024",
        source=SOURCE,
        release="people-tables",
        spec_digest="a" * 64,
        contract_digest="b" * 64,
        snapshot_hash=snapshot_mark(KEYED_HASH, "a" * 64),
        adjacency="add_remove",
        unit="row",
        scope="block",
        rows_per_unit=1,
        events=events,
        epsilon=PICO,
        delta=0,
    )
    return replace(made, **changed)  # type: ignore[arg-type]


def laplace(amount: Fraction | float | int) -> tuple[Noise, ...]:
    return (LaplaceNoise(Fraction(str(amount))),)


def bind(ledger: Ledger, block: str, *, source: str = SOURCE, population: str = "people") -> str:
    ledger.bind_source(source, population, time_block(block))
    return source


def ledger_with_account(place: Place, calculus: Calculus | None = None, *, epsilon: int = 3) -> Ledger:
    ledger = place.open()
    ledger.open_account(terms(calculus, epsilon=epsilon))
    bind(ledger, "2024")
    return ledger


def opened(place: Place, *blocks: str, epsilon: int = 3) -> Ledger:
    ledger = place.open()
    for block in blocks:
        ledger.open_account(terms(block=block, epsilon=epsilon))
    return ledger


def opened_grant(
    place: Place,
    events: tuple[PrivacyEvent, ...] = (ZeroConcentrated(Fraction(1)),),
    *,
    seeded: bool = False,
    **changed: Any,
) -> tuple[Ledger, Grant]:
    """A ledger whose account has the request's adjacency and rows of a unit and room for all, and its grant."""
    made = request(events=events, delta=ATTO // 10**9, **changed)
    ledger = place.open()
    ledger.open_account(terms(RenyiCalculus(Fraction(12)), epsilon=90, adjacency=made.adjacency))
    bind(ledger, "2024")
    ledger.reserve(made)
    return ledger, open_grant(ledger, "run-1", seeded=SeededBytes(7) if seeded else None)


def record_publication(ledger: Ledger, run_key: str, manifest: str) -> Entry:
    """Enter a publication and prove nothing; `Ledger.publish` does both in one transaction."""
    with ledger._books.writing() as (transaction, _):
        return publishing.publish(transaction, ledger._journal, run_key, manifest)


def published(ledger: Ledger, run_key: str, **changed: object) -> None:
    ledger.reserve(request(run_key, **changed))  # type: ignore[arg-type]
    open_grant(ledger, run_key)
    ledger.allocate_version(run_key)
    record_publication(ledger, run_key, "e" * 64)
    ledger.prove(run_key, SIGNER)


class Counted:
    def __init__(
        self, counts: NDArray[np.int64], clique: tuple[str, ...] = ("age",), keyed_hash: str = KEYED_HASH
    ) -> None:
        self.opened = 0
        self._counts = counts
        self.handle = PrivateCounts(clique, counts.shape, keyed_hash, "b" * 64, self._count)

    def _count(self) -> NDArray[np.int64]:
        self.opened += 1
        return self._counts
