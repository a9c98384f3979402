"""Copies of published versions to PostgreSQL in one transaction, and what is copied at all."""

import hashlib
import json
from pathlib import Path

import psycopg
import pyarrow.parquet as pq
import pytest

from contracts.errors import StoreAway, StoreRefuses
from privacy.ledger.entries import LedgerRefusal
from privacy.ledger.ledger import Ledger
from tasks.records.model.manifest import manifest_of
from tasks.storage.manifest import PROOF
from tasks.storage.sinks.copies import copy_published, copy_version
from tasks.storage.sinks.table_copies import table_name
from tasks.storage.sinks.version_copy import VersionBroken, WholeVersion, whole_version
from tests.tasks.storage.postgres_server import PostgresServer
from tests.worlds.tables import first
from tests.worlds.versions import Version, publish_version


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGUSER", "postgres")


def whole(version: Version, number: int = 1) -> WholeVersion:
    manifest = (version.folder / "MANIFEST.json").read_bytes()
    release = manifest_of(json.loads(manifest)).release
    return whole_version(version.folder, release, number, hashlib.sha256(manifest).hexdigest())


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_folder_that_is_not_what_was_published_is_not_copied(tmp_path: Path, versions: dict[str, Version]):
    for spoil in ("data/age.parquet", "MANIFEST.json", PROOF):
        version = versions["town"].copy(tmp_path / spoil.replace("/", "-"))
        good = whole(version)
        (version.folder / spoil).unlink()
        with pytest.raises(VersionBroken, match="another content than was published"):
            whole_version(version.folder, "town", 1, good.digest)


def test_a_version_in_postgresql_is_a_schema_with_the_same_numbers(
    versions: dict[str, Version], postgres: PostgresServer
):
    for name in ("town", "guild"):
        version, database = whole(versions[name]), postgres.database()
        assert copy_version(version, postgres.address(database), None, newest=True).endswith(f"::{name}_v1")
        assert copy_version(version, postgres.address(database), None, newest=True), "again: found whole"
        [held] = postgres.rows(
            database, f"SELECT release, number, manifest_sha256, record->>'release' FROM {name}_v1.version"
        )
        assert held == (name, 1, version.digest, name)
        files = [each for each in version.files if each.endswith(".parquet")]
        for each in files:
            table = pq.read_table(version.folder / each)
            rows = postgres.rows(database, f'SELECT * FROM {name}_v1."{table_name(each)}"')
            assert sorted(map(repr, rows)) == sorted(map(repr, (tuple(row.values()) for row in table.to_pylist())))
        tables = f"SELECT count(*) FROM information_schema.tables WHERE table_schema = '{name}_v1'"
        assert postgres.rows(database, tables) == [(len(files) + 1,)]


def test_nobody_sees_a_part_of_a_schema(
    versions: dict[str, Version], postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
):
    """The connection ends at every statement in turn: the schema is absent, and the next attempt makes it."""
    version, database = whole(versions["town"]), postgres.database()
    execute, whole_once = psycopg.Connection.execute, postgres.database()
    asked, cut = 0, 0

    def counted(connection: psycopg.Connection, *arguments: object, **named: object) -> object:
        nonlocal asked
        asked += 1
        if asked == cut:
            kill = f"SELECT pg_terminate_backend({connection.info.backend_pid}, 5000)"
            with postgres.connect(database) as other:
                execute(other, kill.encode())
        return execute(connection, *arguments, **named)

    monkeypatch.setattr(psycopg.Connection, "execute", counted)
    copy_version(version, postgres.address(whole_once), None, newest=True)
    needed, there = asked, "SELECT count(*) FROM pg_namespace WHERE nspname = 'town_v1'"
    for number in range(1, needed + 1):
        asked, cut = 0, number
        with pytest.raises(StoreAway, match="Nothing is visible there"):
            copy_version(version, postgres.address(database), None, newest=True)
        cut = 0
        assert postgres.rows(database, there) == [(0,)]
    copy_version(version, postgres.address(database), None, newest=True)
    assert postgres.rows(database, there) == [(1,)]


def test_a_schema_that_holds_something_else_is_left_alone(versions: dict[str, Version], postgres: PostgresServer):
    version, database = whole(versions["town"]), postgres.database("CREATE SCHEMA town_v1")
    with pytest.raises(StoreRefuses, match="a schema that holds something else"):
        copy_version(version, postgres.address(database), None, newest=True)
    database = postgres.database(
        "CREATE USER poor" if not postgres.rows("postgres", "SELECT 1 FROM pg_user WHERE usename = 'poor'") else ""
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGUSER", "poor")
        with pytest.raises(StoreRefuses, match="no right to make a schema"):
            copy_version(version, postgres.address(database), None, newest=True)


def test_long_names_of_tables_stay_apart():
    names = [table_name(f"data/{'x' * 80}{end}.parquet") for end in "ab"]
    assert len(set(names)) == 2
    assert all(len(name) <= 63 for name in names)


def test_the_journal_says_what_may_be_copied(tmp_path: Path, postgres: PostgresServer):
    """The newest that is not withdrawn; one that was withdrawn is refused, even by its number."""
    publish_version(first(), tmp_path)
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}", draws=tmp_path / "draws")
    store, to = tmp_path / "releases", postgres.address(postgres.database())
    with pytest.raises(LedgerRefusal, match="village, which was never published"):
        copy_published(ledger, store, "village", None, to, None)
    entry, where = copy_published(ledger, store, "town", None, to, None)
    assert (entry.number, where) == (1, f"{to}::town_v1")
    ledger.withdraw("town", 1, reason="an error")
    for number in (None, 1):
        with pytest.raises(LedgerRefusal, match="which was withdrawn"):
            copy_published(ledger, store, "town", number, to, None)
