"""What selections of keys may fail with, as the journal's entries add it up: the second sum of an account.

An account that sets a part of its δ aside (`selection_delta` of its calculus) holds selections while their failure
probabilities, over all charges, stay within that part. They are a function of a charge's events, the same for every
account that it is taken from, so that no table keeps them: the entries do. A charge that takes from such an account
states what the sum was before and after, beside the loss.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import Connection, select

from contracts.errors import Finding
from privacy.accounting.amounts import atto_to_text
from privacy.accounting.key_selection import KeySelection, entered_failures
from privacy.ledger.entries import Entry
from privacy.ledger.store import schema

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
