"""The journal: append-only, hash-chained, proven by a Merkle tree under signed checkpoints.

What everybody may read tells the hour alone: how long a draw, a fit or a count takes may depend on the rows. The
sequence orders the entries. Sealed entries keep their seconds.

An append costs the same however long the journal is: the head keeps the roots of the complete Merkle subtrees, and
each entry's row keeps those that it completes, from which any proof is put together.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Row, select

from contracts.canonical import canonical_json
from contracts.errors import Finding
from privacy.ledger.entries import (
    OPEN,
    SEALED,
    TAMPERED,
    ClockBehind,
    Entry,
    EntryKind,
    LedgerCorrupt,
    corrupt_if_unreadable,
    in_order,
    is_behind,
    salted,
    to_the_hour,
)
from privacy.ledger.entry_bodies import check_keys
from privacy.ledger.journal.merkle import (
    Nodes,
    appended,
    consistency_proof,
    inclusion_proof,
    root,
    root_from_proof,
    roots_from_consistency,
)
from privacy.ledger.journal.notes import SignedNote, TreeHead, read_tree_head
from privacy.ledger.journal.signing import Signer, key_id
from privacy.ledger.store import schema
from privacy.ledger.store.database import Transaction

Clock = Callable[[], str]
PROOF_SCHEMA = "sudare-proof/1"


class Journal:
    """Writes and reads entries inside the caller's transaction.

    Args:
        clock: gives the time that is written, cut to the hour; order comes from the sequence alone. A clock less
            than a day behind the last entry counts as that entry's time: clocks of several machines differ.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def append(self, transaction: Transaction, kind: EntryKind, body: dict[str, Any], *, subject: str) -> Entry:
        """Append one entry after the last one and return it.

        Args:
            transaction: holds the write lock.
            kind: what happened.
            body: what it says; that of a kind which is not open gets a salt.
            subject: what it is about, to find it again: a run key, or the name of an account or a source.
        """
        now = self._now(transaction)
        at = now if kind in SEALED else to_the_hour(now)
        body = body if kind in OPEN else salted(body)
        entry = Entry(transaction.size, transaction.last, kind, at, body)
        hashed = entry.hash
        frontier, subtrees = appended(transaction.frontier, transaction.size, hashed)
        values = {**entry.to_json(), "body": canonical_json(body).decode(), "hash": hashed}
        values |= {"subject": subject, "subtrees": " ".join(subtrees)}
        transaction.connection.execute(schema.journal.insert(), values)
        transaction.size, transaction.last, transaction.frontier = entry.sequence + 1, hashed, frontier
        transaction.at = at
        head = {"size": transaction.size, "last": hashed, "frontier": json.dumps(frontier)}
        transaction.connection.execute(schema.head.update(), head)
        return entry

    def _now(self, transaction: Transaction) -> str:
        """Return the time to write, not before the last entry's where clocks differ by less than a day."""
        with corrupt_if_unreadable("the time of the journal's last entry"):
            return in_order(self._clock(), transaction.at)

    def check_clock(self, transaction: Transaction) -> None:
        """Refuse a clock that is more than a day behind the last entry: what is charged by it would never verify.

        Raises:
            ClockBehind: it is; nothing was charged.
        """
        now, last = self._clock(), transaction.at
        if last is not None and is_behind(now, last):
            allowed = f"at most a day before {last}, the time of the journal's last entry"
            remedy = (
                "set this machine's clock; if it is right, the one before was wrong: sudare budget clock --correct"
            )
            raise ClockBehind([Finding("this machine", "clock", now, allowed, remedy)])

    def entries(
        self, connection: Connection, *, kind: EntryKind | None = None, subject: str | None = None
    ) -> Iterator[Entry]:
        """Yield the entries in order: all, or those of one kind, or about one subject.

        Raises:
            LedgerCorrupt: an entry's stored hash is not the hash of what it says.
        """
        query = schema.journal.select().order_by(schema.journal.c.sequence)
        if kind is not None:
            query = query.where(schema.journal.c.kind == kind)
        if subject is not None:
            query = query.where(schema.journal.c.subject == subject)
        for row in connection.execute(query):
            yield checked_entry(row)

    def first_hash(self, connection: Connection) -> str | None:
        """Return the ledger's identity, the hash of its first entry, or None where it has none."""
        query = select(schema.journal.c.hash).where(schema.journal.c.sequence == 0)
        found: str | None = connection.execute(query).scalar()
        return found

    def prove(
        self, transaction: Transaction, entries: Sequence[Entry], signer: Signer, *, run_key: str, follows: str | None
    ) -> dict[str, Any]:
        """Return the proof that `entries` are in the journal: audit paths to a checkpoint signed here and now.

        The proof also shows that the journal begins with what it held at the checkpoint before, and at that of the
        version before: a journal that was cut and grown anew cannot show it.

        Args:
            transaction: holds the write lock.
            entries: what is proven.
            signer: signs the checkpoint.
            run_key: the run that the proof is for.
            follows: the run of the version before, if there is one.
        """
        nodes = tree_nodes(transaction.connection)
        head = tree_head(transaction, signer)
        note = signer.note(head.text)
        proof = {
            "schema": PROOF_SCHEMA,
            "entries": [_proven(nodes, entry, transaction.size) for entry in entries],
            "checkpoint": note.to_bytes().decode(),
            "earlier": [
                {"size": size, "root": held, "path": list(consistency_proof(nodes, size, transaction.size))}
                for size, held in _named_or_last(transaction, entries, follows)
            ],
        }
        _check_paths(proof, head)
        at = to_the_hour(self._now(transaction))
        _keep(transaction.connection, note, run_key=run_key, by=key_id(signer.public_key), at=at)
        return proof


