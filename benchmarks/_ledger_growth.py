"""A ledger that is grown to a million entries, and what a charge, a proof and a full check cost before and after.

Each run is one charge, one grant, two draws and one publication, so the tables grow with the journal. The entries go
through `Journal.append` itself; only the rows that it writes are collected and sent together, thousands at a time.
"""

from __future__ import annotations

import multiprocessing
import resource
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Insert, Update

from benchmarks._ledger_places import ACCOUNT, EPSILON, SIGNER, connect, request
from contracts.canonical import digest
from privacy.accounting.amounts import PICO
from privacy.ledger.accounts.admission import Admission
from privacy.ledger.accounts.charges import take
from privacy.ledger.accounts.fold import Balance, Reckoning
from privacy.ledger.books import Books
from privacy.ledger.entries import BudgetExceeded
from privacy.ledger.journal.merkle import root
from privacy.ledger.journal.notes import TreeHead
from privacy.ledger.journal.signing import key_id
from privacy.ledger.ledger import Ledger, utc_now
from privacy.ledger.store import schema
from privacy.ledger.store.database import Store, Transaction
from privacy.ledger.store.journal import Journal
from privacy.ledger.store.ledger_rows import to_text
from privacy.ledger.terms import AccountState, ChargePart

SMALL: Final = 1_000
LARGE: Final = 1_000_000
SIZES: Final = (SMALL, 100_000, LARGE)
"""The journals that are compared, the smallest first [entries]."""
REPEATS: Final = 301
_DRAWS: Final = 2
_ENTRIES: Final = 3 + _DRAWS  # of a run
_TOGETHER: Final = 2_000  # runs
_VERSIONS: Final = 200  # of a release
_AMOUNT: Final = int(EPSILON * PICO)


_WhereT = TypeVar("_WhereT")


class Collected:
    """Takes the place of a connection that is only written to: it keeps the rows, and sends them all at the end."""

    def __init__(self) -> None:
        self.rows: dict[Any, list[dict[str, Any]]] = {}
        self._updates: dict[Any, tuple[Update, dict[str, Any]]] = {}

    def execute(self, statement: Insert | Update, values: Any) -> None:
        """Keep new rows, and of the updates of a table the last one: there is one head and one account."""
        if isinstance(statement, Insert):
            self.rows.setdefault(statement.table, []).extend(values if isinstance(values, list) else [values])
        else:
            self._updates[statement.table] = (statement, values)

    def send(self, connection: Connection) -> None:
        """Write everything; tables that others refer to come first, as they were first written to."""
        for table, rows in self.rows.items():
            connection.execute(table.insert(), rows)
        for statement, values in self._updates.values():
            connection.execute(statement, values)


def grow(url: str, folder: Path, *, until: int) -> float:
    """Grow the journal to about so many entries; return the seconds it took."""
    began, store, journal = perf_counter(), Store(url), Journal(utc_now)
    with closing(connect(url, folder)) as ledger:
        account, first = ledger.account(ACCOUNT), ledger.journal()[0].hash
    with closing(store):
        for batch in _batches(until):
            with store.writing() as transaction:
                collected = Collected()
                writing = replace(transaction, connection=collected)  # type: ignore[arg-type]
                for number in batch:
                    account = enter(writing, collected, journal, _grown(number), account)
                    _sign(writing, collected, _grown(number).key)
                collected.send(transaction.connection)
        with store.writing() as transaction:
            _state(store, transaction, account, first, folder)
    return perf_counter() - began


def _sign(writing: Transaction, collected: Collected, run_key: str) -> None:
    """Sign the checkpoint of a version, as each publication does."""
    head = TreeHead(SIGNER.verifier.name, writing.size, root(writing.frontier))
    told = {"size": head.size, "root": head.root, "at": utc_now(), "note": SIGNER.note(head.text).to_bytes().decode()}
    collected.execute(schema.checkpoints.insert(), {"run_key": run_key, "key_id": key_id(SIGNER.public_key), **told})


def _state(store: Store, transaction: Transaction, account: AccountState, ledger: str, folder: Path) -> None:
    """State the balances, as each publication does."""
    balance = Balance(
        to_text(account.terms.to_json()), account.cap, account.spent, "open", transaction.size - _ENTRIES
    )
    reckoning = Reckoning(transaction.size, transaction.last, transaction.frontier, {ACCOUNT: balance})
    books = Books(store, ledger, folder=folder / "draws", signer=SIGNER, public_key=SIGNER.public_key)
    books.state(transaction, reckoning, SIGNER)


