"""Whoever sees the hash of a sealed entry, and can guess the rest of it, cannot tell which guess is right."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import combinations
from typing import Any

import pytest

from privacy.ledger.entries import OPEN, SEALED, Entry
from privacy.ledger.ledger import Ledger
from tests.privacy.conftest import Databases
from tests.privacy.ledger.ledgers import Place, bind, ledger_with_account, request

GATES = ("domain:age", "domain:income", "nulls:age", "rows")
DICTIONARY = ("file:people.parquet", "file:register.csv", "file:wages.parquet")


@pytest.fixture
def databases(sqlite_databases: Databases) -> Databases:
    """Entries are the same on either store."""
    return sqlite_databases


@pytest.fixture
def ledger(place: Place) -> Ledger:
    return ledger_with_account(place)


def _times(around: str) -> Iterator[str]:
    middle = datetime.strptime(around, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    return ((middle + timedelta(seconds=each)).strftime("%Y-%m-%dT%H:%M:%SZ") for each in range(-300, 300))


def _failures() -> Iterator[dict[str, Any]]:
    """What a spec and a contract, which are public, let a gate's failure say."""
    asked = request()
    told = {name: getattr(asked, name) for name in ("release", "account", "spec_digest", "contract_digest")}
    for number in range(1, len(GATES) + 1):
        yield from ({**told, "gates": list(gates)} for gates in combinations(GATES, number))


def _bindings() -> Iterator[dict[str, Any]]:
    yield from ({"source": source, "population": "people", "block": "2025"} for source in DICTIONARY)


def _guessed(entry: Entry) -> dict[str, Any] | None:
    """Try each guess against the entry's hash, knowing its place, the hash before it, and roughly when."""
    bodies = list(_failures() if entry.kind == "gate_failed" else _bindings())
    for at in _times(entry.at):
        for body in bodies:
            if replace(entry, at=at, body=body).hash == entry.hash:
                return body
    return None


def _without_salt(entry: Entry) -> Entry:
    """Return the same entry as it would be without a salt; the ledger refuses to read one."""
    return replace(entry, body={name: told for name, told in entry.body.items() if name != "salt"})


def test_an_engine_s_failure_is_sealed_and_says_the_same_whatever_failed(place: Place, ledger: Ledger):
    """What is entered follows from the charge alone; its hash confirms no guess, and the journal holds with it."""
    one, other = ledger.record_engine_failure(request()), ledger.record_engine_failure(request())
    assert {**one.body, "salt": ""} == {**other.body, "salt": ""}
    assert sorted(one.body) == ["account", "contract_digest", "release", "run_key", "salt", "spec_digest"]
    assert one.body["salt"] != other.body["salt"]
    assert one.kind in SEALED
    assert ledger.verify() == []


def test_the_hash_of_a_gate_s_failure_confirms_no_guess(ledger: Ledger):
    """Of an entry without a salt the same search finds gate and time."""
    new = ledger.record_gate_failure(request(), ["domain:income"])
    assert _guessed(new) is None
    assert (_guessed(_without_salt(new)) or {})["gates"] == ["domain:income"]
    assert ledger.verify() == []


def test_the_hash_of_a_binding_confirms_no_path_of_a_dictionary(ledger: Ledger):
    """Of an entry without a salt the same search finds the path. Binding it again changes nothing."""
    bind(ledger, "2025", source="file:register.csv")
    new = ledger.journal()[-1]
    assert (new.kind, new.body["source"]) == ("source_bound", "file:register.csv")
    assert _guessed(new) is None
    assert (_guessed(_without_salt(new)) or {})["source"] == "file:register.csv"
    assert ledger.verify() == []
    before = ledger.journal()
    bind(ledger, "2025", source="file:register.csv")
    assert ledger.journal() == before


def test_every_entry_that_is_not_open_has_32_random_bytes_of_its_own(ledger: Ledger):
    for _ in range(3):
        ledger.record_gate_failure(request(), ["rows"])
    sealed = [entry for entry in ledger.journal() if entry.kind not in OPEN]
    salts = [bytes.fromhex(entry.body["salt"]) for entry in sealed]
    assert len(set(salts)) == len(sealed) >= 4
    assert {len(salt) for salt in salts} == {32}
    assert not any("salt" in entry.body for entry in ledger.journal() if entry.kind in OPEN)
