"""The ledger is what its journal says: this module reads the journal once, folds it, and compares. In this order.

1. every entry hashes to its hash, names the one before, and has its place without gap
2. the Merkle subtrees and the head that appends rely on are those of the entries
3. every checkpoint, the ledger's own and the published ones, is what the journal held at its size; none is gone:
   each version has one, and each one that was published is still there; stated balances are what was then added up
4. every entry is one that the ledger could have written there (`entry_rules`, and `accounts.fold` for its sums)
5. no entry is dated long before an earlier one, but for those before an entry that corrects the clock
6. no cap was passed at any instant; every account, source, charge, version and draw in the tables is what the
   entries say
7. the database itself has every constraint, index and trigger that guards the ledger (`guards`)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Row, select

from contracts.errors import Finding, SudareError
from privacy.ledger.accounts.fold import Accounts, Reckoning
from privacy.ledger.accounts.table_rows import Rows
from privacy.ledger.books import read_balances, stated
from privacy.ledger.entries import GENESIS, Entry
from privacy.ledger.entry_bodies import BODY_KEYS, wrong_keys
from privacy.ledger.journal.merkle import appended, root
from privacy.ledger.journal.notes import TreeHead, read_checkpoint, signed_head
from privacy.ledger.journal.signing import key_id
from privacy.ledger.replay.entry_rules import FORGED, Lifecycle
from privacy.ledger.replay.guards import Dates, Versions, missing_guards
from privacy.ledger.store import schema
from privacy.ledger.store.journal import read_entry

_UNREADABLE: Final = (AttributeError, LookupError, TypeError, ValueError, RecursionError, SudareError)
_AT_ONCE: Final = 5_000
_CUT: Final = "entries are missing from the end: restore the ledger from a newer copy, and find out what happened"
_GONE: Final = "somebody deleted it: find out who, and restore the ledger from a copy that has it"
_ANOTHER: Final = (
    "this is another ledger, or its past was rewritten: find out what happened before anything is charged"
)


@dataclass(frozen=True)
class SignedCheckpoint:
    """What a signed checkpoint says the journal held.

    Args:
        where: where it was published.
        origin: the journal's name.
        size: number of entries.
        root: their Merkle root.
    """

    where: str
    origin: str
    size: int
    root: str


def check_ledger(
    connection: Connection, published: Iterable[SignedCheckpoint], *, public_key: str | None
) -> list[Finding]:
    """Check the whole ledger in one pass over its journal; see the module's rules."""
    first = connection.execute(select(schema.journal.c.hash).where(schema.journal.c.sequence == 0)).scalar() or ""
    own, findings = _own_checkpoints(connection, public_key)
    seen, awaited = tuple(published), dict[int, list[SignedCheckpoint]]()
    for checkpoint in (*own, *seen):
        awaited.setdefault(checkpoint.size, []).append(checkpoint)
    findings += _gone(own, seen)
    statements, wrong = _statements(connection, first, public_key)
    findings += wrong
    reading = _EntryReader(awaited)
    accounts, rows = Accounts(Reckoning()), Rows()
    lifecycle, dates, versions = Lifecycle(), Dates(), Versions(connection)
    for row in _rows(connection):
        try:
            entry = read_entry(row)
            reading.entry(entry, row)
            findings += [_contradiction(entry, *each) for each in accounts.entry(entry)]
            rows.entry(entry)
            findings += lifecycle.entry(entry, row.subject)
            dates.entry(entry)
            versions.entry(entry)
            for statement in statements.pop(entry.sequence + 1, ()):
                findings += _stated_wrongly(statement, entry, accounts)
        except _UNREADABLE as error:
            found = f"what cannot be read ({type(error).__name__})"
            findings.append(Finding(f"journal entry {row.sequence}", "body", found, "what an entry says", _ANOTHER))
    findings += [*lifecycle.end(), *dates.findings, *versions.end(), *reading.end(connection)]
    findings += [_beyond(statement) for left in statements.values() for statement in left]
    return [*findings, *_compared(connection, rows, accounts), *missing_guards(connection)]


