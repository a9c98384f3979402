"""Charges: reserved whole on every account that the people have, opened once, given back only if never opened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Connection

from contracts.errors import Finding
from privacy.accounting.calculus import Calculus
from privacy.ledger.accounts.admission import Admission, price, same_release
from privacy.ledger.accounts.fold import Reckoning, entries_about, second_sum
from privacy.ledger.accounts.table_rows import check_accounts, check_charge, check_draws
from privacy.ledger.draw_files import DrawFiles
from privacy.ledger.entries import DrawsGone, refusal
from privacy.ledger.store.database import Store, Transaction
from privacy.ledger.store.journal import Journal
from privacy.ledger.store.ledger_rows import (
    existing_account,
    existing_charge,
    find_charge,
    set_charge,
    spend,
    write_charge,
)
from privacy.ledger.terms import Charge, ChargeRequest

Security = Literal["csprng", "seeded"]
"""What the noise of a charge comes from: a secure stream, or (in tests) a seed. A seeded run is never published."""


@dataclass(frozen=True)
class OpenCharge:
    """An opened charge, and the books in which its draws are entered.

    Args:
        database: the ledger's database.
        files: where noisy values are written.
        journal: where events are written.
        charge: the opened charge.
        calculi: calculus of each account that is charged, by name.
    """

    database: Store
    files: DrawFiles
    journal: Journal
    charge: Charge
    calculi: Mapping[str, Calculus]


def reserve(
    transaction: Transaction, journal: Journal, request: ChargeRequest, reckoning: Reckoning
) -> Charge | Admission:
    """Return the run's charge, known or newly written; if it does not fit, write nothing and return what it takes.

    What the tables say of its accounts, its source and the run is held against the journal before it is believed.
    """
    known = find_charge(transaction.connection, request.run_key)
    if known is not None:
        check_charge(transaction.connection, known)
        if same_release(known, request).status != "returned":
            return known
    priced = price(transaction.connection, request, reckoning)
    if not priced.fits:
        return priced
    unopened = {part.account: reckoning.returnable(part.account) for part in priced.parts}
    with transaction.at_once():  # nothing is read in it
        take(transaction, journal, request, priced, unopened=unopened, again=known is not None)
    return Charge(request, priced.parts, "reserved", None)


def take(
    transaction: Transaction,
    journal: Journal,
    request: ChargeRequest,
    priced: Admission,
    *,
    unopened: Mapping[str, int],
    again: bool,
) -> None:
    """Write a charge that was priced and fits, what it takes from each account, and the journal's entry."""
    connection, taken = transaction.connection, []
    number = transaction.size  # the place of its entry, so it is larger than that of any charge before
    write_charge(connection, request, priced.people, priced.parts, number=None if again else number)
    for state, part in zip(priced.accounts, priced.parts, strict=True):
        after = state.spent + part.amount
        spend(connection, part.account, spent=after, cap=state.cap)
        could = {"returnable": unopened[part.account]}
        second = second_sum(state.failure, request.failure, aside=state.terms.calculus.selection_delta)
        taken.append({**vars(part), "before": state.spent, "after": after, **could, **second})
    population, block = priced.people
    body = {**request.public_json(), "population": population, "block": block.text, "parts": taken}
    journal.append(transaction, "charge_reserved", body, subject=request.run_key)


def open_charge(
    transaction: Transaction, journal: Journal, run_key: str, security: Security, files: DrawFiles
) -> tuple[Charge, dict[str, Calculus]]:
    """Mark a reserved charge as opened, for noise of one kind; return it, and each account's calculus.

    Its draws are in one folder for good. Whether one was written there and not entered, no other folder can tell.
    """
    connection = transaction.connection
    charge = existing_charge(connection, run_key)
    check_charge(connection, charge)
    check_draws(connection, run_key)
    if charge.status == "returned":
        raise refusal(f"run {run_key}", "charge", "returned", "a reserved charge", "reserve it again")
    if charge.security not in (None, security):
        raise refusal(f"run {run_key}", "randomness", security, str(charge.security))
    if charge.status == "reserved":
        set_charge(connection, run_key, status="opened", security=security)
        body = {"run_key": run_key, "security": security, "draws_folder": files.identify(run_key)}
        journal.append(transaction, "grant_opened", body, subject=run_key)
    else:
        _check_folder(connection, run_key, files)
    charge = existing_charge(connection, run_key)
    names = [part.account for part in charge.parts]
    return charge, {name: existing_account(connection, name).terms.calculus for name in names}


def _check_folder(connection: Connection, run_key: str, files: DrawFiles) -> None:
    """Refuse to go on with an opened charge where its draws are not."""
    opened = [each for each in entries_about(connection, run_key) if each.kind == "grant_opened"]
    identity, path = files.identity(run_key), files.folder(run_key)
    if opened and identity == opened[-1].body["draws_folder"]:
        return
    there = "no draws of this run" if identity is None else "another folder of draws"
    allowed = "the folder in which the charge was opened: noise may be in it, and is never drawn a second time"
    remedy = (
        f"bring {path} back from the machine or the backup where the run began, and type the same command; if it is "
        "gone for good, the charge stays spent: start another release"
    )
    raise DrawsGone([Finding(f"run {run_key}", "draws", f"{there} at {path}", allowed, remedy)])


def give_back(transaction: Transaction, journal: Journal, run_key: str, reckoning: Reckoning) -> None:
    """Give back a charge whose grant was never opened; what was opened stays spent."""
    connection = transaction.connection
    charge = existing_charge(connection, run_key)
    check_charge(connection, charge)
    if charge.status == "returned":
        return
    if charge.status != "reserved":
        allowed = "reserved, never opened: what was opened stays spent"
        raise refusal(f"run {run_key}", "charge", charge.status, allowed)
    set_charge(connection, run_key, status="returned")
    states = {part.account: existing_account(connection, part.account) for part in charge.parts}
    check_accounts(states.values(), states, reckoning.balances)
    for part in charge.parts:
        state = states[part.account]
        spend(connection, part.account, spent=state.spent - part.amount, cap=state.cap)
    body = {"run_key": run_key, "parts": [vars(part) for part in charge.parts]}
    journal.append(transaction, "charge_returned", body, subject=run_key)
