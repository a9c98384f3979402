"""Accounts, charges, versions and draws as the fold of the journal's entries, and the tables compared with them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import Connection, select

from contracts.errors import Finding
from privacy.accounting.amounts import atto_to_text
from privacy.accounting.events import KeySelection, entered_failures
from privacy.ledger.entries import Entry
from privacy.ledger.store import schema

# --- What selections of keys may fail with, as the journal's entries add it up.


BEFORE, AFTER = "failure_before", "failure_after"
"""What a part of a charge says of the second sum, where the account has one [10⁻¹⁸]."""


def set_aside(terms: Mapping[str, Any]) -> int:
    """Return which part of δ an account's terms, as JSON, set aside for selections [10⁻¹⁸]."""
    return int(terms["calculus"].get("selection_delta", 0))


def stated(before: int, failure: int, *, aside: int) -> dict[str, int]:
    """Return what a part of a charge says of the second sum; nothing where its account sets nothing aside."""
    return {BEFORE: before, AFTER: before + failure} if aside else {}


def wrong_sums(part: Mapping[str, Any], *, before: int, failure: int, aside: int) -> Iterator[tuple[str, str]]:
    """Yield what a part of a charge says otherwise of the second sum than the entries before it: found and allowed.

    Args:
        part: what the charge takes from one account, as the entry has it.
        before: what the entries before it add up to [10⁻¹⁸].
        failure: what its events may fail with [10⁻¹⁸].
        aside: what the account sets aside [10⁻¹⁸].
    """
    told = {name: part[name] for name in (BEFORE, AFTER) if name in part}
    expected = stated(before, failure, aside=aside)
    if told != expected:
        yield f"{told or 'no sum of failures'}", f"{expected or 'none: its account sets nothing aside'}"
    if before + failure > aside:
        yield f"failures of {atto_to_text(before + failure)}", f"{atto_to_text(aside)}, which is set aside for them"


def charged_failures(connection: Connection, account: str) -> int:
    """Return what the selections of keys that stand charged to an account may fail with, by the tables [10⁻¹⁸]."""
    charges, parts = schema.charges.c, schema.parts.c
    query = select(charges.request).join_from(schema.parts, schema.charges, charges.run_key == parts.run_key)
    standing = query.where(parts.account == account, charges.status != "returned")
    selecting = standing.where(charges.request.contains(f'"{KeySelection.kind}"', autoescape=True))
    requests = connection.execute(selecting).scalars()
    return sum(entered_failures(json.loads(request)["events"]) for request in requests)


class FailureSums:
    """The second sum of each account, as far as the entries are read."""

    def __init__(self) -> None:
        self._aside: dict[str, int] = {}
        self._sums: dict[str, int] = {}
        self._charges: dict[str, tuple[int, set[str]]] = {}

    @property
    def sums(self) -> dict[str, int]:
        """The sums above 0, by account [10⁻¹⁸]."""
        return {name: units for name, units in self._sums.items() if units}

    def entry(self, entry: Entry) -> list[Finding]:
        """Take one entry in; return what it says otherwise than those before it."""
        body, wrong = entry.body, list[tuple[str, str]]()
        match entry.kind:
            case "account_opened":
                self._aside[body["name"]], self._sums[body["name"]] = set_aside(body), 0
            case "charges_inherited":
                for part in body["parts"]:
                    wrong += self._take(part["run_key"], body["account"])
            case "charge_reserved":
                failure = entered_failures(body["events"])
                self._charges[body["run_key"]] = (failure, set())
                for part in body["parts"]:
                    name = part["account"]
                    before, aside = self._sums.get(name, 0), self._aside.get(name, 0)
                    wrong += wrong_sums(part, before=before, failure=failure, aside=aside)
                    self._take(body["run_key"], name)
            case "charge_returned":
                failure, accounts = self._charges.pop(body["run_key"], (0, set()))
                for name in accounts:
                    self._sums[name] -= failure
        remedy = "the ledger never writes this: somebody else did; find out who, and trust no balance after it"
        return [
            Finding(f"journal entry {entry.sequence}", f"{entry.kind}, failures", found, allowed, remedy)
            for found, allowed in wrong
        ]

    def _take(self, run_key: str, account: str) -> list[tuple[str, str]]:
        """Add what a run's selections may fail with to an account's sum, and hold it against what is set aside."""
        failure, accounts = self._charges.get(run_key, (0, set()))
        accounts.add(account)
        self._sums[account] = self._sums.get(account, 0) + failure
        aside = self._aside.get(account, 0)
        if self._sums[account] <= aside:
            return []
        return [(f"failures of {atto_to_text(self._sums[account])}", f"{atto_to_text(aside)}, which is set aside")]


