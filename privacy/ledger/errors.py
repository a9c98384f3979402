"""What the ledger says when it will not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from contracts.errors import Finding, Refused, SudareError

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
