"""Iceberg tables by the SQL catalogue that pyiceberg keeps, in SQLite and in a real PostgreSQL server."""

from __future__ import annotations

import shutil
import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from pydantic import ValidationError
from pyiceberg.catalog.sql import SqlCatalog

from contracts.errors import Refused, SourceUnreadable
from contracts.release.source import Source, written_source_name
from tasks.storage.sources.source import source_kind
from tests.extensions.sudare_lakes.test_delta_source import expected
from tests.extensions.sudare_lakes.test_iceberg_source import rows_of
from tests.tasks.intake import ROWS, SECRET, make_contract, take_in

if TYPE_CHECKING:
    from tests.extensions.sudare_lakes.object_server import ObjectServer
    from tests.tasks.storage.postgres_server import PostgresServer


@dataclass
class Named:
    address: str
    table: Any

    def source(self, more: str = "", **keys: Any) -> Source:
        return Source.model_validate({"path": f"{self.address}{more}", "table": "town.people", **keys})


def made(uri: str, address: str, location: str, **options: str) -> Named:
    catalogue = SqlCatalog("prod", uri=uri, warehouse=location, **options)
    catalogue.create_namespace("town")
    table = catalogue.create_table("town.people", rows_of(*ROWS).schema, location=f"{location}/people")
    for rows in (ROWS[:2], ROWS[2:]):
        table.append(rows_of(*rows))
    return Named(f"{address}catalog=prod", table)


def in_sqlite(folder: Path) -> Named:
    return made(f"sqlite:///{folder}/c.db", f"iceberg+sqlite://{folder}/c.db?", (folder / "lake").as_uri())


@pytest.fixture
def named(tmp_path: Path) -> Named:
    return in_sqlite(tmp_path)


def codes(source: Source, folder: Path) -> list[tuple[object, ...]]:
    table = take_in(source, make_contract(folder), folder / "named")
    with duckdb.connect(str(table.path), read_only=True) as connection:
        return sorted(connection.execute("SELECT * FROM codes").fetchall())


def refusal(source: Source, folder: Path) -> str:
    with pytest.raises(Refused) as raised:
        take_in(source, make_contract(folder), folder / "refused")
    assert isinstance(raised.value, SourceUnreadable)
    assert raised.value.exit_code == 2
    assert not list((folder / "refused" / "run").glob("*"))
    return str(raised.value)


@pytest.mark.long
def test_the_catalogue_says_which_metadata_counts(tmp_path: Path, named: Named):
    """The newest file of a commit that failed lies there and counts for nothing; earlier states have their ids."""
    folder = tmp_path / "lake" / "people" / "metadata"
    newest = max(folder.glob("*.metadata.json"))
    (folder / f"00099-{newest.name[6:]}").write_text("{}")
    first = named.table.snapshots()[0].snapshot_id
    between = datetime.fromtimestamp(named.table.history()[0].timestamp_ms / 1000, UTC)
    assert codes(named.source(), tmp_path) == expected(tmp_path, *ROWS)
    assert codes(named.source(f"&snapshot={first}"), tmp_path) == expected(tmp_path, *ROWS[:2])
    at = between.isoformat().replace("+", "%2B")
    assert codes(named.source(f"&at={at}"), tmp_path) == expected(tmp_path, *ROWS[:2])
    named.table.overwrite(rows_of(ROWS[-1]))
    assert codes(named.source(), tmp_path) == expected(tmp_path, ROWS[-1])


def test_a_catalogue_in_postgresql_with_a_user_by_name(
    tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
):
    """A user who may read the catalogue alone; a wrong one is refused and nothing of it is shown."""
    database = postgres.database()
    with postgres.connect(database) as connection:
        user = connection.info.user
    socket = f"host={postgres.socket}&port={postgres.port}"
    uri = f"postgresql+psycopg://{user}@/{database}?{socket}"
    named = made(uri, f"iceberg+postgresql:///{database}?{socket}&", (tmp_path / "lake").as_uri())
    postgres.run(database, "CREATE ROLE reader LOGIN", "GRANT SELECT ON iceberg_tables TO reader")
    monkeypatch.setenv("SUDARE_CREDENTIALS_READER", f'{{"user": "reader", "password": "{SECRET}"}}')
    assert codes(named.source(credentials="reader"), tmp_path) == expected(tmp_path, *ROWS)
    postgres.run(database, "REVOKE SELECT ON iceberg_tables FROM reader")
    told = refusal(named.source(credentials="reader"), tmp_path)
    assert "found: a database without an Iceberg catalogue" in told
    assert SECRET not in told
    monkeypatch.setenv("SUDARE_CREDENTIALS_STRANGER", f'{{"user": "no_role_of_this_server", "password": "{SECRET}"}}')
    assert "refuses these credentials" in refusal(named.source(credentials="stranger"), tmp_path)


