"""What the journal's entries say about one run, held against the tables before its charge is used again.

The rows of a charge say whether it is reserved, opened or returned, what it takes from each account, and what was
drawn. A run that finds its charge, opens its grant, or gives its charge back does so by these rows; so they are
compared with the entries about the run, which one look-up in the index finds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from contracts.periods.time_blocks import TimeBlock, time_block
from privacy.accounting.key_selection import entered_failures
from privacy.ledger.accounts.balances import parts_in
from privacy.ledger.accounts.table_rows import request_mark
from privacy.ledger.entries import Entry
from privacy.ledger.errors import TAMPERED, LedgerCorrupt, corrupt_if_unreadable
from privacy.ledger.journal.journal import checked_entry
from privacy.ledger.store import schema
from privacy.ledger.store.ledger_rows import draws_of
from privacy.ledger.terms import Charge

_DRAW = "noise_drawn"
_STATUS = {
    "charge_reserved": "reserved",
    "charge_returned": "returned",
    "grant_opened": "opened",
    "version_published": "published",
}


def entries_about(connection: Connection, subject: str, *, draws: bool = False) -> list[Entry]:
    """Return the entries about a run (or account, or source), in order: its draws, or all others."""
    journal = schema.journal.c
    query = schema.journal.select().where(journal.subject == subject).order_by(journal.sequence)
    kind = journal.kind.concat("")  # so that the index of subjects is used, not that of kinds
    rows = connection.execute(query.where(kind == _DRAW if draws else kind != _DRAW))
    return [checked_entry(row) for row in rows]


def returned_parts(connection: Connection, entry: Entry) -> dict[str, int]:
    """Return what a return gives back to each account; more or less than was taken is corruption."""
    run_key = entry.body["run_key"]
    before = [each for each in entries_about(connection, run_key) if each.sequence < entry.sequence]
    if not before or before[-1].kind != "charge_reserved":
        raise _wrong(run_key, entry, "it returns a charge that is not reserved")
    taken = parts_in(before[-1].body)
    given = parts_in(entry.body)
    later = {name: amount for name, amount in given.items() if name not in taken}
    if {**taken, **later} != given or not _inherited(connection, run_key, later):
        raise _wrong(run_key, entry, "it returns other amounts than were taken")
    return given


def reserved_failure(connection: Connection, run_key: str, *, before: int) -> int:
    """Return what the selections of keys that a run last reserved before an entry may fail with [10⁻¹⁸]."""
    about = [each for each in entries_about(connection, run_key) if each.sequence < before]
    reserved = [each for each in about if each.kind == "charge_reserved"]
    return entered_failures(reserved[-1].body["events"]) if reserved else 0


def check_charge(connection: Connection, charge: Charge) -> None:
    """Refuse a charge whose rows are not what the entries about its run say.

    Raises:
        LedgerCorrupt: names the run and the entry.
    """
    with corrupt_if_unreadable(f"run {charge.request.run_key}: what the journal says of its charge"):
        _compare_charge(connection, charge)


def _compare_charge(connection: Connection, charge: Charge) -> None:
    run_key = charge.request.run_key
    entries = [each for each in entries_about(connection, run_key) if each.kind in _STATUS]
    reserved = next((each for each in reversed(entries) if each.kind == "charge_reserved"), None)
    if reserved is None:
        raise LedgerCorrupt(f"run {run_key} has a charge in the database, and no entry reserves it; {TAMPERED}")
    last = entries[-1]
    if charge.status != _STATUS[last.kind]:
        raise _wrong(run_key, last, f"its charge is {charge.status} in the database, {_STATUS[last.kind]} in it")
    _check_request(connection, reserved)
    opened = next((each.body["security"] for each in reversed(entries) if each.kind == "grant_opened"), None)
    if charge.security != opened and last.kind != "charge_returned":
        raise _wrong(run_key, last, f"its noise is {charge.security} in the database, {opened} in the journal")
    _check_parts(connection, charge, reserved)


def check_draws(connection: Connection, run_key: str) -> None:
    """Refuse draws in the table that are not those of the run's entries: what is missing would be drawn again."""
    with corrupt_if_unreadable(f"run {run_key}: what the journal says of its draws"):
        _compare_draws(connection, run_key)


def _compare_draws(connection: Connection, run_key: str) -> None:
    rows = [(row.number, row.key, row.sha256, json.loads(row.event)) for row in draws_of(connection, run_key)]
    entries = entries_about(connection, run_key, draws=True)
    told = [_summary(entry.body) for entry in entries]
    for place, entry in enumerate(entries):
        if rows[place : place + 1] != [told[place]]:
            raise _wrong(run_key, entry, "the draw is missing in the database, or is another one")
    if len(rows) > len(told):
        raise LedgerCorrupt(f"run {run_key}: draw {rows[len(told)][0]} is in no entry of the journal; {TAMPERED}")


def check_source(connection: Connection, source: str, population: str, days: TimeBlock) -> None:
    """Refuse a source whose row says other people or days than the entry that bound it."""
    entry = next((each for each in entries_about(connection, source) if each.kind == "source_bound"), None)
    if entry is None:
        raise LedgerCorrupt(f"a source that is bound in the database is bound by no journal entry; {TAMPERED}")
    if (entry.body["population"], time_block(entry.body["block"])) != (population, days):
        bound = f"{entry.body['population']}, block {entry.body['block']}"
        raise LedgerCorrupt(
            f"journal entry {entry.sequence} binds the source to {bound}, and the database to other people or days; "
            f"{TAMPERED}"
        )


def _check_request(connection: Connection, reserved: Entry) -> None:
    """Hold the request in the row, as it is written there, against the entry that reserved it."""
    run_key, body = reserved.body["run_key"], reserved.body
    row = connection.execute(schema.charges.select().where(schema.charges.c.run_key == run_key)).one()
    request = json.loads(row.request)
    days = time_block(body["block"])
    told = (body["release"], body["spec_digest"], body["population"], days.begins, days.ends)
    same = told == (row.release, row.spec_digest, row.population, row.begins, row.ends)
    if not (same and request_mark(request) == request_mark(body)):
        raise _wrong(run_key, reserved, "the database has another request")


def _check_parts(connection: Connection, charge: Charge, reserved: Entry) -> None:
    """Hold what the charge takes against its entry, and against those of accounts that were opened afterwards."""
    run_key, planned = charge.request.run_key, parts_in(reserved.body)
    taken = {part.account: part.amount for part in charge.parts}
    for name in sorted({*taken, *planned}):
        amount, told = taken.get(name, 0), planned.get(name, 0)
        later = name not in planned and _inherited(connection, run_key, {name: amount})
        if amount != told and not later:
            why = f"its charge takes {amount} from account {name} in the database, and {told} in it"
            raise _wrong(run_key, reserved, why)


def _inherited(connection: Connection, run_key: str, amounts: Mapping[str, int]) -> bool:
    """Say whether accounts that were opened after a charge took over these amounts of it."""
    for account, amount in amounts.items():
        entries = entries_about(connection, account)
        told = [part for each in entries if each.kind == "charges_inherited" for part in each.body["parts"]]
        if {"run_key": run_key, "amount": amount} not in told:
            return False
    return True


def _summary(body: Mapping[str, Any]) -> tuple[int, str, str, Any]:
    return body["number"], body["key"], body["sha256"], body["event"]


def _wrong(run_key: str, entry: Entry, why: str) -> LedgerCorrupt:
    return LedgerCorrupt(f"run {run_key}, journal entry {entry.sequence} ({entry.kind}): {why}; {TAMPERED}")
