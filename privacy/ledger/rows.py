"""Reading and writing the ledger's rows, inside a transaction that the caller holds."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Connection, func, select

from contracts.canonical import canonical_json
from privacy.ledger import store
from privacy.ledger.errors import LedgerCorrupt, refusal
from privacy.ledger.terms import (
    AccountState,
    AccountTerms,
    Charge,
    ChargeRequest,
    VersionEntry,
    request_from_json,
    terms_from_json,
)


def to_text(value: Any) -> str:
    """Return the canonical JSON text that a column holds."""
    return canonical_json(value).decode()


def account_row(connection: Connection, name: str) -> Any:
    """Return the row of an account, or None."""
    return connection.execute(store.accounts.select().where(store.accounts.c.name == name)).first()


def known_account(connection: Connection, name: str) -> Any:
    """Return the row of an account; `LedgerRefusal` with the names there are when it is not one."""
    row = account_row(connection, name)
    if row is None:
        names = [known.name for known in connection.execute(store.accounts.select())]
        raise refusal(
            "the ledger",
            "account",
            name,
            f"one of {', '.join(sorted(names))}" if names else "no account is open yet",
            f"open it: sudare budget open {name} --help",
        )
    return row


def people_of(connection: Connection, source: str) -> tuple[str, str] | None:
    """Return the population and the time block that a source is bound to, or None."""
    row = connection.execute(store.sources.select().where(store.sources.c.source == source)).first()
    return None if row is None else (row.population, row.block)


def accounts_of(connection: Connection) -> list[AccountTerms]:
    """Return the terms of all accounts, open and closed."""
    return [terms_from_json(json.loads(row.terms)) for row in connection.execute(store.accounts.select())]


def find_charge(connection: Connection, run_key: str) -> Charge | None:
    """Return the charge of a run, or None."""
    row = connection.execute(store.charges.select().where(store.charges.c.run_key == run_key)).first()
    return None if row is None else charge_of(row)


def charge_of(row: Any) -> Charge:
    """Read a charge out of its row."""
    return Charge(request_from_json(json.loads(row.request)), row.amount, row.status, row.security)


def known_charge(connection: Connection, run_key: str) -> Charge:
    """Return the charge of a run; `LedgerRefusal` when there is none."""
    charge = find_charge(connection, run_key)
    if charge is None:
        raise refusal(f"run {run_key}", "charge", "none", "a charge that was reserved")
    return charge


def set_charge(connection: Connection, run_key: str, **values: Any) -> None:
    """Change columns of a charge."""
    connection.execute(store.charges.update().where(store.charges.c.run_key == run_key).values(**values))


def set_spent(connection: Connection, account: str, spent: int) -> None:
    """Write what an account has spent; below nothing is corruption."""
    if spent < 0:
        raise LedgerCorrupt(f"account {account} would have spent less than nothing")
    connection.execute(store.accounts.update().where(store.accounts.c.name == account).values(spent=spent))


def state_of(connection: Connection, row: Any) -> AccountState:
    """Return the state of an account from its row and its charges."""
    query = store.charges.select().where(store.charges.c.account == row.name).order_by(store.charges.c.number)
    charges = tuple(charge_of(charge) for charge in connection.execute(query))
    terms = terms_from_json(json.loads(row.terms))
    return AccountState(terms, row.cap, row.spent, row.status, charges)


def find_version(connection: Connection, run_key: str) -> VersionEntry | None:
    """Return the version that a run publishes, or None."""
    row = connection.execute(store.versions.select().where(store.versions.c.run_key == run_key)).first()
    return None if row is None else VersionEntry(**row._mapping)


def write_charge(connection: Connection, request: ChargeRequest, amount: int, *, again: bool) -> None:
    """Write a reserved charge; `again` when the same run key was returned before."""
    values = {"account": request.account, "request": to_text(request.to_json()), "amount": amount}
    if again:
        set_charge(connection, request.run_key, status="reserved", **values)
    else:
        number = 1 + (connection.execute(select(func.max(store.charges.c.number))).scalar() or 0)
        insert = store.charges.insert()
        connection.execute(insert.values(run_key=request.run_key, number=number, status="reserved", **values))


def draws_of(connection: Connection, run_key: str) -> list[Any]:
    """Return the draws of a run that are entered, in order."""
    query = store.draws.select().where(store.draws.c.run_key == run_key).order_by(store.draws.c.number)
    return list(connection.execute(query))