def tree_head(transaction: Transaction, signer: Signer) -> TreeHead:
    """Return what a checkpoint of the journal says here and now, under a signer's name."""
    return TreeHead(signer.verifier.name, transaction.size, root(transaction.frontier))


def _proven(nodes: Nodes, entry: Entry, size: int) -> dict[str, Any]:
    return {"entry": entry.to_json(), "path": list(inclusion_proof(nodes, entry.sequence, size))}


def _check_paths(proof: dict[str, Any], head: TreeHead) -> None:
    """Refuse a proof that does not hold: a node of the tree, or an earlier checkpoint, was changed in the tables."""
    size, whole = head.size, head.root
    for proven in proof["entries"]:
        entry = Entry(**proven["entry"])
        if root_from_proof(entry.hash, entry.sequence, size, proven["path"]) != whole:
            raise LedgerCorrupt(f"journal entry {entry.sequence} does not lead to the journal's root; {TAMPERED}")
    for each in proof["earlier"]:
        if roots_from_consistency(each["size"], size, each["root"], each["path"]) != (each["root"], whole):
            raise LedgerCorrupt(f"the checkpoint of {each['size']} entries does not lead to the root; {TAMPERED}")


def _keep(connection: Connection, note: SignedNote, *, run_key: str, by: str, at: str) -> None:
    """Remember a checkpoint; of two of the same size, run and key the first stays."""
    table, head = schema.checkpoints, read_tree_head(note.text)
    same = (table.c.size == head.size) & (table.c.run_key == run_key)
    if connection.execute(select(table.c.size).where(same & (table.c.key_id == by))).first() is None:
        values = {"size": head.size, "root": head.root, "at": at, "note": note.to_bytes().decode()}
        connection.execute(table.insert().values(**values, run_key=run_key, key_id=by))


def _named_or_last(transaction: Transaction, entries: Sequence[Entry], follows: str | None) -> list[tuple[int, str]]:
    """Return the checkpoints that a publication among the entries names, and the last ones before this moment."""
    published = (entry for entry in entries if entry.kind == "version_published")
    named = [each for entry in published for each in entry.body["earlier"]]
    return sorted({(each["size"], each["root"]) for each in named} | set(earlier_checkpoints(transaction, follows)))


