"""The accounts as the journal's own entries add up: a charge holds the tables against it, in its own transaction.

The ledger decides by its tables, and the owner of the database can change them. So before anything is charged,
opened, returned or shown, the entries since the last signed statement of balances (`books`) are added to it:

1. the entry at which the statement was made has the hash that it names (without a statement: the journal's beginning)
2. each entry since hashes to its hash, names the one before, and obeys the arithmetic: a charge begins with what was
   spent, a return gives what was reserved, no cap is passed
3. the journal's head is that of the last entry
4. the rows of the accounts say what the entries say (`check_accounts`), a run's charge, parts and draws what the
   run's entries say

"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Row

from contracts.periods.time_blocks import TimeBlock, time_block
from privacy.accounting.amounts import pico_to_text
from privacy.accounting.events import entered_failures
from privacy.ledger.accounts.balances import parts_in, set_aside, wrong_sums
from privacy.ledger.accounts.table_rows import request_mark
from privacy.ledger.entries import GENESIS, TAMPERED, Entry, LedgerCorrupt, corrupt_if_unreadable
from privacy.ledger.journal.merkle import appended
from privacy.ledger.store import schema
from privacy.ledger.store.journal import checked_entry
from privacy.ledger.store.ledger_rows import draws_of, to_text
from privacy.ledger.terms import TERMS, AccountState, Charge

# --- What the journal's entries say about one run, held against the tables before its charge is used again.


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


@dataclass(frozen=True)
class Balance:
    """An account as its entries add up.

    Args:
        terms: what it was opened with, as canonical JSON.
        cap: the most it may lose [10⁻¹² units of its calculus].
        spent: what is reserved or spent [same units].
        status: open or closed.
        entry: sequence of the last entry that changed it.
        failure: what selections of keys may fail with, of what is set aside for them [10⁻¹⁸].
    """

    terms: str
    cap: int
    spent: int
    status: str
    entry: int
    failure: int = 0

    def to_json(self) -> list[Any]:
        """Return its fields in their order; without the last where no selection was charged."""
        told = list(vars(self).values())
        return told if self.failure else told[:-1]


@dataclass(frozen=True)
class Reckoning:
    """All accounts at one size of the journal.

    Args:
        size: number of entries that are added up.
        head: hash of the last of them.
        frontier: roots of the complete Merkle subtrees, the largest first.
        balances: the accounts, by name.
        waiting: what each charge whose grant was not opened takes from whom; it may still be given back.
    """

    size: int = 0
    head: str = GENESIS
    frontier: tuple[str, ...] = ()
    balances: Mapping[str, Balance] = field(default_factory=dict)
    waiting: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def returnable(self, account: str) -> int:
        """Return what charges that wait have on an account [10⁻¹² units of its calculus]."""
        return sum(parts.get(account, 0) for parts in self.waiting.values())


# --- adding up ----------------------------------------------------------------------------------------------------


def reckon(connection: Connection, since: Reckoning) -> Reckoning:
    """Add the entries since a reckoning to it.

    Raises:
        LedgerCorrupt: they do not follow it, contradict themselves, or are not those of the journal's head.
    """
    waiting = dict(since.waiting)  # a copy for all entries: one for each would cost as much as there are charges
    reached = replace(since, waiting=waiting)
    for row in _rows_since(connection, since):
        try:
            reached = _after(connection, reached, row, waiting)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise LedgerCorrupt(f"journal entry {row.sequence} cannot be read; {TAMPERED}") from error
    head = connection.execute(schema.head.select()).first()
    if head is None:
        raise LedgerCorrupt("the row of journal_head is gone: restore the ledger from a copy")
    if (head.size, head.last, head.frontier) != (reached.size, reached.head, json.dumps(reached.frontier)):
        told = f"{head.size} entries, the last one {head.last[:16]}…"
        raise LedgerCorrupt(
            f"the journal's head says {told}, and the journal has {reached.size}, the last one {reached.head[:16]}…; "
            f"{TAMPERED}"
        )
    return reached


def _after(
    connection: Connection, reached: Reckoning, row: Row[Any], waiting: dict[str, Mapping[str, int]]
) -> Reckoning:
    """Return what is reached with one more entry; `waiting`, which it has too, is changed in its place."""
    entry = checked_entry(row)
    if (entry.sequence, entry.previous) != (reached.size, reached.head):
        raise _corrupt_entry(
            entry, f"it follows {entry.previous[:16]}…, and the entry before is {reached.head[:16]}…"
        )
    frontier, subtrees = appended(reached.frontier, reached.size, row.hash)
    if row.subtrees != " ".join(subtrees):
        raise _corrupt_entry(entry, "its Merkle subtrees are not those of the entries")
    balances = _with(connection, reached.balances, entry)
    _wait(waiting, entry)
    return Reckoning(reached.size + 1, row.hash, frontier, balances, waiting)


def _rows_since(connection: Connection, since: Reckoning) -> Iterator[Row[Any]]:
    """Yield the rows that follow, once the row before them has the hash that is known of it."""
    table = schema.journal
    query = table.select().where(table.c.sequence >= since.size - 1).order_by(table.c.sequence)
    rows = connection.execute(query.execution_options(yield_per=1_000))
    if since.size:
        before = next(rows, None)
        if before is None or (before.sequence, before.hash) != (since.size - 1, since.head):
            found = "missing" if before is None or before.sequence != since.size - 1 else "another one"
            raise LedgerCorrupt(
                f"journal entry {since.size - 1}, at which all balances were stated, is {found}: entries were cut "
                f"off or rewritten, or an older copy of the ledger was put in its place; {TAMPERED}"
            )
    yield from rows


def _with(connection: Connection, balances: Mapping[str, Balance], entry: Entry) -> Mapping[str, Balance]:
    body = entry.body
    match entry.kind:
        case "account_opened":
            if body["name"] in balances and balances[body["name"]].spent:
                raise _corrupt_entry(entry, f"account {body['name']} is opened again with something spent")
            terms = to_text({name: body[name] for name in TERMS})
            return {**balances, body["name"]: Balance(terms, body["cap"], 0, "open", entry.sequence)}
        case "charges_inherited":
            taken = {body["account"]: sum(part["amount"] for part in body["parts"])}
            runs = [part["run_key"] for part in body["parts"]] if _aside(balances, body["account"]) else []
            inherited = sum(reserved_failure(connection, run_key, before=entry.sequence) for run_key in runs)
            return _moved(balances, entry, taken, inherited)
        case "account_closed":
            closed = replace(balances[body["name"]], status="closed", entry=entry.sequence)
            return {**balances, body["name"]: closed}
        case "charge_reserved":
            failure = entered_failures(body["events"])
            for part in body["parts"]:
                _check_before(balances, entry, part, failure)
            return _moved(balances, entry, parts_in(body), failure)
        case "charge_returned":
            parts = returned_parts(connection, entry)
            given = reserved_failure(connection, body["run_key"], before=entry.sequence)
            return _moved(balances, entry, {name: -amount for name, amount in parts.items()}, -given)
    return balances


def _wait(waiting: dict[str, Mapping[str, int]], entry: Entry) -> None:
    """Note which charges wait for their grant after one entry, and what they take."""
    body = entry.body
    match entry.kind:
        case "charge_reserved":
            waiting[body["run_key"]] = parts_in(body)
        case "charges_inherited":
            for part in body["parts"]:
                if part["run_key"] in waiting:
                    waiting[part["run_key"]] = {**waiting[part["run_key"]], body["account"]: part["amount"]}
        case "charge_returned" | "grant_opened":
            waiting.pop(body["run_key"], None)


def _check_before(balances: Mapping[str, Balance], entry: Entry, part: Mapping[str, Any], failure: int) -> None:
    spent = balances[part["account"]].spent if part["account"] in balances else None
    if (part["before"], part["after"]) != (spent, part["before"] + part["amount"]):
        raise _corrupt_entry(entry, f"account {part['account']} had spent {spent} before it, not {part['before']}")
    before, aside = balances[part["account"]].failure, _aside(balances, part["account"])
    for found, allowed in wrong_sums(part, before=before, failure=failure, aside=aside):
        raise _corrupt_entry(entry, f"account {part['account']}: {found}, and not {allowed}")


def _aside(balances: Mapping[str, Balance], account: str) -> int:
    """Return which part of δ an account sets aside for selections of keys [10⁻¹⁸]."""
    return set_aside(json.loads(balances[account].terms)) if account in balances else 0


def _moved(
    balances: Mapping[str, Balance], entry: Entry, amounts: Mapping[str, int], failure: int
) -> Mapping[str, Balance]:
    """Return the balances with amounts and failures added; what was never opened, or passes a cap, is corruption."""
    changed = dict(balances)
    for name, amount in amounts.items():
        if name not in balances:
            raise _corrupt_entry(entry, f"account {name} was never opened")
        spent = balances[name].spent + amount
        if not 0 <= spent <= balances[name].cap:
            raise _corrupt_entry(entry, f"account {name} would have spent {spent} of {balances[name].cap} after it")
        failed = balances[name].failure + failure
        if failure and not 0 <= failed <= _aside(balances, name):
            raise _corrupt_entry(
                entry, f"account {name} would have failures of {failed} of {_aside(balances, name)} after it"
            )
        changed[name] = replace(balances[name], spent=spent, entry=entry.sequence, failure=failed)
    return changed


def _corrupt_entry(entry: Entry, why: str) -> LedgerCorrupt:
    return LedgerCorrupt(f"journal entry {entry.sequence} ({entry.kind}): {why}; {TAMPERED}")


# --- comparing ----------------------------------------------------------------------------------------------------


def check_accounts(states: Iterable[AccountState], expected: Iterable[str], balances: Mapping[str, Balance]) -> None:
    """Refuse rows of accounts that are not what the entries say: one changed, one more, or one missing.

    Args:
        states: the accounts that were found in the tables.
        expected: names of those that should have been found.
        balances: all accounts as the entries add up, by name.
    Raises:
        LedgerCorrupt: names the account, what the table says, what the journal says, and the entry that last said it.
    """
    found: dict[str, AccountState] = {}
    for each in states:
        if found.setdefault(each.terms.name, each) is not each:
            raise LedgerCorrupt(f"account {each.terms.name} is in the database twice, under two names; {TAMPERED}")
    for name in sorted({*found, *expected}):
        balance = balances.get(name)
        if balance is None:
            raise LedgerCorrupt(
                f"account {name} is in the database, and no entry of the journal opens it; {TAMPERED}"
            )
        if name not in found or name not in expected:
            raise LedgerCorrupt(
                f"account {name}: its row is gone from the database, or is about other people or days than those of "
                f"journal entry {balance.entry}; {TAMPERED}"
            )
        row = found[name]
        for what, said, holds in (
            ("spent", row.spent, balance.spent),
            ("cap", row.cap, balance.cap),
            ("status", row.status, balance.status),
            ("terms", to_text(row.terms.to_json()), balance.terms),
        ):
            if said != holds:
                raise LedgerCorrupt(
                    f"account {name}: {what} is {_shown(said)} in the database and {_shown(holds)} in the journal, "
                    f"whose entry {balance.entry} was the last to change it; {TAMPERED}"
                )


def _shown(value: int | str) -> str:
    """Return an amount as decimal text, and a text as it is."""
    return value if isinstance(value, str) else pico_to_text(value)


def with_failures(states: Iterable[AccountState], balances: Mapping[str, Balance]) -> list[AccountState]:
    """Return accounts of the tables, once they are checked, with what the entries say of their selections of keys."""
    return [replace(state, failure=balances[state.terms.name].failure) for state in states]


def accounts_of_people(balances: Mapping[str, Balance], population: str, days: TimeBlock) -> list[str]:
    """Return the names of the accounts that a population has on some days."""
    return [name for name, each in balances.items() if _is_about(each.terms, population, days)]


def is_unused(connection: Connection, name: str, reckoning: Reckoning) -> bool:
    """Say whether no entry has changed an open account since it was opened: nothing was reserved, nor inherited."""
    opened = [entry.sequence for entry in entries_about(connection, name) if entry.kind == "account_opened"]
    balance = reckoning.balances[name]
    return balance.entry == max(opened) and balance.status == "open"


@lru_cache(maxsize=4096)
def _is_about(terms: str, population: str, days: TimeBlock) -> bool:
    told = json.loads(terms)
    return bool(told["population"] == population) and time_block(told["block"]).overlaps(days)