def _contradiction(entry: Entry, where: str, field: str, found: object, allowed: object) -> Finding:
    at, told = f"journal entry {entry.sequence}", f"{where}: {found}"[:200]
    return Finding(at, f"{entry.kind}, {field}", told, str(allowed)[:200], FORGED)


def _compared(connection: Connection, rows: Rows, accounts: Accounts) -> Iterator[Finding]:
    """Yield what the tables say otherwise than the entries, or that they cannot be read."""
    try:
        yield from rows.compare(connection, accounts.balances)
    except _UNREADABLE as error:
        found = f"a row that cannot be read ({type(error).__name__})"
        yield Finding("the ledger's tables", "rows", found, "what the ledger wrote", _ANOTHER)


def _rows(connection: Connection) -> Iterator[Row[Any]]:
    query = schema.journal.select().order_by(schema.journal.c.sequence)
    yield from connection.execute(query.execution_options(yield_per=_AT_ONCE))


def _own_checkpoints(connection: Connection, public_key: str | None) -> tuple[list[SignedCheckpoint], list[Finding]]:
    """Read the checkpoints that the ledger keeps; check the signatures of those that the given key made."""
    made, findings = [], []
    for row in connection.execute(schema.checkpoints.select().order_by(schema.checkpoints.c.size)):
        where = f"checkpoint of {row.size} entries"
        by_this_key = public_key is not None and row.key_id == key_id(public_key)
        try:
            head = signed_head(row.note, str(public_key)) if by_this_key else read_checkpoint(row.note)[1]
        except ValueError:
            allowed = "the signing key's signature over the checkpoint"
            findings.append(Finding(where, "signature", "one that does not hold", allowed, _ANOTHER))
            head = TreeHead("", row.size, row.root)
        made.append(SignedCheckpoint(where, head.origin, row.size, row.root))
        if (head.size, head.root) != (row.size, row.root):
            found = f"{head.size} entries with root {head.root[:16]}…"
            findings.append(Finding(where, "note", found, "what the row of the checkpoint says", _ANOTHER))
    return made, findings


def _gone(own: Iterable[SignedCheckpoint], published: Iterable[SignedCheckpoint]) -> Iterator[Finding]:
    """Yield the published checkpoints that the ledger made and no longer has."""
    kept = {(each.size, each.root) for each in own}
    origins = {each.origin for each in own}
    for each in published:
        if (each.size, each.root) not in kept and (not origins or each.origin in origins):
            found, allowed = "no such checkpoint in the ledger", f"the checkpoint of {each.size} entries"
            yield Finding(each.where, "checkpoint", found, f"{allowed}, which the ledger made", _GONE)


def _statements(
    connection: Connection, ledger: str, public_key: str | None
) -> tuple[dict[int, list[Reckoning]], list[Finding]]:
    """Read the stated balances, by size; of those of the given key the signature must hold."""
    told: dict[int, list[Reckoning]] = {}
    findings = []
    for row in connection.execute(schema.statements.select()):
        try:
            by_this_key = public_key is not None and row.key_id == key_id(public_key)
            statement = stated(connection, ledger, str(public_key)) if by_this_key else read_balances(row)
        except _UNREADABLE:
            where = f"balances stated at {row.size} entries"
            findings.append(Finding(where, "signature", "one that does not hold", "the signing key's", _ANOTHER))
            continue
        if statement is not None:
            told.setdefault(statement.size, []).append(statement)
    return told, findings


def _stated_wrongly(statement: Reckoning, entry: Entry, accounts: Accounts) -> Iterator[Finding]:
    """Yield what a statement says otherwise than the entries that it is about."""
    where = f"balances stated at {statement.size} entries"
    if statement.head != entry.hash:
        yield Finding(where, "head", statement.head, f"{entry.hash}, the last of these entries", _ANOTHER)
    if (statement.balances, statement.waiting) != (accounts.balances, accounts.waiting):
        yield Finding(where, "balances", "other balances", "what the entries add up to", _ANOTHER)


