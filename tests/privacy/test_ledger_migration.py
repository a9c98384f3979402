"""Schema versions of the ledger's database: what a migration carries over, and what it refuses."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import Connection, inspect, text

import privacy.ledger.migrate
from contracts.canonical import canonical_json
from privacy.accounting.amounts import PICO
from privacy.ledger import schema
from privacy.ledger.entries import Entry
from privacy.ledger.errors import LedgerOutdated, LedgerRefusal, LedgerUnavailable
from privacy.ledger.migrate import CURRENT, VERSION_TABLE, revision_of
from privacy.ledger.signing import Signer
from tests.privacy.conftest import NewPlace
from tests.privacy.ledgers import HALF, Counted, Place, bind, request, terms

OLD = (Path(__file__).parent / "ledger_0001.sql").read_text()
FIRST_HASH = "eb39d44ec4695503c62987b9ff2efca6ea19775c33717def350690f2f99687b4"
SIGNER = Signer(bytes(range(32)))


def make_foundation(connection: Connection) -> None:
    """Make the tables of the first schema, by its migration; version 0.1 kept no version table."""
    config = Config()
    folder = Path(privacy.ledger.migrate.__file__).parent / "migrations"
    config.set_main_option("script_location", str(folder))
    config.attributes |= {"connection": connection, "version_table": VERSION_TABLE}
    command.upgrade(config, "0001")
    connection.execute(text(f"DROP TABLE {VERSION_TABLE}"))


def differences(place: Place) -> list[object]:
    """What the database has otherwise than the code's tables."""
    with place.by_hand() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        return list(compare_metadata(context, schema.metadata))


@pytest.fixture
def old(new_place: NewPlace) -> Place:
    """A ledger of the first schema: on SQLite as version 0.1 wrote it, on PostgreSQL its rows in migration 0001."""
    place = new_place(tables=False)
    if place.kind == "sqlite":
        with sqlite3.connect(place.url.removeprefix("sqlite:///")) as connection:
            connection.executescript(OLD)
        return place
    with place.by_hand() as connection:
        make_foundation(connection)
        for line in OLD.splitlines():
            if line.startswith("INSERT"):
                connection.exec_driver_sql(line)
    return place


def dump(place: Place) -> dict[str, list[tuple[object, ...]]]:
    """Every row of every table."""
    with place.by_hand() as connection:
        return {
            name: sorted(tuple(row) for row in connection.execute(text(f'SELECT * FROM "{name}"')))
            for name in inspect(connection).get_table_names()
        }


def test_the_migrated_database_is_the_one_that_the_code_knows(new_place: NewPlace) -> None:
    place = new_place(tables=False)
    place.open()
    with place.by_hand() as connection:
        assert revision_of(connection) == CURRENT
    assert differences(place) == []


def test_an_old_ledger_once_migrated_has_the_same_tables_as_a_new_one(old: Place) -> None:
    old.open(migrate=True)
    assert differences(old) == []


def test_the_first_migration_makes_the_tables_that_version_0_1_made(tmp_path: Path) -> None:
    """The dump was written by that version; the migration was written after it."""
    tables = []
    for script in (OLD, None):
        with sqlite3.connect(tmp_path / f"{script is None}.sqlite") as connection:
            connection.executescript(script or "")
        place = Place(f"sqlite:///{tmp_path / f'{script is None}.sqlite'}", tmp_path)
        with place.by_hand() as connection:
            if script is None:
                make_foundation(connection)
            seen = inspect(connection)
            tables.append(
                {
                    name: [(column["name"], str(column["type"]), column["nullable"]) for column in columns]
                    for (_, name), columns in seen.get_multi_columns().items()
                }
            )
    assert tables[0] == tables[1]


def test_a_ledger_of_an_older_schema_is_refused_with_the_command_that_migrates(old: Place) -> None:
    before = dump(old)
    with pytest.raises(
        LedgerOutdated, match=rf"schema 0001.*knows {CURRENT}.*back it up.*sudare budget migrate"
    ) as refused:
        old.open()
    assert refused.value.exit_code == 1
    assert dump(old) == before


