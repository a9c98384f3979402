"""The journal: append-only, hash-chained, proven by Merkle trees under signed checkpoints."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sqlalchemy import Connection

from privacy.ledger import store
from privacy.ledger.entries import GENESIS, Entry, Kind
from privacy.ledger.errors import LedgerCorrupt
from privacy.ledger.merkle import inclusion_proof, root
from privacy.ledger.rows import to_text
from privacy.ledger.signing import Signer, key_id

Clock = Callable[[], str]
PROOF_SCHEMA = "sudare-proof/1"


class Journal:
    """Writes and reads entries inside the caller's transaction.

    Args:
        clock: gives the time that is written into entries; order comes from the sequence alone.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def append(self, connection: Connection, kind: Kind, body: dict[str, Any]) -> Entry:
        """Append one entry after the head and return it."""
        head = self.head(connection)
        sequence, previous = (0, GENESIS) if head is None else (head.sequence + 1, head.hash)
        entry = Entry(sequence, previous, kind, self._clock(), body)
        values = {**entry.to_json(), "body": to_text(body), "hash": entry.hash}
        connection.execute(store.journal.insert().values(**values))
        return entry

    def head(self, connection: Connection) -> Entry | None:
        """Return the last entry, or None."""
        query = store.journal.select().order_by(store.journal.c.sequence.desc()).limit(1)
        row = connection.execute(query).first()
        return None if row is None else read_entry(row)

    def entries(self, connection: Connection, kind: Kind | None = None) -> Iterator[Entry]:
        """Yield the entries in order, all or those of one kind.

        Raises:
            LedgerCorrupt: an entry's stored hash is not the hash of what it says.
        """
        query = store.journal.select().order_by(store.journal.c.sequence)
        if kind is not None:
            query = query.where(store.journal.c.kind == kind)
        for row in connection.execute(query):
            entry = read_entry(row)
            if entry.hash != row.hash:
                raise LedgerCorrupt(f"journal entry {row.sequence}: its hash is not the hash of what it says")
            yield entry

    def prove(self, connection: Connection, entries: Sequence[Entry], signer: Signer) -> dict[str, Any]:
        """Return the proof that `entries` are in the journal: audit paths to a checkpoint signed here and now."""
        query = store.journal.select().order_by(store.journal.c.sequence)
        hashes = [row.hash for row in connection.execute(query)]
        checkpoint = {"size": len(hashes), "root": root(hashes), "head": hashes[-1], "at": self._clock()}
        proven = [
            {"entry": entry.to_json(), "path": list(inclusion_proof(hashes, entry.sequence))} for entry in entries
        ]
        return {
            "schema": PROOF_SCHEMA,
            "entries": proven,
            "checkpoint": checkpoint,
            "key_id": key_id(signer.public_key),
            "signature": signer.sign("checkpoint", checkpoint),
        }


def read_entry(row: Any) -> Entry:
    """Read one row of the journal, as it stands."""
    return Entry(row.sequence, row.previous, row.kind, row.at, json.loads(row.body))
