"""The ledger's tables held against its journal: of what a charge needs at once, or every row in a whole check.

The ledger decides by its tables: whose days an account holds, whom a source is bound to, what a run has drawn. So a
charge refuses rows that are not what the entries say (`check_accounts`, `check_charge`, `check_draws`,
`check_source`). A whole check (`Rows`) remembers of each entry short texts and digests, which fit into memory for a
long journal.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any, Final

from sqlalchemy import Connection, Row, select

from contracts.errors import Finding
from contracts.periods.time_blocks import TimeBlock, time_block
from privacy.accounting.amounts import pico_to_text
from privacy.ledger.accounts.fold import Balance, entries_about, parts_in
from privacy.ledger.entries import TAMPERED, Entry, LedgerCorrupt, corrupt_if_unreadable
from privacy.ledger.store import schema
from privacy.ledger.store.ledger_rows import draws_of, to_text
from privacy.ledger.terms import TERMS, AccountState, Charge, ChargeRequest

_STATUS: Final = {
    "charge_reserved": "reserved",
    "charge_returned": "returned",
    "grant_opened": "opened",
    "version_published": "published",
}
_REQUEST: Final = tuple(field.name for field in fields(ChargeRequest) if field.name != "source")
_ORDER: Final = Finding("charges", "number", "another order", "the order in which the journal has reserved them")

# --- of one charge --------------------------------------------------------------------------------------------------


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
    rows = [_summary_of(row) for row in draws_of(connection, run_key)]
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


def _summary_of(row: Row[Any]) -> tuple[int, str, str, Any]:
    return row.number, row.key, row.sha256, json.loads(row.event)


def _wrong(run_key: str, entry: Entry, why: str) -> LedgerCorrupt:
    return LedgerCorrupt(f"run {run_key}, journal entry {entry.sequence} ({entry.kind}): {why}; {TAMPERED}")


# --- of all rows ----------------------------------------------------------------------------------------------------


class Rows:
    """What the entries read so far say of each row, by name; the balances are `Accounts`."""

    def __init__(self) -> None:
        self._terms: dict[str, str] = {}
        self._sources: dict[str, str] = {}
        self._blocks: dict[str, tuple[str, int, int]] = {}
        self._statuses: dict[str, str] = {}
        self._parts: dict[str, dict[str, int]] = {}
        self._requests: dict[str, str] = {}
        self._people: dict[str, str] = {}
        self._randomness: dict[str, str] = {}
        self._drawn: Counter[str] = Counter()
        self._draws: dict[str, str] = {}
        self._versions: dict[tuple[str, int], tuple[str, str]] = {}
        self._standing: dict[str, int] = {}
        self._manifests: dict[tuple[str, int], str] = {}

    def entry(self, entry: Entry) -> None:
        """Take one entry in."""
        body = entry.body
        run_key = body.get("run_key", "")
        if entry.kind in _STATUS:
            self._statuses[run_key] = _STATUS[entry.kind]
        match entry.kind:
            case "account_opened":
                terms = to_text({name: body[name] for name in TERMS})
                self._terms[body["name"]] = f"{terms} for {_people_in(body)}"
            case "charges_inherited":
                for part in body["parts"]:
                    self._parts.setdefault(part["run_key"], {})[body["account"]] = part["amount"]
            case "source_bound":
                self._sources[body["source"]] = _people_in(body)
                block = time_block(body["block"])
                self._blocks[body["source"]] = (body["population"], block.begins, block.ends)
            case "charge_reserved":
                self._parts[run_key] = parts_in(body)
                self._requests[run_key] = request_mark(body)
                self._people[run_key] = _people_in(body)
                self._randomness.pop(run_key, None)
            case "charge_returned":
                self._parts.pop(run_key, None)
            case "grant_opened":
                self._randomness[run_key] = body["security"]
            case "noise_drawn":
                self._drawn[run_key] += 1
                self._draws[run_key] = _digest_after(self._draws.get(run_key), _summary(body))
            case "version_published":
                self._manifests[body["release"], body["number"]] = body["manifest"]
                self._published(body)
            case "version_withdrawn":
                self._withdrawn(body)

    def compare(self, connection: Connection, balances: Mapping[str, Balance]) -> Iterator[Finding]:
        """Yield each row of the tables that does not say what the entries say; those that are parsed come last."""
        accounts = list(connection.execute(schema.accounts.select()))
        told = {row.name: (row.cap, row.spent, row.status) for row in accounts}
        sums = {name: (each.cap, each.spent, each.status) for name, each in balances.items()}
        yield from differences("account", "balance", told, sums)
        charges = schema.charges.c
        statuses = dict(connection.execute(select(charges.run_key, charges.status)).tuples().all())
        yield from differences("charge", "status", statuses, self._statuses)
        parts: dict[str, dict[str, int]] = {}
        for row in connection.execute(schema.parts.select()):
            parts.setdefault(row.run_key, {})[row.account] = row.amount
        standing = {run_key: taken for run_key, taken in parts.items() if statuses.get(run_key) != "returned"}
        yield from differences("charge", "amounts", standing, self._parts)
        versions = {(row.release, row.number): row for row in connection.execute(schema.versions.select())}
        visible = {key: (row.run_key, row.status) for key, row in versions.items() if row.status != "allocated"}
        yield from differences("version", "status", visible, self._versions)
        manifests = {key: row.manifest for key, row in versions.items() if row.manifest is not None}
        yield from differences("version", "manifest", manifests, self._manifests)
        drawn = Counter(connection.execute(select(schema.draws.c.run_key)).scalars())
        yield from differences("run", "draws", drawn, self._drawn)
        sources = {row.source: _people(row) for row in connection.execute(schema.sources.select())}
        yield from differences("source", "people", sources, self._sources)
        yield from differences(
            "account", "terms", {r.name: f"{r.terms} for {_people(r)}" for r in accounts}, self._terms
        )
        requests, randomness = self._charges(connection)
        order = list(requests) != list(self._requests)
        yield from [_ORDER] if order and set(requests) == set(self._requests) else []
        yield from differences("charge", "request", requests, self._requests)
        yield from differences("charge", "randomness", randomness, self._randomness)
        draws: dict[str, str] = {}
        for row in connection.execute(schema.draws.select().order_by(schema.draws.c.run_key, schema.draws.c.number)):
            draws[row.run_key] = _digest_after(draws.get(row.run_key), _summary_of(row))
        yield from differences("run", "noise", draws, self._draws)

    def _published(self, body: Mapping[str, Any]) -> None:
        """Publish a version; the one of its release that stood before is superseded, or this one if it is older."""
        release, number = body["release"], body["number"]
        self._versions[release, number] = (body["run_key"], "published")
        standing = self._standing.get(release)
        if standing is not None:
            older = min(standing, number)
            self._versions[release, older] = (self._versions[release, older][0], "superseded")
        self._standing[release] = max(number, standing or 0)

    def _withdrawn(self, body: Mapping[str, Any]) -> None:
        release, number = body["release"], body["number"]
        self._versions[release, number] = (body["run_key"], "withdrawn")
        if self._standing.get(release) == number:
            del self._standing[release]

    def _charges(self, connection: Connection) -> tuple[dict[str, str], dict[str, str]]:
        """Return of each charge in the table the mark of its request, and what noise was drawn from."""
        requests, randomness = {}, {}
        for row in connection.execute(schema.charges.select().order_by(schema.charges.c.number)):
            request = json.loads(row.request)
            named = (request["run_key"], request["release"], request["spec_digest"])
            fits = named == (row.run_key, row.release, row.spec_digest)
            told = self._people.get(row.run_key, "nobody")
            fits = fits and told.startswith(f"{_days_of(row)} (") and self._bound_to(row, request)
            requests[row.run_key] = request_mark(request) if fits else "columns of another request"
            if row.security is not None:
                randomness[row.run_key] = row.security
        return requests, randomness

    def _bound_to(self, row: Row[Any], request: Mapping[str, Any]) -> bool:
        """Say whether the source of a charge is bound to its people: for these days, or days around them."""
        population, begins, ends = self._blocks.get(request["source"], ("", 0, 0))
        days = (row.begins, row.ends)
        within = begins <= row.begins and row.ends <= ends
        return row.population == population and (within if request["days"] else days == (begins, ends))


def _people_in(body: Mapping[str, Any]) -> str:
    """Say whom an entry is about."""
    block = time_block(body["block"])
    return f"{body['population']!r}, days {block.begins} to {block.ends} ({block.text})"


def _people(row: Row[Any]) -> str:
    block = row.block if hasattr(row, "block") else json.loads(row.terms)["block"]
    return f"{_days_of(row)} ({block})"


def _days_of(row: Row[Any]) -> str:
    return f"{row.population!r}, days {row.begins} to {row.ends}"


def request_mark(request: Mapping[str, Any]) -> str:
    """Return a digest of what a charge asks for."""
    return hashlib.sha256(repr([request[name] for name in _REQUEST]).encode()).hexdigest()[:32]


def _digest_after(before: str | None, drawn: tuple[object, ...]) -> str:
    """Return the digest of a run's draws with one more."""
    return hashlib.sha256(repr((before, drawn)).encode()).hexdigest()[:32]


def differences(what: str, field: str, found: Mapping[Any, object], folded: Mapping[Any, object]) -> list[Finding]:
    """Return a finding for each name under which a table and the journal say different things."""
    return [
        Finding(
            f"{what} {_name(key)}", field, _words(found.get(key)), f"{_words(folded.get(key))}, as the journal says"
        )
        for key in sorted({*found, *folded}, key=str)
        if found.get(key) != folded.get(key)
    ]


def _name(key: object) -> str:
    return f"{key[0]} v{key[1]}" if isinstance(key, tuple) else str(key)


def _words(value: object) -> str:
    match value:
        case None:
            return "none"
        case (int() as cap, int() as spent, str() as status):
            return f"{spent} of {cap} spent, {status}"
        case (str() as run_key, str() as status):
            return f"{status}, run {run_key}"
        case _:
            return str(value)