def _beyond(statement: Reckoning) -> Finding:
    where = f"balances stated at {statement.size} entries"
    return Finding(where, "size", "fewer entries in the journal", f"at least {statement.size}", _CUT)


class _EntryReader:
    """The chain and the tree, as far as they are read."""

    def __init__(self, awaited: dict[int, list[SignedCheckpoint]]) -> None:
        self._awaited = awaited
        self._size = 0
        self._next = 0
        self._last = GENESIS
        self._frontier: tuple[str, ...] = ()
        self._findings: list[Finding] = []

    def entry(self, entry: Entry, row: Row[Any]) -> None:
        """Check one entry against those before it, and the checkpoints that ended with it."""
        kept, hashed, where = row.hash, entry.hash, f"journal entry {entry.sequence}"
        if (entry.sequence, entry.previous, kept) != (self._next, self._last, hashed):
            self._out_of_line(entry, kept, hashed)
        for key, wrong in wrong_keys(entry.kind, entry.body):
            allowed = f"these and no others: {', '.join(sorted(BODY_KEYS.get(entry.kind, BODY_KEYS)))}"
            self._findings.append(Finding(where, key, wrong, allowed, _ANOTHER))
        self._frontier, subtrees = appended(self._frontier, self._size, kept)
        if row.subtrees != " ".join(subtrees) and entry.sequence == self._size:
            self._findings.append(Finding(where, "subtrees", "other Merkle nodes", "those of the entries", _ANOTHER))
        self._size, self._next, self._last = self._size + 1, entry.sequence + 1, kept
        for checkpoint in self._awaited.pop(self._size, ()):
            self._compare(checkpoint)

    def _out_of_line(self, entry: Entry, kept: str, hashed: str) -> None:
        for field, found, expected, why in (
            ("sequence", str(entry.sequence), str(self._next), "entries have no gaps"),
            ("previous", entry.previous, self._last, "the hash of the entry before"),
            ("hash", kept, hashed, "the hash of what the entry says"),
        ):
            if found != expected:
                where = f"journal entry {entry.sequence}"
                self._findings.append(Finding(where, field, found, f"{expected}, {why}", _ANOTHER))

    def end(self, connection: Connection) -> list[Finding]:
        """Return what was found, with the head and the checkpoints that the journal is too short for."""
        head = connection.execute(schema.head.select()).first()
        frontier = json.dumps(self._frontier)
        if head is None or (head.size, head.last, head.frontier) != (self._size, self._last, frontier):
            found = "none" if head is None else f"{head.size} entries, the last one {head.last[:16]}…"
            allowed = f"{self._size} entries, the last one {self._last[:16]}…, as they are in the journal"
            self._findings.append(Finding("the journal", "head", found, allowed, _CUT))
        for size in sorted(self._awaited):
            for checkpoint in self._awaited[size]:
                found = f"{self._size} entries in the journal"
                allowed = f"at least {size}, as {checkpoint.where} has seen"
                self._findings.append(Finding(checkpoint.where, "size", found, allowed, _CUT))
        return self._findings

    def _compare(self, checkpoint: SignedCheckpoint) -> None:
        found = root(self._frontier)
        if found != checkpoint.root:
            allowed = f"{checkpoint.root}, as {checkpoint.where} has seen at {checkpoint.size} entries"
            self._findings.append(Finding(checkpoint.where, "root", found, allowed, _ANOTHER))


def summary(entry: Entry) -> dict[str, Any]:
    """Return what one line of `budget history` shows of an entry."""
    shown = {key: value for key, value in entry.body.items() if isinstance(value, str | int) and key != "salt"}
    return {"sequence": entry.sequence, "at": entry.at, "kind": entry.kind, **shown}
