"""What waits to be opened is part of the balances that are added up and signed: what a charge says of it is exact."""

import json
from pathlib import Path

import pytest

from privacy.accounting.amounts import PICO
from privacy.grant.grant import open_grant
from privacy.ledger import books
from privacy.ledger.accounts.fold import Reckoning
from privacy.ledger.ledger import Ledger
from privacy.ledger.store import schema
from tests.privacy.ledger.ledgers import SIGNER, Place, bind, laplace, request, terms


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(f"sqlite:///{tmp_path / 'ledger.sqlite'}", tmp_path)


def signed(place: Place) -> Ledger:
    ledger = Ledger(place.url, draws=place.folder / "draws", signer=SIGNER)
    place.opened.append(ledger)
    return ledger


def stated(place: Place) -> dict[str, object]:
    with place.by_hand() as connection:
        told: dict[str, object] = json.loads(connection.execute(schema.statements.select()).one().balances)
        return told


def returnable(ledger: Ledger, run_key: str) -> dict[str, int]:
    body = next(
        each.body for each in ledger.journal() if each.kind == "charge_reserved" and each.body["run_key"] == run_key
    )
    return {part["account"]: part["returnable"] for part in body["parts"]}


def test_a_charge_says_what_waits_wherever_its_process_begins(place: Place, monkeypatch: pytest.MonkeyPatch):
    """One that begins at the signed balances says the same as one that has read every entry."""
    monkeypatch.setattr(books, "EVERY", 2)
    first = signed(place)
    first.open_account(terms(epsilon=30))
    bind(first, "2024")
    for number in (1, 2, 3, 4):
        first.reserve(request(f"run-{number}", noise=laplace(number)))
    open_grant(first, "run-1")
    first.return_charge("run-2")
    first.reserve(request("last", noise=laplace(1)))
    with place.by_hand() as connection:
        size = connection.execute(schema.statements.select()).one().size
    entries = first.journal()[:size]
    gone = {each.body["run_key"] for each in entries if each.kind in ("grant_opened", "charge_returned")}
    reserved = {each.body["run_key"] for each in entries if each.kind == "charge_reserved"}
    assert set(stated(place)["waiting"]) == reserved - gone  # type: ignore[call-overload]
    assert gone
    assert reserved - gone
    second = signed(place)
    read: list[int] = []
    monkeypatch.setattr(books, "stated", _noting(books.stated, read))
    second.reserve(request("run-5", noise=laplace(1)))
    first.reserve(request("run-6", noise=laplace(1)))
    assert read
    assert read[0] > 0
    assert returnable(second, "run-5") == {"people-2024": 8 * PICO}
    assert returnable(second, "run-6") == {"people-2024": 9 * PICO}
    assert first.verify(public_key=SIGNER.public_key) == []


def _noting(function: object, read: list[int]) -> object:
    def called(*given: object) -> Reckoning | None:
        found: Reckoning | None = function(*given)  # type: ignore[operator]
        read.append(0 if found is None else found.size)
        return found

    return called


def test_what_waits_is_inherited_by_an_account_that_is_opened_afterwards(place: Place):
    """A charge that was opened before waits for nobody's account; one that waits can be given back to both."""
    ledger = signed(place)
    ledger.open_account(terms(epsilon=30))
    bind(ledger, "2024")
    ledger.reserve(request("run-1", noise=laplace(1)))
    ledger.reserve(request("run-2", noise=laplace(2)))
    open_grant(ledger, "run-1")
    ledger.open_account(terms(epsilon=30, block="2023-01-01..2025-01-01", name="people-long"))
    ledger.reserve(request("run-3", noise=laplace(1)))
    assert returnable(ledger, "run-3") == {"people-2024": 2 * PICO, "people-long": 2 * PICO}
    ledger.return_charge("run-2")
    ledger.reserve(request("run-4", noise=laplace(1)))
    assert returnable(ledger, "run-4") == {"people-2024": PICO, "people-long": PICO}
    assert ledger.verify(public_key=SIGNER.public_key) == []


def test_a_statement_that_says_otherwise_what_waits_is_found(place: Place, monkeypatch: pytest.MonkeyPatch):
    """Signed by the ledger's own key: balances that hold, and a charge that waits no more."""
    monkeypatch.setattr(books, "EVERY", 2)
    ledger = signed(place)
    ledger.open_account(terms(epsilon=30))
    bind(ledger, "2024")
    ledger.reserve(request("run-1", noise=laplace(1)))
    ledger.reserve(request("run-2", noise=laplace(1)))
    assert ledger.verify(public_key=SIGNER.public_key) == []
    told = stated(place)
    told["waiting"] = {}
    text = json.dumps(told, sort_keys=True, separators=(",", ":"))
    with place.by_hand() as connection:
        row = connection.execute(schema.statements.select()).one()
        first = connection.execute(schema.journal.select().where(schema.journal.c.sequence == 0)).one()
        body = {"ledger": first.hash, "size": row.size, "balances": text}
        values = {"balances": text, "signature": SIGNER.sign("balances", body)}
        connection.execute(schema.statements.update().values(**values))
    (finding,) = ledger.verify(public_key=SIGNER.public_key)
    assert (finding.where, finding.field) == (f"balances stated at {row.size} entries", "balances")
