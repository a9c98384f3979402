"""Accounts, charges, versions and draws as the fold of the journal's entries, and the tables compared with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, select

from contracts.errors import Finding
from privacy.ledger.accounts.failures import FailureSums
from privacy.ledger.entries import Entry
from privacy.ledger.store import schema


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