def test_a_migration_keeps_every_entry_and_every_balance(old: Place) -> None:
    before = dump(old)
    ledger = old.open(migrate=True)
    entries = ledger.journal()
    kept = sorted((entry.sequence, entry.previous, entry.hash, entry.kind, entry.at) for entry in entries)
    assert kept == [row[:5] for row in before["journal"]]
    assert entries[0].hash == FIRST_HASH
    assert ledger.verify(public_key=SIGNER.public_key) == []
    assert {state.terms.name: (state.spent, state.status) for state in ledger.accounts()} == {
        "people-2023": (0, "closed"),
        "people-2024": (PICO, "open"),
    }
    assert [
        (charge.request.run_key, charge.amount, charge.status) for charge in ledger.charges(spec_digest="a" * 64)
    ] == [
        ("run-1", PICO, "published"),
        ("run-2", PICO // 2, "returned"),
    ]
    assert [(version.number, version.run_key, version.status) for version in ledger.versions()] == [
        (1, "run-1", "published")
    ]
    assert ledger.gate_failures("people-2024", before=len(entries)) == 1
    assert [entry.kind for entry in ledger.entries_of("run-1")] == [
        "charge_reserved",
        "grant_opened",
        "noise_drawn",
        "noise_drawn",
        "version_published",
    ]


def test_a_migrated_ledger_goes_on_where_it_stood(old: Place) -> None:
    ledger = old.open(migrate=True)
    assert ledger.reserve(request()).status == "published"
    for run_key, noise in (("run-2", (HALF,)), ("run-3", (HALF,))):  # run-2 was returned, and is the same release
        ledger.reserve(request(run_key, noise=noise))
    assert ledger.account("people-2024").spent == 2 * PICO
    ledger.open_grant("run-2")
    assert ledger.allocate_version("run-2").number == 2
    ledger.record_publication("run-2", "f" * 64)
    assert [version.status for version in ledger.versions()] == ["superseded", "published"]
    assert ledger.open_account(terms(block="2024-Q4")).spent == 2 * PICO
    bind(ledger, "2024-10", source="file:october")
    ledger.reserve(request("run-4", source="file:october"))
    assert ledger.account("people-2024-Q4").remaining == ledger.account("people-2024").remaining == 0
    assert ledger.verify() == []
    old.open()  # needs no second migration


def test_a_run_of_before_the_migration_can_be_proven_after_it(old: Place) -> None:
    """Its version's folder may be lost, and is written again."""
    proof = old.open(migrate=True).prove("run-1", SIGNER)
    kinds = [proven["entry"]["kind"] for proven in proof["entries"]]
    assert kinds == [
        "account_opened",
        "charge_reserved",
        "grant_opened",
        "noise_drawn",
        "noise_drawn",
        "version_published",
    ]
    assert proof["checkpoint"]["ledger"] == FIRST_HASH


def test_a_run_that_has_only_reserved_refuses_the_migration_and_is_named(old: Place) -> None:
    old.execute("UPDATE charges SET status = 'reserved' WHERE run_key = 'run-2'")
    before = dump(old)
    with pytest.raises(LedgerUnavailable, match="not begun to draw: run-2; run their specs once more"):
        old.open(migrate=True)
    assert dump(old) == before


def append(connection: Connection, kind: str, body: dict[str, Any]) -> None:
    """Append an entry as version 0.1 did."""
    last = connection.execute(text("SELECT * FROM journal ORDER BY sequence DESC")).first()
    assert last is not None
    entry = Entry(last.sequence + 1, last.hash, kind, last.at, body)
    values = {**entry.to_json(), "body": canonical_json(body).decode(), "hash": entry.hash}
    columns = ("sequence", "previous", "hash", "kind", "at", "body")
    named = ", ".join(f":{column}" for column in columns)
    connection.execute(text(f"INSERT INTO journal ({', '.join(columns)}) VALUES ({named})"), values)


def begin_run(place: Place, run_key: str) -> None:
    """Reserve what run-1 has reserved, and open the grant, as version 0.1 did."""
    with place.by_hand() as connection:
        row = connection.execute(text("SELECT * FROM charges WHERE run_key = 'run-1'")).one()
        asked = {**json.loads(row.request), "run_key": run_key}
        charge = {**row._mapping, "run_key": run_key, "number": 3, "request": json.dumps(asked), "status": "opened"}
        named = ", ".join(f":{column}" for column in charge)
        connection.execute(text(f"INSERT INTO charges ({', '.join(charge)}) VALUES ({named})"), charge)
        connection.execute(text(f"UPDATE accounts SET spent = spent + {row.amount} WHERE name = '{row.account}'"))
        told = {name: value for name, value in asked.items() if name != "source"}
        append(connection, "charge_reserved", {**told, "amount": row.amount, "before": PICO, "after": 2 * PICO})
        append(connection, "grant_opened", {"run_key": run_key, "security": "csprng"})


def test_a_run_that_has_begun_to_draw_stays_spent_and_may_go_on(old: Place) -> None:
    begin_run(old, "run-3")
    ledger = old.open(migrate=True)
    charge = ledger.charge("run-3")
    assert charge is not None
    assert (charge.status, charge.security, charge.amount) == ("opened", "csprng", PICO)
    assert ledger.account("people-2024").spent == 2 * PICO
    with pytest.raises(LedgerRefusal, match="never opened"):
        ledger.return_charge("run-3")
    ledger.open_grant("run-3").measure(Counted(np.zeros(3, np.int64)).handle, noise=HALF, key="a")
    assert ledger.verify() == []


def test_of_two_versions_that_stood_published_the_older_is_superseded(old: Place) -> None:
    """The first schema left both published; the journal says which one came later."""
    begin_run(old, "run-3")
    with old.by_hand() as connection:
        body = {"run_key": "run-3", "release": "people-tables", "number": 2, "manifest": "f" * 64}
        append(connection, "version_published", body)
        row = "('people-tables', 2, 'run-3', 'published', :manifest)"
        connection.execute(text(f"INSERT INTO versions VALUES {row}"), {"manifest": "f" * 64})
        connection.execute(text("UPDATE charges SET status = 'published' WHERE run_key = 'run-3'"))
    ledger = old.open(migrate=True)
    assert [(version.number, version.status) for version in ledger.versions()] == [
        (1, "superseded"),
        (2, "published"),
    ]
    assert ledger.verify() == []


@pytest.mark.parametrize("block", ["2024", "2024-Q4", "lifetime"])
def test_accounts_of_the_same_people_on_overlapping_days_refuse_the_migration(old: Place, block: str) -> None:
    change = f"""replace(terms, '"block":"2023"', '"block":"{block}"')"""
    old.execute(f"UPDATE accounts SET terms = {change}")
    before = dump(old)
    with pytest.raises(
        LedgerUnavailable, match=r"people-202[34] and people-202[34] are of the same people"
    ) as refused:
        old.open(migrate=True)
    assert {"people-2023", "people-2024"} <= set(str(refused.value).split())
    assert dump(old) == before


@pytest.mark.parametrize("table", ["accounts", "sources"])
def test_a_time_block_that_is_no_calendar_period_refuses_the_migration(old: Place, table: str) -> None:
    column, value = {
        "accounts": ("terms", """replace(terms, '"block":"2023"', '"block":"batch 7"')"""),
        "sources": ("block", "'batch 7'"),
    }[table]
    old.execute(f"UPDATE {table} SET {column} = {value}")
    before = dump(old)
    with pytest.raises(LedgerUnavailable, match="'batch 7'"):
        old.open(migrate=True)
    assert dump(old) == before


def test_a_ledger_of_a_newer_schema_is_refused_with_what_would_read_it(place: Place) -> None:
    place.open().close()
    place.execute(f"UPDATE {VERSION_TABLE} SET version_num = '0099'")
    for migrate in (False, True):
        with pytest.raises(LedgerOutdated, match=r"schema 0099.*pip install --upgrade sudare.*sudare budget migrate"):
            place.open(migrate=migrate)
