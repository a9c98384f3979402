"""The ledger's database, read and written with the accounts as the journal adds up.

Every few entries, and at each publication, the balances of all accounts are signed and kept (one statement for each
key, in the table `statements`). The next charge begins there, so that its cost does not grow with the journal. What
a process has added up already it remembers, and does not read again. A statement that is missing, or an older one in
its place, costs time only: then more entries are read.

How many entries there were, and the hash of the last, is also marked in the private folder, outside the database: an
older copy of the database, or one whose past was rewritten without the key, is then refused by the next command.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Final

from sqlalchemy import Connection, Row, select

from contracts.canonical import canonical_json
from contracts.errors import Finding
from privacy.ledger.accounts.fold import Balance, Reckoning, reckon
from privacy.ledger.entries import TAMPERED, LedgerCorrupt
from privacy.ledger.journal.signing import Signer, key_id, signature_holds
from privacy.ledger.store import schema
from privacy.ledger.store.database import Store, Transaction
from privacy.ledger.store.ledger_rows import to_text

EVERY: Final = 64  # entries from one statement to the next
_MARK: Final = "journal-seen-"
_UNSEEN: Final = (
    "entries were cut off or rewritten, or an older copy of the ledger was put in its place without `sudare budget "
    "restore`: charge nothing, and find out who did"
)

LedgerMark = tuple[int, str]
"""How many entries a workspace has seen of a journal, and the hash of the last of them."""


class Books:
    """The store of one ledger, and what of its journal is added up.

    Args:
        store: the database.
        ledger: identity of the ledger, the hash of its first entry.
        folder: private folder of the mark.
        signer: signs statements; without one no more are made.
        public_key: key whose statements are believed; without one the whole journal is read once.
    """

    def __init__(
        self, store: Store, ledger: str, *, folder: Path, signer: Signer | None, public_key: str | None
    ) -> None:
        self._store = store
        self._mark = folder / f"{_MARK}{ledger[:16]}.json"
        self._ledger = ledger
        self._signer = signer
        self._public_key = public_key
        self._known = Reckoning()

    @contextmanager
    def reading(self) -> Iterator[tuple[Connection, Reckoning]]:
        """Open a reading transaction, with the accounts as they add up; `LedgerCorrupt` where they do not."""
        mark = self.marked()
        with self._store.reading() as connection:
            yield connection, self._reckon(connection, mark)

    @contextmanager
    def writing(self) -> Iterator[tuple[Transaction, Reckoning]]:
        """Open a writing transaction, with the accounts as they add up; state them where it is time to."""
        if not self._known.size:
            with self.reading():
                pass  # nobody waits at the lock while a long journal is read
        mark = self.marked()
        with self._store.writing() as transaction:
            began, reckoning = transaction.size, self._reckon(transaction.connection, mark)
            yield transaction, reckoning
            if self._signer is not None and began // EVERY != transaction.size // EVERY:
                self.state(transaction, reckon(transaction.connection, reckoning), self._signer)
        if transaction.size > began:
            self._set_mark(transaction.size, transaction.last)

    def state(self, transaction: Transaction, reckoning: Reckoning, signer: Signer) -> None:
        """Sign the balances, and keep them in place of those that this key has signed before."""
        told = {name: each.to_json() for name, each in reckoning.balances.items()}
        total = {"head": reckoning.head, "frontier": list(reckoning.frontier), "balances": told}
        balances = to_text({**total, "waiting": dict(reckoning.waiting)})
        by, table = key_id(signer.public_key), schema.statements
        signature = signer.sign("balances", _signed(self._ledger, reckoning.size, balances))
        transaction.connection.execute(table.delete().where(table.c.key_id == by))
        values = {"key_id": by, "size": reckoning.size, "balances": balances, "signature": signature}
        transaction.connection.execute(table.insert(), values)

    def _reckon(self, connection: Connection, mark: LedgerMark | None) -> Reckoning:
        """Add up what follows on what is known, or on the statement if that is much nearer to the end."""
        size = int(connection.execute(select(schema.head.c.size)).scalar() or 0)
        since = self._known
        if not since.size:
            for finding in self.unseen(connection, mark):
                raise LedgerCorrupt(str(finding))
        if size - since.size > 2 * EVERY and self._public_key is not None:
            told = stated(connection, self._ledger, self._public_key)
            since = told if told is not None and told.size > since.size else since
        self._known = reckon(connection, since)
        return self._known

    def _set_mark(self, size: int, head: str) -> None:
        """Mark what is committed. Of two processes the slower may mark fewer entries, which is as true."""
        self._mark.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=self._mark.parent, suffix=".partial", delete=False) as file:  # mode 0600
            file.write(canonical_json({"size": size, "head": head}))
        Path(file.name).replace(self._mark)

    def marked(self) -> LedgerMark | None:
        """Return the mark; None where there is none yet, or where a crash of the machine has spoiled it.

        It is read before the transaction that it is held against: others may commit and mark more meanwhile.
        """
        try:
            told = json.loads(self._mark.read_bytes())
            return int(told["size"]), str(told["head"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def unseen(self, connection: Connection, mark: LedgerMark | None) -> list[Finding]:
        """Return a finding where the journal does not hold what this workspace had seen of it at the mark."""
        if mark is None:
            return []
        size, head = mark
        journal = schema.journal.c
        found = connection.execute(select(journal.hash).where(journal.sequence == size - 1)).scalar()
        if found == head:
            return []
        told = "none" if found is None else f"{found[:16]}…"
        allowed = f"{head[:16]}…, the last of {size} entries that this workspace has seen ({self._mark})"
        return [Finding(f"journal entry {size - 1}", "hash", told, allowed, _UNSEEN)]


def forget_marks(folder: Path) -> None:
    """Forget what a workspace has seen of its ledgers: one of them is restored from a copy that was checked."""
    for mark in folder.glob(f"{_MARK}*.json"):
        mark.unlink()


def stated(connection: Connection, ledger: str, public_key: str) -> Reckoning | None:
    """Return what a key has last stated, or None.

    Raises:
        LedgerCorrupt: its signature does not hold.
    """
    table = schema.statements
    row = connection.execute(table.select().where(table.c.key_id == key_id(public_key))).first()
    if row is None:
        return None
    if not signature_holds(public_key, "balances", _signed(ledger, row.size, row.balances), row.signature):
        raise LedgerCorrupt(f"the balances stated at {row.size} entries: the signature does not hold; {TAMPERED}")
    return read_balances(row)


def read_balances(row: Row[Any]) -> Reckoning:
    """Read what a row states, whoever signed it."""
    return _read(row.size, row.balances)


def _signed(ledger: str, size: int, balances: str) -> dict[str, Any]:
    return {"ledger": ledger, "size": size, "balances": balances}


@lru_cache(maxsize=2)
def _read(size: int, text: str) -> Reckoning:
    told = json.loads(text)
    balances = {name: Balance(*each) for name, each in told["balances"].items()}
    return Reckoning(size, told["head"], tuple(told["frontier"]), balances, told["waiting"])
