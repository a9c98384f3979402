"""Copies of published versions: to an S3 server that fails at any request, and to PostgreSQL in one transaction."""

from __future__ import annotations

import hashlib
import json
import threading
from base64 import b64encode
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pyarrow.parquet as pq
import pytest
from botocore.loaders import JSONFileLoader, Loader

from contracts.errors import SudareError
from contracts.release.address_kinds import read_address
from contracts.release.postgres_address import PostgresAddress
from contracts.release.s3_address import S3Address
from privacy.ledger.errors import LedgerRefusal
from privacy.ledger.ledger import Ledger
from tasks.records.model.release_statement import manifest_of
from tasks.storage import object_store
from tasks.storage.object_store import StoreAway, StoreRefuses
from tasks.storage.sinks.copies import copy_published, copy_version
from tasks.storage.sinks.object_copies import read_version
from tasks.storage.sinks.table_copies import table_name
from tasks.storage.sinks.version_copy import VersionBroken, WholeVersion, whole_version
from tasks.storage.version_folders import PROOF
from tasks.verify import verify
from tests.tasks.storage.postgres_server import PostgresServer
from tests.worlds.tables import first
from tests.worlds.versions import Version, publish_version

if TYPE_CHECKING:
    from tests.tasks.storage.object_server import ObjectServer

SECRET = "Xq7-secret"


@pytest.fixture(autouse=True, scope="module")
def described_once() -> Iterator[None]:
    """Each session of botocore looks for descriptions of services and reads them anew: once here."""
    read, listed = cache(JSONFileLoader().load_file), cache(Loader().list_available_services)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JSONFileLoader, "load_file", lambda loader, path: read(path))
        patch.setattr(Loader, "list_available_services", lambda loader, type_name: listed(type_name))
        yield


