"""The accounts as the journal's own entries add up: a charge holds the tables against it, in its own transaction.

The ledger decides by its tables, and the owner of the database can change them. So before anything is charged,
opened, returned or shown, the entries since the last signed statement of balances (`books`) are added to it:

1. the entry at which the statement was made has the hash that it names (without a statement: the journal's beginning)
2. each entry since hashes to its hash, names the one before, is kept under its own subject, and obeys the arithmetic
   (`Accounts`): a charge begins with what was spent and with what others may still return, a return gives what was
   reserved, no cap is passed, and every account was opened
3. the journal's head is that of the last entry

Then the tables are held against it (`table_rows`). A whole check takes the same steps, and goes on after a finding.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row

from contracts.periods.time_blocks import TimeBlock, time_block
from privacy.accounting.amounts import atto_to_text
from privacy.accounting.events import entered_failures
from privacy.ledger.entries import GENESIS, TAMPERED, Entry, LedgerCorrupt
from privacy.ledger.entry_bodies import subject_of
from privacy.ledger.journal.merkle import appended
from privacy.ledger.store import schema
from privacy.ledger.store.journal import checked_entry
from privacy.ledger.store.ledger_rows import to_text
from privacy.ledger.terms import TERMS, AccountState

BEFORE, AFTER = "failure_before", "failure_after"
"""What a part of a charge says of the second sum, where the account has one [10⁻¹⁸]."""


@lru_cache(maxsize=4096)
def set_aside(terms: str) -> int:
    """Return which part of δ an account's terms, as canonical JSON, set aside for selections of keys [10⁻¹⁸]."""
    return int(json.loads(terms)["calculus"].get("selection_delta", 0))


def second_sum(before: int, failure: int, *, aside: int) -> dict[str, int]:
    """Return what a part of a charge says of the second sum; nothing where its account sets nothing aside."""
    return {BEFORE: before, AFTER: before + failure} if aside else {}


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


class Contradiction(NamedTuple):
    """What an entry says otherwise than those before it: of which account or run, in which field; what it could."""

    where: str
    field: str
    found: object
    allowed: object


class Accounts:
    """The accounts as far as the entries are read, one step an entry: for the next charge, and for a whole check.

    Args:
        since: where to begin; it stays as it is.
        reserved_failure: what the selections of a run that was reserved before `since` may fail with [10⁻¹⁸].
    """

    def __init__(self, since: Reckoning, reserved_failure: Callable[[str], int] = lambda run_key: 0) -> None:
        self.balances = dict(since.balances)
        self.waiting = dict(since.waiting)
        self._unopened = Counter[str]()
        for taken in self.waiting.values():
            self._unopened.update(taken)
        self._failures: dict[str, int] = {}
        self._reserved_failure = reserved_failure

    def entry(self, entry: Entry) -> list[Contradiction]:
        """Take one entry in, whatever it says; return what the ledger would not have written of its amounts.

        An account that was never opened has no sums: nothing is added to it.
        """
        return list(self._step(entry))

    def _step(self, entry: Entry) -> Iterator[Contradiction]:
        body = entry.body
        match entry.kind:
            case "account_opened":
                yield from self._opened(entry)
            case "charges_inherited":
                yield from self._inherited(entry)
            case "account_closed":
                if self._known(body["name"]):
                    closed = replace(self.balances[body["name"]], status="closed", entry=entry.sequence)
                    self.balances[body["name"]] = closed
                else:
                    yield _never_opened(body["name"])
            case "charge_reserved":
                self._failures[body["run_key"]] = failure = entered_failures(body["events"])
                for part in filter(lambda each: self._known(each["account"]), body["parts"]):
                    yield from self._sums(part, failure)
                for name, amount in parts_in(body).items():
                    yield from self._move(entry, name, amount, failure)
                self._wait(body["run_key"], parts_in(body))
            case "charge_returned":
                yield from self._returned(entry)
            case "grant_opened" | "version_published" | "version_withdrawn":
                self._wait(body["run_key"], {})

    def _known(self, name: str) -> bool:
        return name in self.balances

    def _wait(self, run_key: str, taken: Mapping[str, int]) -> Mapping[str, int]:
        """Note what a run may still give back, nothing for one that no longer waits; return what was noted before."""
        before = self.waiting.pop(run_key, {})
        self._unopened.subtract(before)
        if taken:
            self.waiting[run_key] = taken
            self._unopened.update(taken)
        return before

    def _failure_of(self, run_key: str, *, aside: int) -> int:
        """Return what a run's selections may fail with; of one before `since` only where an account asks for it."""
        known = self._failures.get(run_key)
        return known if known is not None else self._reserved_failure(run_key) if aside else 0

    def _opened(self, entry: Entry) -> Iterator[Contradiction]:
        body, known = entry.body, self.balances.get(entry.body["name"])
        if known is not None and known.spent:
            yield Contradiction(
                f"account {body['name']}", "spent", f"{known.spent}, and it is opened again", "nothing"
            )
        terms = to_text({name: body[name] for name in TERMS})
        self.balances[body["name"]] = Balance(terms, body["cap"], 0, "open", entry.sequence)

    def _inherited(self, entry: Entry) -> Iterator[Contradiction]:
        name = entry.body["account"]
        if not self._known(name):
            yield _never_opened(name)
            return
        aside = set_aside(self.balances[name].terms)
        for part in entry.body["parts"]:
            run_key, amount = part["run_key"], part["amount"]
            yield from self._move(entry, name, amount, self._failure_of(run_key, aside=aside))
            if run_key in self.waiting:
                self._wait(run_key, {**self.waiting[run_key], name: amount})

    def _returned(self, entry: Entry) -> Iterator[Contradiction]:
        run_key, given = entry.body["run_key"], parts_in(entry.body)
        taken = self._wait(run_key, {})
        if not taken:
            yield Contradiction(
                f"run {run_key}", "status", "no charge that waits", "one that is reserved, never opened"
            )
        elif taken != given:
            yield Contradiction(f"run {run_key}", "amounts", given, f"{taken}, as they were taken")
        aside = max((set_aside(self.balances[name].terms) for name in given if self._known(name)), default=0)
        failure = self._failure_of(run_key, aside=aside)
        for name, amount in given.items():
            yield from self._move(entry, name, amount, failure, back=True)

    def _sums(self, part: Mapping[str, Any], failure: int) -> Iterator[Contradiction]:
        """Hold what a part of a charge says of the sums before and after it against them."""
        name, balance = part["account"], self.balances[part["account"]]
        told, sums = (part["before"], part["after"]), (balance.spent, balance.spent + part["amount"])
        where, unopened = f"account {name}", self._unopened[name]
        if told != sums:
            yield Contradiction(where, "before and after", told, f"{sums}, what was spent, and the amount more")
        failures = {key: part[key] for key in (BEFORE, AFTER) if key in part}
        expected = second_sum(balance.failure, failure, aside=set_aside(balance.terms))
        if failures != expected:
            allowed = expected or "none: its account sets nothing aside"
            yield Contradiction(where, "failures", failures or "none", allowed)
        if part["returnable"] != unopened:
            yield Contradiction(where, "returnable", part["returnable"], f"{unopened}, reserved by others")

    def _move(
        self, entry: Entry, name: str, amount: int, failure: int, *, back: bool = False
    ) -> Iterator[Contradiction]:
        """Add an amount and a failure to an account's sums, or give them back; both stay within what it may lose."""
        where, before = f"account {name}", self.balances.get(name)
        if type(amount) is not int or amount < 0:
            yield Contradiction(where, "amount", amount, "a whole number, 0 or more")
        if before is None:
            yield _never_opened(name)
            return
        sign = -1 if back else 1
        spent, failed = before.spent + sign * amount, before.failure + sign * failure
        self.balances[name] = replace(before, spent=spent, entry=entry.sequence, failure=failed)
        if not 0 <= spent <= before.cap:
            yield Contradiction(where, "cap", f"{spent} of {before.cap} spent", "0 to the cap")
        aside = set_aside(before.terms)
        if not 0 <= failed <= aside:
            allowed = f"{atto_to_text(aside)}, which is set aside for them"
            yield Contradiction(where, "failures", f"failures of {atto_to_text(failed)}", allowed)