class Balances:
    """What the entries read so far add up to."""

    def __init__(self) -> None:
        self._accounts: dict[str, tuple[int, int, str]] = {}
        self._parts: dict[str, dict[str, int]] = {}
        self._charges: dict[str, str] = {}
        self._versions: dict[tuple[str, int], tuple[str, str]] = {}
        self._standing: dict[str, int] = {}
        self._draws: dict[str, int] = {}
        self._failures = FailureSums()
        self._findings: list[Finding] = []

    @property
    def failures(self) -> Mapping[str, int]:
        """What selections of keys may fail with, by account; those above 0."""
        return self._failures.sums

    @property
    def accounts(self) -> Mapping[str, tuple[int, int, str]]:
        """Cap, spent and status of each account, by name."""
        return self._accounts

    @property
    def waiting(self) -> dict[str, dict[str, int]]:
        """What each charge whose grant was not opened takes from whom."""
        return {run_key: self._parts[run_key] for run_key, status in self._charges.items() if status == "reserved"}

    def entry(self, entry: Entry) -> None:
        """Take one entry in."""
        body = entry.body
        self._findings += self._failures.entry(entry)
        match entry.kind:
            case "account_opened":
                self._accounts[body["name"]] = (body["cap"], 0, "open")
            case "charges_inherited":
                for part in body["parts"]:
                    self._take(entry, part["run_key"], body["account"], part["amount"])
            case "account_closed":
                cap, spent, _ = self._accounts.get(body["name"], (0, 0, ""))
                self._accounts[body["name"]] = (cap, spent, "closed")
            case "charge_reserved":
                self._charges[body["run_key"]] = "reserved"
                self._parts[body["run_key"]] = {}
                for account, amount in parts_in(body).items():
                    self._take(entry, body["run_key"], account, amount)
            case "charge_returned":
                self._charges[body["run_key"]] = "returned"
                for account, amount in self._parts.pop(body["run_key"], {}).items():
                    self._move(entry, account, -amount)
            case "grant_opened":
                self._charges[body["run_key"]] = "opened"
            case "noise_drawn":
                self._draws[body["run_key"]] = self._draws.get(body["run_key"], 0) + 1
            case "version_published":
                self._published(body)
            case "version_withdrawn":
                self._withdrawn(body)

    def compare(self, connection: Connection) -> list[Finding]:
        """Return what was found, with each row of the tables that is not what the entries say."""
        accounts = {
            row.name: (row.cap, row.spent, row.status) for row in connection.execute(schema.accounts.select())
        }
        charges = schema.charges
        statuses = dict(connection.execute(select(charges.c.run_key, charges.c.status)).tuples().all())
        parts: dict[str, dict[str, int]] = {}
        for row in connection.execute(schema.parts.select()):
            parts.setdefault(row.run_key, {})[row.account] = row.amount
        returned = {run_key for run_key, status in statuses.items() if status == "returned"}
        standing = {run_key: taken for run_key, taken in parts.items() if run_key not in returned}
        visible = schema.versions.select().where(schema.versions.c.status != "allocated")
        versions = {(r.release, r.number): (r.run_key, r.status) for r in connection.execute(visible)}
        drawn: dict[str, int] = {}
        for (run_key,) in connection.execute(select(schema.draws.c.run_key)):
            drawn[run_key] = drawn.get(run_key, 0) + 1
        return [
            *self._findings,
            *differences("account", "balance", accounts, self._accounts),
            *differences("charge", "status", statuses, self._charges),
            *differences("charge", "amounts", standing, self._parts),
            *differences("version", "status", versions, self._versions),
            *differences("run", "draws", drawn, self._draws),
        ]

    def _take(self, entry: Entry, run_key: str, account: str, amount: int) -> None:
        self._parts.setdefault(run_key, {})[account] = amount
        self._move(entry, account, amount)

    def _move(self, entry: Entry, account: str, amount: int) -> None:
        cap, spent, status = self._accounts.get(account, (0, 0, "never opened"))
        self._accounts[account] = (cap, spent + amount, status)
        if not 0 <= spent + amount <= cap:
            found = f"{spent + amount} of {cap} spent after entry {entry.sequence}"
            self._findings.append(Finding(f"account {account}", "cap", found, "0 to the cap"))

    def _published(self, body: Mapping[str, Any]) -> None:
        """Publish a version; the one of its release that stood before is superseded, or this one if it is older."""
        release, number = body["release"], body["number"]
        self._charges[body["run_key"]] = "published"
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


def parts_in(body: Mapping[str, Any]) -> dict[str, int]:
    """Return what an entry takes from each account, or gives back."""
    return {part["account"]: part["amount"] for part in body["parts"]}


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