def test_a_table_of_the_catalogue_that_lies_in_a_store(
    tmp_path: Path, object_server: ObjectServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SUDARE_CREDENTIALS_STORE", '{"access_key_id": "test", "secret_access_key": "test"}')
    endpoint, _, name = object_server.bucket().removeprefix("s3+").rpartition("/")
    options = {"s3.endpoint": endpoint, "s3.access-key-id": "test", "s3.secret-access-key": "test"}
    address = f"iceberg+sqlite://{tmp_path}/c.db?store=s3%2B{endpoint}&"
    named = made(f"sqlite:///{tmp_path}/c.db", address, f"s3://{name}", **options)
    assert codes(named.source(credentials="store"), tmp_path) == expected(tmp_path, *ROWS)


def test_what_a_catalogue_lacks_is_told_by_name(tmp_path: Path, named: Named):
    """No file, no database, another catalogue, another table, an expired snapshot, metadata that went."""
    nowhere = Source.model_validate({"path": f"iceberg+sqlite://{tmp_path}/none.db?catalog=prod", "table": "a.b"})
    assert "found: no such file" in refusal(nowhere, tmp_path)
    (tmp_path / "text.db").write_text("no database at all, but a text that is long enough to be read as a header")
    for file in ("text.db", "empty.db"):
        if file == "empty.db":
            sqlite3.connect(tmp_path / file).close()
        other = Source.model_validate({"path": f"iceberg+sqlite://{tmp_path}/{file}?catalog=prod", "table": "a.b"})
        assert "found: a database without an Iceberg catalogue" in refusal(other, tmp_path)
    absent = named.source(table="town.nobody")
    assert "found: no such table in the catalogue" in refusal(absent, tmp_path)
    elsewhere = Source.model_validate({"path": named.address.replace("prod", "test"), "table": "town.people"})
    assert "found: no such table in the catalogue" in refusal(elsewhere, tmp_path)
    assert "the snapshot 77, which has expired or never was" in refusal(named.source("&snapshot=77"), tmp_path)
    shutil.rmtree(tmp_path / "lake")
    assert "found: Iceberg metadata that cannot be read" in refusal(named.source(), tmp_path)


@pytest.mark.parametrize(
    ("location", "found"),
    [
        ("gs://bucket/people/metadata/00001-a.metadata.json", "a table that lies somewhere else"),
        ("/lake/people", "a catalogue that names no metadata file"),
        ("file://other.example/lake/people/metadata/1.metadata.json", "a table that lies somewhere else"),
        ("", "no such table in the catalogue"),
    ],
)
def test_a_table_that_is_named_elsewhere_is_refused(tmp_path: Path, named: Named, location: str, found: str):
    with sqlite3.connect(tmp_path / "c.db") as connection:
        connection.execute("UPDATE iceberg_tables SET metadata_location = ?", (location,))
    assert f"found: {found}" in refusal(named.source(), tmp_path)


def test_all_snapshots_of_a_table_are_one_source_and_a_schedule_sees_the_last(tmp_path: Path, named: Named):
    (tmp_path / "link").symlink_to(tmp_path)
    canonical = f"iceberg+sqlite://{tmp_path}/c.db?catalog=prod::town.people"
    linked = f"iceberg+sqlite://{tmp_path}/link/c.db?snapshot=3&catalog=prod::town.people"
    assert written_source_name(linked) == named.source().name == named.source("&snapshot=3").name == canonical
    source = named.source()
    seen = source_kind(source.path).last_written  # type: ignore[arg-type]
    assert seen is not None
    written = seen(source, source.path)
    assert written is not None
    assert abs((datetime.now(UTC) - written).total_seconds()) < 600


@pytest.mark.parametrize(
    ("keys", "found"),
    [
        ({"path": "iceberg+sqlite:///c.db", "table": "a.b"}, "a catalogue without a name"),
        ({"path": "iceberg+sqlite://c.db?catalog=x", "table": "a.b"}, "a catalogue without a file"),
        ({"path": "iceberg+sqlite:///c.db?catalog=x"}, "a database without `table`"),
        ({"path": "iceberg+sqlite:///c.db?catalog=x", "table": "people"}, "'people'"),
        ({"path": "iceberg+sqlite:///c.db?catalog=x", "table": "a.b", "files": "parquet"}, "`files` for a catalogue"),
        (
            {"path": "iceberg+sqlite:///c.db?catalog=x&snapshot=1&at=2026-01-01T00:00Z", "table": "a.b"},
            "more than one",
        ),
        ({"path": "iceberg+sqlite:///c.db?catalog=x&snapshot=-1", "table": "a.b"}, "the snapshot '-1'"),
        ({"path": "iceberg+sqlite:///c.db?catalog=x&store=https://h", "table": "a.b"}, "the store 'https://h'"),
        ({"path": "iceberg+sqlite:///c.db?catalog=x&password=1", "table": "a.b"}, "options behind a `?`"),
        ({"path": "iceberg+postgresql://u:p@h/d?catalog=x", "table": "a.b"}, "a user or a password in an address"),
        ({"path": "iceberg+postgresql:///d?catalog=x", "table": "a.b"}, "allowed postgresql://HOST"),
    ],
)
def test_addresses_that_cannot_be_read_are_refused(keys: dict[str, str], found: str):
    with pytest.raises(ValidationError) as raised:
        Source.model_validate(keys)
    assert found in str(raised.value.errors(include_input=False))