def _never_opened(name: str) -> Contradiction:
    return Contradiction(f"account {name}", "account", "never opened", "one that an entry before it opens")


def reckon(connection: Connection, since: Reckoning) -> Reckoning:
    """Add the entries since a reckoning to it.

    Raises:
        LedgerCorrupt: they do not follow it, contradict themselves, or are not those of the journal's head.
    """
    accounts = Accounts(since, lambda run_key: _reserved_failure(connection, run_key, before=since.size))
    reached = since
    for row in _rows_since(connection, since):
        try:
            reached = _after(reached, row, accounts)
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


def _after(reached: Reckoning, row: Row[Any], accounts: Accounts) -> Reckoning:
    """Return what is reached with one more entry; `accounts`, whose sums it has, is changed in its place."""
    entry = checked_entry(row)
    if (entry.sequence, entry.previous) != (reached.size, reached.head):
        raise _corrupt_entry(
            entry, f"it follows {entry.previous[:16]}…, and the entry before is {reached.head[:16]}…"
        )
    frontier, subtrees = appended(reached.frontier, reached.size, row.hash)
    if row.subtrees != " ".join(subtrees):
        raise _corrupt_entry(entry, "its Merkle subtrees are not those of the entries")
    if row.subject != subject_of(entry):  # a source may be one: it is not quoted
        raise _corrupt_entry(entry, "it is kept under another subject than its own")
    for where, field_name, found, allowed in accounts.entry(entry):
        raise _corrupt_entry(entry, f"{where}: {field_name}: {found}, and not {allowed}")
    return Reckoning(reached.size + 1, row.hash, frontier, accounts.balances, accounts.waiting)


def _reserved_failure(connection: Connection, run_key: str, *, before: int) -> int:
    """Return what the selections of keys that a run last reserved before an entry may fail with [10⁻¹⁸]."""
    about = [each for each in entries_about(connection, run_key) if each.sequence < before]
    reserved = [each for each in about if each.kind == "charge_reserved"]
    return entered_failures(reserved[-1].body["events"]) if reserved else 0


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


def _corrupt_entry(entry: Entry, why: str) -> LedgerCorrupt:
    return LedgerCorrupt(f"journal entry {entry.sequence} ({entry.kind}): {why}; {TAMPERED}")


def entries_about(connection: Connection, subject: str, *, draws: bool = False) -> list[Entry]:
    """Return the entries about a run (or account, or source), in order: its draws, or all others."""
    journal = schema.journal.c
    query = schema.journal.select().where(journal.subject == subject).order_by(journal.sequence)
    kind = journal.kind.concat("")  # so that the index of subjects is used, not that of kinds
    rows = connection.execute(query.where(kind == "noise_drawn" if draws else kind != "noise_drawn"))
    return [checked_entry(row) for row in rows]


def parts_in(body: Mapping[str, Any]) -> dict[str, int]:
    """Return what an entry takes from each account, or gives back."""
    return {part["account"]: part["amount"] for part in body["parts"]}


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
