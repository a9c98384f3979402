"""A charge with its open grant, and the death of a process in the midst of a draw."""

from privacy.grant.grant import Grant, open_grant
from privacy.ledger.ledger import Ledger
from tests.privacy.ledger.ledgers import Place, ledger_with_account, request


class Killed(BaseException):
    """Stands for the instant at which the process dies: nothing catches it."""


def die(*_: object, **__: object) -> None:
    raise Killed


def opened(place: Place, **changed: object) -> tuple[Ledger, Grant]:
    ledger = ledger_with_account(place)
    ledger.reserve(request(**changed))  # type: ignore[arg-type]
    return ledger, open_grant(ledger, "run-1")
