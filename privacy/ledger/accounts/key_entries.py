"""Changes of the signing key in the journal: each is one entry, under the next number, at the place that it names."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection

from privacy.ledger.entries import to_the_hour
from privacy.ledger.errors import refusal
from privacy.ledger.journal.journal import Clock, Journal
from privacy.ledger.journal.key_changes import KeyChange, SignedChange, read_change
from privacy.ledger.store.database import Transaction

SignChange = Callable[[KeyChange], SignedChange]
"""Signs a change of the key with the keys that it needs."""


def key_changes(journal: Journal, connection: Connection) -> tuple[SignedChange, ...]:
    """Return the changes that the journal has, in their order."""
    return tuple(read_change(entry.body["note"]) for entry in journal.entries(connection, kind="key_changed"))


def change_key(
    transaction: Transaction, journal: Journal, clock: Clock, *, kind: str, key: str, successor: str, sign: SignChange
) -> SignedChange:
    """Enter a change of the signing key; the last one again changes nothing.

    Args:
        transaction: holds the write lock.
        journal: the journal.
        clock: gives the hour that the note states.
        kind: rotated or revoked.
        key: the key that is changed.
        successor: the key that signs from now on.
        sign: signs the note.
    Raises:
        LedgerRefusal: the key was changed already, to another one.
    """
    known = key_changes(journal, transaction.connection)
    for each in known:
        if (each.change.kind, each.change.key, each.change.successor) == (kind, key, successor):
            return each
        if each.change.key == key and kind == "rotated":
            allowed = "a key that was not changed yet"
            raise refusal("the journal", "signing key", f"changed already, at {each.change.at}", allowed)
    number, at = 1 + len(known), to_the_hour(clock())
    made = sign(KeyChange(number, kind, key, successor, transaction.size, at))  # type: ignore[arg-type]
    journal.append(transaction, "key_changed", {"note": made.note.to_bytes().decode()}, subject="")
    return made