def earlier_checkpoints(transaction: Transaction, follows: str | None) -> list[tuple[int, str]]:
    """Return size and root of the last checkpoint, and of those of the run that this one follows."""
    table = schema.checkpoints
    before = select(table.c.size, table.c.root).where(table.c.size < transaction.size)
    queries = [before.order_by(table.c.size.desc()).limit(1)]
    if follows is not None:
        queries.append(before.where(table.c.run_key == follows))
    return sorted({(row.size, row.root) for query in queries for row in transaction.connection.execute(query)})


def read_entry(row: Row[Any]) -> Entry:
    """Read one row of the journal, as it stands."""
    return Entry(row.sequence, row.previous, row.kind, row.at, json.loads(row.body))


def checked_entry(row: Row[Any]) -> Entry:
    """Read one row of the journal; `LedgerCorrupt` when its hash or its keys are not those of such an entry."""
    entry = read_entry(row)
    if entry.hash != row.hash:
        raise LedgerCorrupt(f"journal entry {row.sequence}: its hash is not the hash of what it says")
    check_keys(entry)
    return entry


def tree_nodes(connection: Connection) -> Nodes:
    """Return how to look up a node of the tree: a leaf, or a subtree in the row of the entry that completes it."""

    @cache
    def node(level: int, index: int) -> str:
        completing = ((index + 1) << level) - 1
        query = schema.journal.select().where(schema.journal.c.sequence == completing)
        row = connection.execute(query).first()
        if row is None:
            raise LedgerCorrupt(f"journal entry {completing} is missing")
        if level == 0:
            return str(row.hash)
        subtrees = row.subtrees.split()
        if len(subtrees) < level:
            raise LedgerCorrupt(f"journal entry {completing} does not have its Merkle subtrees")
        return str(subtrees[level - 1])

    return node


# --- The journal as a public log.


_J = schema.journal.c


class JournalLog:
    """One committed state of a journal.

    Args:
        connection: reads one state.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        head = connection.execute(schema.head.select()).first()
        if head is None:
            raise LedgerCorrupt("the row of journal_head is gone: restore the ledger from a copy")
        self.size: int = head.size
        self.root = root(json.loads(head.frontier))
        self.nodes: Nodes = tree_nodes(connection)

    def logged(self, begin: int, end: int) -> tuple[bytes, ...]:
        """Return what is logged of the entries begin to end - 1.

        Raises:
            LedgerCorrupt: an entry is missing, or does not hash to its hash.
        """
        query = schema.journal.select().where(_J.sequence >= begin, _J.sequence < end).order_by(_J.sequence)
        logged = tuple(checked_entry(row).logged for row in self._connection.execute(query))
        if len(logged) != end - begin:
            raise LedgerCorrupt(f"journal entries {begin} to {end - 1}: {end - begin - len(logged)} are missing")
        return logged

    def open_entries(self) -> Iterator[Entry]:
        """Yield the open entries in order: publications and withdrawals of all releases, and changes of the key."""
        query = schema.journal.select().where(_J.kind.in_(OPEN), _J.sequence < self.size).order_by(_J.sequence)
        for row in self._connection.execute(query):
            yield checked_entry(row)

    def proven(self, entry: Entry) -> dict[str, Any]:
        """Return an entry with its audit path to the root, as JSON values."""
        return {"entry": entry.to_json(), "path": list(inclusion_proof(self.nodes, entry.sequence, self.size))}

    def consistency(self, earlier: int, size: int) -> tuple[str, ...]:
        """Return the proof that the journal of `size` entries begins with what it held at an earlier size."""
        return consistency_proof(self.nodes, earlier, size) if 0 < earlier < size else ()

    def earlier(self, run_keys: set[str]) -> list[dict[str, Any]]:
        """Return each checkpoint that was signed for some runs, with the proof that the journal begins with it."""
        table = schema.checkpoints.c
        query = select(table.size, table.root).where(table.run_key.in_(sorted(run_keys)), table.size <= self.size)
        held = sorted({(row.size, row.root) for row in self._connection.execute(query)})
        return [
            {"size": size, "root": root_then, "path": list(consistency_proof(self.nodes, size, self.size))}
            for size, root_then in held
        ]
