"""Charges: reserved whole on every account that the people have, and given back only if they were never opened."""

from __future__ import annotations

from privacy.ledger.admission import Admission, price, same_release
from privacy.ledger.errors import refusal
from privacy.ledger.journal import Journal
from privacy.ledger.rows import find_charge, known_account, known_charge, set_charge, spend, write_charge
from privacy.ledger.store import Transaction
from privacy.ledger.terms import Charge, ChargeRequest


def reserve(transaction: Transaction, journal: Journal, request: ChargeRequest) -> Charge | Admission:
    """Return the run's charge, known or newly written; if it does not fit, write nothing and return what it takes."""
    known = find_charge(transaction.connection, request.run_key)
    if known is not None and same_release(known, request).status != "returned":
        return known
    priced = price(transaction.connection, request)
    if not priced.fits:
        return priced
    with transaction.at_once():
        take(transaction, journal, request, priced, again=known is not None)
    return Charge(request, priced.parts, "reserved", None)


def take(
    transaction: Transaction, journal: Journal, request: ChargeRequest, priced: Admission, *, again: bool
) -> None:
    """Write a charge that was priced and fits, what it takes from each account, and the journal's entry."""
    connection, taken = transaction.connection, []
    number = transaction.size  # the place of its entry, so it is larger than that of any charge before
    write_charge(connection, request, priced.people, priced.parts, number=None if again else number)
    for state, part in zip(priced.accounts, priced.parts, strict=True):
        after = state.spent + part.amount
        spend(connection, part.account, spent=after, cap=state.cap)
        taken.append({**vars(part), "before": state.spent, "after": after})
    population, block = priced.people
    body = {**request.public_json(), "population": population, "block": block.text, "parts": taken}
    journal.append(transaction, "charge_reserved", body, subject=request.run_key)


def give_back(transaction: Transaction, journal: Journal, run_key: str) -> None:
    """Give back a charge whose grant was never opened; what was opened stays spent."""
    connection = transaction.connection
    charge = known_charge(connection, run_key)
    if charge.status == "returned":
        return
    if charge.status != "reserved":
        allowed = "reserved, never opened: what was opened stays spent"
        raise refusal(f"run {run_key}", "charge", charge.status, allowed)
    set_charge(connection, run_key, status="returned")
    for part in charge.parts:
        state = known_account(connection, part.account)
        spend(connection, part.account, spent=state.spent - part.amount, cap=state.cap)
    body = {"run_key": run_key, "parts": [vars(part) for part in charge.parts]}
    journal.append(transaction, "charge_returned", body, subject=run_key)
