"""The journal's entries: frozen, canonical, each naming the hash of the one before.

    logged(entry) = canonical JSON of the entry, of an open kind
                    {"commitment": SHA-256(canonical JSON of the entry)}, of any other kind
    hash(entry)   = SHA-256(0x00 || logged(entry)), the leaf hash of RFC 6962

What is logged may be published: the journal for the public holds nothing else. The body of an entry that is not
open holds 32 random bytes (`salt`, hex). Whoever has its commitment and can guess the rest, which gate or account and
when, cannot hold guesses against it.

Entries are what is true; accounts, charges and versions are a fold over them (see `fold`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from secrets import token_hex
from typing import Any, Final, Literal, get_args

from contracts.canonical import canonical_json
from contracts.errors import Finding, Refused, SudareError

EntryKind = Literal[
    "ledger_created",
    "account_opened",
    "charges_inherited",
    "account_closed",
    "source_bound",
    "charge_reserved",
    "charge_returned",
    "grant_opened",
    "noise_drawn",
    "gate_failed",
    "engine_failed",
    "version_published",
    "version_withdrawn",
    "key_changed",
    "clock_corrected",
]
KINDS: tuple[str, ...] = get_args(EntryKind)
RUN_KINDS = ("charge_reserved", "charge_returned", "grant_opened", "noise_drawn", "version_published")
SEALED: Final[tuple[EntryKind, ...]] = ("gate_failed", "engine_failed", "source_bound")
"""Kinds of entries whose text is for auditors: the outcome of a check, and names that may say where data are."""
OPEN: Final[tuple[EntryKind, ...]] = ("version_published", "version_withdrawn", "key_changed")
"""Kinds of entries that the public journal shows as they are: versions, withdrawals, changes of the key."""
SALT_BYTES: Final = 32
GENESIS = "0" * 64
CLOCK_SLACK: Final = timedelta(days=1)  # clocks of several machines differ, and public times are cut to the hour


@dataclass(frozen=True)
class Entry:
    """One line of the journal.

    Args:
        sequence: position, from 0, without gaps; the only order there is.
        previous: hash of the entry before; sixty-four zeros for the first.
        kind: what happened.
        at: time by the ledger's clock (ISO 8601, UTC), cut to the hour unless the kind is sealed; informative only.
        body: what it says; JSON values only, amounts as integers.
    """

    sequence: int
    previous: str
    kind: str
    at: str
    body: dict[str, Any]

    @property
    def hash(self) -> str:
        """The entry's leaf hash (hex) in the journal's Merkle tree."""
        return hashlib.sha256(b"\x00" + self.logged).hexdigest()

    @property
    def logged(self) -> bytes:
        """What the public journal shows of the entry: the entry of an open kind, and a commitment to any other."""
        whole = canonical_json(self.to_json())
        return whole if self.kind in OPEN else canonical_json({"commitment": hashlib.sha256(whole).hexdigest()})

    def to_json(self) -> dict[str, Any]:
        """Return the entry as a JSON object, without its hash."""
        return {
            "sequence": self.sequence,
            "previous": self.previous,
            "kind": self.kind,
            "at": self.at,
            "body": self.body,
        }


def to_the_hour(at: str) -> str:
    """Cut a time (ISO 8601, UTC) to its hour."""
    return f"{at[:13]}:00:00Z"


def is_to_the_hour(at: str) -> bool:
    """Say whether a text is an hour, in the one form that the journal writes."""
    if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:00:00Z", at) is None:
        return False
    try:
        datetime.fromisoformat(at)
    except ValueError:  # no such day or hour
        return False
    return True


def in_order(at: str, last: str | None) -> str:
    """Return the clock's time, or that of the last entry where the clock lies less than a day behind it.

    A clock that is further behind is wrong, or the one before was: its time is written as it is, so that it is found.

    Raises:
        ValueError: one of the two is no time.
    """
    if last is None:
        return at
    behind = datetime.fromisoformat(last) - datetime.fromisoformat(at)
    return last if timedelta(0) < behind < CLOCK_SLACK else at


def is_behind(at: str, last: str) -> bool:
    """Say whether a time is more than a day before another."""
    return datetime.fromisoformat(last) - datetime.fromisoformat(at) > CLOCK_SLACK


def salted(body: dict[str, Any]) -> dict[str, Any]:
    """Return the body of an entry with a salt of its own from the CSPRNG, so that its commitment tells nothing."""
    return {**body, "salt": token_hex(SALT_BYTES)}


# --- What the ledger says when it will not.


TAMPERED: Final = (
    "somebody changed the database behind the ledger's back: charge nothing, find out who did, and see what else is "
    "wrong: sudare budget history --verify"
)


class LedgerRefusal(Refused):
    """The ledger refuses a charge, a grant or an account; nothing was drawn and nothing changed."""

    exit_code = 4


class ClockBehind(LedgerRefusal):
    """The clock is more than a day behind the journal's last entry: one of the two is wrong."""


class DrawsGone(LedgerRefusal):
    """The draws of an opened charge are not where they were made: noise is never drawn a second time."""


class BudgetExceeded(LedgerRefusal):
    """A charge does not fit under the cap of its account.

    Args:
        account: name of the account.
        requested: loss asked for [10⁻¹² units of the account's calculus].
        remaining: loss that is left [same units].
        findings: the refusal in words.
    """

    def __init__(self, account: str, requested: int, remaining: int, findings: Sequence[Finding]) -> None:
        self.account = account
        self.requested = requested
        self.remaining = remaining
        super().__init__(findings)


class GrantExceeded(LedgerRefusal):
    """A draw would cost more than what is left of its own grant; nothing was drawn."""


class LedgerConflict(SudareError):
    """Another process changed the ledger at the same instant; trying again is safe."""


class LedgerCorrupt(SudareError):
    """The ledger contradicts itself: stop, and compare it with the checkpoints that were published."""

    exit_code = 5


class LedgerUnavailable(SudareError):
    """The ledger's database does not answer or cannot be written."""


class SchemaUnknown(LedgerUnavailable):
    """The ledger's database has a schema that this version of Sudare does not know."""


def refusal(where: str, field: str, found: str, allowed: str, remedy: str = "") -> LedgerRefusal:
    """Return a refusal with one finding."""
    return LedgerRefusal([Finding(where, field, found, allowed, remedy)])


@contextmanager
def corrupt_if_unreadable(what: str) -> Iterator[None]:
    """Raise `LedgerCorrupt` where stored text lacks a field or has one of another form."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise LedgerCorrupt(f"{what} cannot be read ({type(error).__name__}: {error}); {TAMPERED}") from error