def _batches(until: int) -> Iterator[range]:
    runs = until // _ENTRIES
    for begin in range(0, runs, _TOGETHER):
        yield range(begin, min(begin + _TOGETHER, runs))


def _grown(number: int) -> GrownRun:
    version = number % _VERSIONS + 1
    release, newest = f"release-{number // _VERSIONS}", version == _VERSIONS
    return GrownRun(f"grown-{number}", release, version, digest(number), newest, _DRAWS)


@dataclass(frozen=True)
class GrownRun:
    """A run that is to be entered whole.

    Args:
        key: of the run.
        release: of what.
        version: its number.
        manifest: SHA-256 of its manifest.
        newest: whether no later version stands.
        draws: how many.
    """

    key: str
    release: str
    version: int
    manifest: str
    newest: bool
    draws: int


def enter(
    writing: Transaction, collected: Collected, journal: Journal, run: GrownRun, account: AccountState
) -> AccountState:
    """Enter one whole run: charged, opened, drawn, published; return the account after it."""
    asked, write = request(run.key, release=run.release, draws=run.draws), collected.execute
    priced = Admission(("people", account.terms.days), (account,), (ChargePart(ACCOUNT, _AMOUNT),))
    take(writing, journal, asked, priced, unopened={ACCOUNT: 0}, again=False)
    collected.rows[schema.charges][-1].update(status="published", security="csprng")
    granted = {"run_key": run.key, "security": "csprng", "draws_folder": "0" * 32}
    journal.append(writing, "grant_opened", granted, subject=run.key)
    for draw, event in enumerate(asked.events):
        values = {"run_key": run.key, "key": f"draw-{draw}", "number": draw, "sha256": digest(draw)}
        write(schema.draws.insert(), {**values, "event": to_text(event.to_json())})
        body = {**values, "event": event.to_json(), "costs": {ACCOUNT: _AMOUNT // run.draws}}
        journal.append(writing, "noise_drawn", body, subject=run.key)
    named = {"run_key": run.key, "release": run.release, "number": run.version, "manifest": run.manifest}
    write(schema.versions.insert(), {**named, "status": "published" if run.newest else "superseded"})
    body = {**named, "supersedes": run.version - 1 or None, "earlier": []}
    journal.append(writing, "version_published", body, subject=run.key)
    return replace(account, spent=account.spent + _AMOUNT)


# --- what it costs ----------------------------------------------------------------------------------------------


def reserve(ledger: Ledger, run_key: str) -> None:
    """Charge once."""
    ledger.reserve(request(run_key))


def reserve_first(where: tuple[str, Path], run_key: str) -> None:
    """Connect and charge once, as a new process does: it begins at the signed statement of balances."""
    with closing(connect(*where)) as ledger:
        ledger.reserve(request(run_key))


def refuse(ledger: Ledger, run_key: str) -> None:
    """Ask for more than any account here holds."""
    with suppress(BudgetExceeded):
        ledger.reserve(request(run_key, epsilon=Fraction(10_000)))


def prove(ledger: Ledger, run_key: str) -> None:
    """Prove the first run that was grown."""
    ledger.prove("grown-0", SIGNER)


def medians(ledgers: Sequence[_WhereT], act: Callable[[_WhereT, str], None], *, repeats: int) -> list[float]:
    """Return the median seconds of an act on each ledger; they take turns, so that all meet the same load."""
    seconds: list[list[float]] = [[] for _ in ledgers]
    for repeat in range(-5, repeats):
        for ledger, taken in zip(ledgers, seconds, strict=True):
            began = perf_counter()
            act(ledger, f"{act.__name__}-{repeat}")
            if repeat >= 0:
                taken.append(perf_counter() - began)
    return [median(taken) for taken in seconds]


@dataclass(frozen=True)
class Checked:
    """A full check of a ledger, in a process of its own.

    Args:
        findings: number of findings.
        seconds: how long it took [s].
        peak_mib: the most memory that the process held [MiB].
    """

    findings: int
    seconds: float
    peak_mib: float


def checked(url: str, folder: Path) -> Checked:
    """Check a whole ledger, with the checkpoints' signatures."""
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_check, args=(url, folder, send))
    process.start()
    send.close()  # a process that fails is then the end of what can be received
    told: Checked = receive.recv()
    process.join()
    return told


def _check(url: str, folder: Path, send: Pipe) -> None:
    with closing(connect(url, folder)) as ledger:
        began = perf_counter()
        findings = ledger.verify(public_key=SIGNER.public_key)
        seconds = perf_counter() - began
    send.send(Checked(len(findings), seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))
