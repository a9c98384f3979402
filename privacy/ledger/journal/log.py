"""The journal as a public log: what is logged of each entry, the tree over it, and the checkpoints that were signed.

Nothing here tells more of an entry than `Entry.logged`: open entries as they are, and commitments to all others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, select

from privacy.ledger.entries import OPEN, Entry
from privacy.ledger.errors import LedgerCorrupt
from privacy.ledger.journal.journal import checked_entry, tree_nodes
from privacy.ledger.journal.merkle import Nodes, consistency_proof, inclusion_proof, root
from privacy.ledger.store import schema

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
