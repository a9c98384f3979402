"""What the journal's entries say about accounts, sources, charges, draws and versions beside their amounts.

The ledger decides by its tables: whose days an account holds, whom a source is bound to, what a run has drawn. So
these are compared with the entries as well, as short texts and digests that fit into memory for a long journal.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from sqlalchemy import Connection, Row

from contracts.errors import Finding
from contracts.periods.time_blocks import time_block
from privacy.ledger.accounts.balances import differences
from privacy.ledger.entries import Entry
from privacy.ledger.store import schema
from privacy.ledger.store.ledger_rows import to_text
from privacy.ledger.terms import TERMS, ChargeRequest

_REQUEST: Final = tuple(field.name for field in fields(ChargeRequest) if field.name != "source")
_ORDER: Final = Finding("charges", "number", "another order", "the order in which the journal has reserved them")


class Particulars:
    """What the entries read so far say, by name."""

    def __init__(self) -> None:
        self._accounts: dict[str, str] = {}
        self._sources: dict[str, str] = {}
        self._blocks: dict[str, tuple[str, int, int]] = {}
        self._requests: dict[str, str] = {}
        self._people: dict[str, str] = {}
        self._randomness: dict[str, str] = {}
        self._draws: dict[str, str] = {}
        self._manifests: dict[tuple[str, int], str] = {}

    def entry(self, entry: Entry) -> None:
        """Take one entry in."""
        body = entry.body
        match entry.kind:
            case "account_opened":
                terms = to_text({name: body[name] for name in TERMS})
                self._accounts[body["name"]] = f"{terms} for {_people_in(body)}"
            case "source_bound":
                self._sources[body["source"]] = _people_in(body)
                block = time_block(body["block"])
                self._blocks[body["source"]] = (body["population"], block.begins, block.ends)
            case "charge_reserved":
                self._requests[body["run_key"]] = request_mark(body)
                self._people[body["run_key"]] = _people_in(body)
                self._randomness.pop(body["run_key"], None)
            case "grant_opened":
                self._randomness[body["run_key"]] = body["security"]
            case "noise_drawn":
                drawn = (body["number"], body["key"], body["sha256"], body["event"])
                self._draws[body["run_key"]] = _after(self._draws.get(body["run_key"]), drawn)
            case "version_published":
                self._manifests[body["release"], body["number"]] = body["manifest"]

    def compare(self, connection: Connection) -> list[Finding]:
        """Return each row of the tables that does not say what the entries say."""
        requests, randomness = self._charges(connection)
        draws: dict[str, str] = {}
        for row in connection.execute(schema.draws.select().order_by(schema.draws.c.run_key, schema.draws.c.number)):
            drawn = (row.number, row.key, row.sha256, json.loads(row.event))
            draws[row.run_key] = _after(draws.get(row.run_key), drawn)
        accounts = {r.name: f"{r.terms} for {_people(r)}" for r in connection.execute(schema.accounts.select())}
        sources = {row.source: _people(row) for row in connection.execute(schema.sources.select())}
        entered = schema.versions.select().where(schema.versions.c.manifest.is_not(None))
        manifests = {(row.release, row.number): row.manifest for row in connection.execute(entered)}
        order = list(requests) != list(self._requests)
        return [
            *([_ORDER] if order and set(requests) == set(self._requests) else []),
            *differences("account", "terms", accounts, self._accounts),
            *differences("source", "people", sources, self._sources),
            *differences("charge", "request", requests, self._requests),
            *differences("charge", "randomness", randomness, self._randomness),
            *differences("run", "noise", draws, self._draws),
            *differences("version", "manifest", manifests, self._manifests),
        ]

    def _charges(self, connection: Connection) -> tuple[dict[str, str], dict[str, str]]:
        """Return the marks of the requests that the table holds, and what noise was drawn from."""
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


def _after(before: str | None, drawn: tuple[object, ...]) -> str:
    """Return the digest of a run's draws with one more."""
    return hashlib.sha256(repr((before, drawn)).encode()).hexdigest()[:32]
