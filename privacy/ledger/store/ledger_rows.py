"""Reading and writing the ledger's rows, inside a transaction that the caller holds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import Connection, Row, Select, and_, bindparam, func, select

from contracts.canonical import canonical_json
from contracts.periods.time_blocks import TimeBlock, divided_name
from contracts.reading.scalars import nearest
from privacy.ledger.entries import LedgerCorrupt, corrupt_if_unreadable, refusal
from privacy.ledger.store import schema
from privacy.ledger.terms import (
    AccountState,
    AccountTerms,
    Charge,
    ChargePart,
    ChargeRequest,
    VersionEntry,
    request_from_json,
    terms_from_json,
)

# What every charge runs, put together once; the other statements are built where they are used.
_SET_ACCOUNT: Final = schema.accounts.update().where(schema.accounts.c.name == bindparam("account"))
_BY_RUN_KEY: Final = schema.charges.select().where(schema.charges.c.run_key == bindparam("wanted"))
_THEIR_ACCOUNTS: Final = and_(
    schema.accounts.c.population == schema.sources.c.population,
    schema.accounts.c.begins < schema.sources.c.ends,
    schema.accounts.c.ends > schema.sources.c.begins,
)
_PEOPLE_AND_ACCOUNTS: Final = (
    select(schema.sources, *(schema.accounts.c[name] for name in ("terms", "cap", "spent", "status")))
    .select_from(schema.sources.outerjoin(schema.accounts, _THEIR_ACCOUNTS))
    .where(schema.sources.c.source == bindparam("bound"))
    .order_by(schema.accounts.c.name)
)


def to_text(value: Any) -> str:
    """Return the canonical JSON text that a column holds."""
    return canonical_json(value).decode()


# --- accounts ---------------------------------------------------------------------------------------------------


def state_of(row: Row[Any]) -> AccountState:
    """Read an account out of its row."""
    return AccountState(_terms(row.terms), row.cap, row.spent, row.status)


@lru_cache(maxsize=256)
def _terms(written: str) -> AccountTerms:
    return terms_from_json(json.loads(written))


def find_account(connection: Connection, name: str) -> AccountState | None:
    """Return an account, or None."""
    row = connection.execute(schema.accounts.select().where(schema.accounts.c.name == name)).first()
    return None if row is None else state_of(row)


def existing_account(connection: Connection, name: str) -> AccountState:
    """Return an account; `LedgerRefusal` with the names there are when it is not one."""
    state = find_account(connection, name)
    if state is None:
        names = sorted(connection.execute(select(schema.accounts.c.name)).scalars())
        meant = nearest(name, names)
        raise refusal(
            "the ledger",
            "account",
            name,
            f"one of {', '.join(names)}" if names else "no account is open yet",
            f"{meant}; or open it: sudare budget open {name} --help"
            if meant
            else f"open it: sudare budget open {name} --help",
        )
    return state


def accounts_of(connection: Connection, population: str, block: TimeBlock) -> list[AccountState]:
    """Return the accounts of a population whose time blocks share a day with a block, by name."""
    table = schema.accounts
    query = table.select().where(table.c.population == population, table.c.begins < block.ends)
    return [
        state_of(row) for row in connection.execute(query.where(table.c.ends > block.begins).order_by(table.c.name))
    ]


def people_and_accounts(
    connection: Connection, source: str
) -> tuple[tuple[str, TimeBlock], list[AccountState]] | None:
    """Return the people that a source is bound to and the accounts that they have, by name; None if it is unbound."""
    rows = connection.execute(_PEOPLE_AND_ACCOUNTS, {"bound": source}).all()
    if not rows:
        return None
    people = rows[0].population, TimeBlock(rows[0].block, rows[0].begins, rows[0].ends)
    return people, [state_of(row) for row in rows if row.terms is not None]


def insert_account(connection: Connection, terms: AccountTerms, *, cap: int, spent: int) -> None:
    """Write a new account."""
    days = terms.days
    row = {"name": terms.name, "population": terms.population, "begins": days.begins, "ends": days.ends}
    values = {**row, "terms": to_text(terms.to_json()), "cap": cap, "spent": spent, "status": "open"}
    connection.execute(schema.accounts.insert().values(**values))


def set_account(connection: Connection, name: str, **values: Any) -> None:
    """Change columns of an account."""
    connection.execute(_SET_ACCOUNT, {"account": name, **values})


def spend(connection: Connection, account: str, *, spent: int, cap: int) -> None:
    """Write what an account has spent; below nothing or above the cap is corruption."""
    if not 0 <= spent <= cap:
        raise LedgerCorrupt(f"account {account} would have spent {spent} of {cap}")
    set_account(connection, account, spent=spent)


# --- sources and populations ------------------------------------------------------------------------------------


def people_of(connection: Connection, source: str) -> tuple[str, TimeBlock] | None:
    """Return the population and the time block that a source is bound to, or None."""
    row = connection.execute(schema.sources.select().where(schema.sources.c.source == source)).first()
    return None if row is None else (row.population, TimeBlock(row.block, row.begins, row.ends))


def divisions_of(connection: Connection, source: str) -> list[tuple[str, tuple[str, TimeBlock]]]:
    """Return the names under which a source, or its rows told apart by a column, are bound, and to whom."""
    name, table = schema.sources.c.source, schema.sources
    begins = divided_name(source, "")[:-1]
    found = table.select().where((name == source) | (func.substr(name, 1, len(begins)) == begins))
    rows = connection.execute(found)
    return [(row.source, (row.population, TimeBlock(row.block, row.begins, row.ends))) for row in rows]


def insert_source(connection: Connection, source: str, population: str, block: TimeBlock) -> None:
    """Write whom a source is about."""
    values = {"source": source, "population": population, "block": block.text}
    connection.execute(schema.sources.insert().values(**values, begins=block.begins, ends=block.ends))


def populations(connection: Connection) -> set[str]:
    """Return the names of all populations that have an account or a source."""
    return {
        name
        for table in (schema.accounts, schema.sources)
        for name in connection.execute(select(table.c.population).distinct()).scalars()
    }


# --- charges ----------------------------------------------------------------------------------------------------


def find_charge(connection: Connection, run_key: str) -> Charge | None:
    """Return the charge of a run, or None."""
    return next(iter(_charges(connection, _BY_RUN_KEY, {"wanted": run_key})), None)


def existing_charge(connection: Connection, run_key: str) -> Charge:
    """Return the charge of a run; `LedgerRefusal` when there is none."""
    charge = find_charge(connection, run_key)
    if charge is None:
        raise refusal(f"run {run_key}", "charge", "none", "a charge that was reserved")
    return charge


def charges_of_account(connection: Connection, account: str) -> tuple[Charge, ...]:
    """Return the charges that took from an account, oldest first."""
    charges, parts = schema.charges, schema.parts
    query = charges.select().join(parts, parts.c.run_key == charges.c.run_key).where(parts.c.account == account)
    return _charges(connection, query)


def spent_by_release(connection: Connection, account: str) -> list[tuple[str, int]]:
    """Return what each release has taken from an account, those that took most first."""
    charges, parts = schema.charges, schema.parts
    taken = func.sum(parts.c.amount)
    query = select(charges.c.release, taken).join(parts, parts.c.run_key == charges.c.run_key)
    standing = query.where(parts.c.account == account, charges.c.status != "returned").group_by(charges.c.release)
    rows = connection.execute(standing.order_by(taken.desc(), charges.c.release))
    return [(release, int(amount)) for release, amount in rows]


def charges_of_spec(connection: Connection, spec_digest: str) -> tuple[Charge, ...]:
    """Return the charges of a release spec, oldest first."""
    return _charges(connection, schema.charges.select().where(schema.charges.c.spec_digest == spec_digest))


def charges_of_people(connection: Connection, population: str, block: TimeBlock) -> tuple[Charge, ...]:
    """Return the charges on sources of a population whose time blocks share a day with a block, oldest first."""
    table = schema.charges
    query = table.select().where(table.c.population == population, table.c.begins < block.ends)
    return _charges(connection, query.where(table.c.ends > block.begins))


def _charges(connection: Connection, query: Select[Any], values: dict[str, Any] | None = None) -> tuple[Charge, ...]:
    """Read charges with their parts, oldest first."""
    rows = sorted(connection.execute(query, values), key=lambda row: row.number)
    if not rows:
        return ()
    table = schema.parts
    chosen = (
        table.c.run_key.in_(select(query.subquery().c.run_key))
        if len(rows) > 1
        else (table.c.run_key == rows[0].run_key)
    )
    parts: dict[str, list[ChargePart]] = {row.run_key: [] for row in rows}
    for part in connection.execute(table.select().where(chosen).order_by(table.c.account)):
        parts[part.run_key].append(ChargePart(part.account, part.amount))
    return tuple(Charge(_request(row), tuple(parts[row.run_key]), row.status, row.security) for row in rows)


def _request(row: Row[Any]) -> ChargeRequest:
    with corrupt_if_unreadable(f"run {row.run_key}: its request in the database"):
        return request_from_json(json.loads(row.request))


def write_charge(
    connection: Connection,
    request: ChargeRequest,
    people: tuple[str, TimeBlock],
    parts: Sequence[ChargePart],
    *,
    number: int | None,
) -> None:
    """Write a reserved charge under its number; None when the same run key was returned before and has one."""
    population, block = people
    values = {
        "release": request.release,
        "spec_digest": request.spec_digest,
        "population": population,
        "begins": block.begins,
        "ends": block.ends,
        "request": to_text(request.to_json()),
        "status": "reserved",
    }
    if number is None:
        set_charge(connection, request.run_key, **values)
        connection.execute(schema.parts.delete().where(schema.parts.c.run_key == request.run_key))
    else:
        connection.execute(schema.charges.insert(), {"run_key": request.run_key, "number": number, **values})
    insert_parts(connection, request.run_key, parts)


def insert_parts(connection: Connection, run_key: str, parts: Sequence[ChargePart]) -> None:
    """Write what a charge takes from accounts."""
    rows = [{"run_key": run_key, "account": part.account, "amount": part.amount} for part in parts]
    connection.execute(schema.parts.insert(), rows)


def set_charge(connection: Connection, run_key: str, **values: Any) -> None:
    """Change columns of a charge."""
    connection.execute(schema.charges.update().where(schema.charges.c.run_key == run_key).values(**values))


def draws_of(connection: Connection, run_key: str) -> list[Row[Any]]:
    """Return the draws of a run that are entered, in order."""
    query = schema.draws.select().where(schema.draws.c.run_key == run_key).order_by(schema.draws.c.number)
    return list(connection.execute(query))


# --- versions ---------------------------------------------------------------------------------------------------


def find_version(connection: Connection, run_key: str) -> VersionEntry | None:
    """Return the version that a run publishes, or None."""
    row = connection.execute(schema.versions.select().where(schema.versions.c.run_key == run_key)).first()
    return None if row is None else VersionEntry(**row._mapping)


def versions_of(connection: Connection, release: str | None = None) -> tuple[VersionEntry, ...]:
    """Return the versions of one release or of all, oldest first."""
    query = schema.versions.select().order_by(schema.versions.c.release, schema.versions.c.number)
    if release is not None:
        query = query.where(schema.versions.c.release == release)
    return tuple(VersionEntry(**row._mapping) for row in connection.execute(query))


def set_version(connection: Connection, run_key: str, **values: Any) -> None:
    """Change columns of a version."""
    connection.execute(schema.versions.update().where(schema.versions.c.run_key == run_key).values(**values))