@pytest.fixture(autouse=True)
def credentials(object_server: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("PGUSER", "postgres")
    yield
    object_server.heal()


def whole(version: Version, number: int = 1) -> WholeVersion:
    """The version as the journal knows it."""
    manifest = (version.folder / "MANIFEST.json").read_bytes()
    release = manifest_of(json.loads(manifest)).release
    return whole_version(version.folder, release, number, hashlib.sha256(manifest).hexdigest())


def s3(address: str) -> S3Address:
    read = read_address(address)
    assert isinstance(read, S3Address)
    return read


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def seen(address: str, to: Path, number: int | None) -> Path | None:
    """What a reader gets: a whole version, or nothing."""
    try:
        return read_version(s3(address), None, "town", number, to)[1]
    except StoreRefuses as refused:
        said = str(refused)
    assert "no such version" in said
    assert not to.exists()
    return None


def test_a_copy_is_whole_verifies_and_is_the_latest(
    tmp_path: Path, versions: dict[str, Version], object_server: ObjectServer
):
    version, to = versions["town"], f"{object_server.bucket()}/releases"
    assert copy_version(whole(version), to, None, newest=True) == f"{to}/town/v1"
    number, folder = read_version(s3(to), None, "town", None, tmp_path / "copy")
    assert number == 1
    assert contents(folder) == contents(version.folder)
    assert verify(folder, public_key=version.key).ok
    requests = [path for method, path in object_server.requests if method == "PUT"]
    assert [path.rpartition("/")[2] for path in requests[-3:]] == ["PROOF.json", "MANIFEST.json", "latest.json"]


@pytest.mark.parametrize("how", ["before", "after"])
def test_at_whatever_request_a_writer_is_cut_off_no_reader_sees_a_part(
    tmp_path: Path,
    versions: dict[str, Version],
    object_server: ObjectServer,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
):
    """Every n: all requests from the n-th on fail. Readers see nothing or all of it; the next attempt goes on."""
    monkeypatch.setattr(object_store, "ATTEMPTS", 1)
    version = whole(versions["town"])
    complete = contents(version.folder)
    object_server.heal()
    copy_version(version, f"{object_server.bucket()}/whole", None, newest=True)
    needed = len(object_server.requests) - 1  # making the bucket was one
    assert needed == len(complete) + 2, "each file, and a look at `latest.json` before it is moved"
    visible = []
    for cut in range(1, needed + 1):
        bucket = object_server.bucket()
        object_server.heal()
        object_server.fails = lambda number, cut=cut: how if number >= cut else None
        with pytest.raises(StoreAway, match="run again later"):
            copy_version(version, bucket, None, newest=True)
        object_server.heal()
        latest, by_number = (seen(bucket, tmp_path / f"{cut}-{each}", each) for each in (None, 1))
        visible.append((latest is not None, by_number is not None))
        assert all(contents(folder) == complete for folder in (latest, by_number) if folder is not None)
        copy_version(version, bucket, None, newest=True)
        again = seen(bucket, tmp_path / f"{cut}-again", None)
        assert again is not None
        assert contents(again) == complete
    assert visible[0] == (False, False)
    assert visible == sorted(visible), "once visible, always visible"
    last = {"before": (False, True), "after": (True, True)}[how]
    assert visible[-1] == last, "the last request moves `latest.json`"


def test_one_request_that_fails_is_asked_again(versions: dict[str, Version], object_server: ObjectServer):
    """An answer that is lost after the object was written is no clash: the bytes are the same."""
    version, bucket = whole(versions["town"]), object_server.bucket()
    for number, how in ((2, "before"), (4, "after")):
        object_server.heal()
        object_server.fails = lambda each, number=number, how=how: how if each == number else None
        copy_version(version, f"{bucket}/{how}", None, newest=True)


def leading_out() -> bytes:
    """A manifest with a file that lies outside the version's folder."""
    payload = b'{"subject": [{"name": "../../up", "digest": {"sha256": ""}}]}'
    return json.dumps({"payload": b64encode(payload).decode()}).encode()


def test_readers_of_a_version_that_was_changed_get_nothing(
    tmp_path: Path, versions: dict[str, Version], object_server: ObjectServer
):
    bucket, version = object_server.bucket(), whole(versions["town"])
    copy_version(version, bucket, None, newest=True)
    for name, content in (
        ("data/age.parquet", b"other"),
        ("MANIFEST.json", leading_out()),
    ):
        object_server.put(f"{bucket}/town/v1/{name}", content)
        with pytest.raises(StoreRefuses, match=r"not those of the manifest|cannot be followed"):
            read_version(s3(bucket), None, "town", 1 if name == "MANIFEST.json" else None, tmp_path / name)
    with pytest.raises(StoreRefuses, match="an object of this name with other bytes"):
        copy_version(version, bucket, None, newest=True)


def test_latest_moves_to_higher_numbers_only(
    tmp_path: Path, versions: dict[str, Version], object_server: ObjectServer
):
    bucket = object_server.bucket()
    one, three = whole(versions["town"], 1), whole(versions["town"], 3)
    copy_version(three, bucket, None, newest=True)
    copy_version(one, bucket, None, newest=True)
    assert read_version(s3(bucket), None, "town", None, tmp_path / "a")[0] == 3
    two = whole(versions["town"], 4)
    copy_version(two, bucket, None, newest=False)
    assert read_version(s3(bucket), None, "town", None, tmp_path / "b")[0] == 3


def test_many_writers_of_one_version_leave_one_whole_version(
    tmp_path: Path, versions: dict[str, Version], object_server: ObjectServer
):
    bucket, version = object_server.bucket(), whole(versions["town"])
    failures: list[BaseException] = []

    def write() -> None:
        try:
            copy_version(version, bucket, None, newest=True)
        except BaseException as error:  # noqa: BLE001 - shown by the assertion below
            failures.append(error)

    writers = [threading.Thread(target=write) for _ in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert failures == []
    assert contents(read_version(s3(bucket), None, "town", None, tmp_path / "copy")[1]) == contents(version.folder)


def test_a_folder_that_is_not_what_was_published_is_not_copied(tmp_path: Path, versions: dict[str, Version]):
    for spoil in ("data/age.parquet", "MANIFEST.json", PROOF):
        version = versions["town"].copy(tmp_path / spoil.replace("/", "-"))
        good = whole(version)
        (version.folder / spoil).unlink()
        with pytest.raises(VersionBroken, match="another content than was published"):
            whole_version(version.folder, "town", 1, good.digest)


def test_what_a_store_says_no_to_is_told(versions: dict[str, Version], object_server: ObjectServer):
    version, bucket = whole(versions["town"]), object_server.bucket()
    with pytest.raises(StoreRefuses, match="no such bucket"):
        copy_version(version, f"{bucket}-of-nobody", None, newest=True)
    with pytest.raises(SudareError) as refused:
        copy_version(version, bucket, "nobody", newest=True)
    assert "SUDARE_CREDENTIALS_NOBODY" in str(refused.value)
    assert SECRET not in str(refused.value)


def pg(address: str) -> PostgresAddress:
    read = read_address(address)
    assert isinstance(read, PostgresAddress)
    return read


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


def test_the_journal_says_what_may_be_copied(tmp_path: Path, object_server: ObjectServer):
    """The newest that is not withdrawn; one that was withdrawn is refused, even by its number."""
    publish_version(first(), tmp_path)
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}", draws=tmp_path / "draws")
    store, bucket = tmp_path / "releases", object_server.bucket()
    with pytest.raises(LedgerRefusal, match="village, which was never published"):
        copy_published(ledger, store, "village", None, bucket, None)
    entry, where = copy_published(ledger, store, "town", None, bucket, None)
    assert (entry.number, where) == (1, f"{bucket}/town/v1")
    ledger.withdraw("town", 1, reason="an error")
    for number in (None, 1):
        with pytest.raises(LedgerRefusal, match="which was withdrawn"):
            copy_published(ledger, store, "town", number, bucket, None)
