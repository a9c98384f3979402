"""Copies of versions as commits to Delta and Iceberg tables in a store: read by others, cut off anywhere."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.table import StaticTable

from contracts.errors import SourceUnreadable, StoreAway, StoreRefuses
from contracts.release.address import read_address
from sudare_lakes import object_store
from sudare_lakes.addresses import LakeAddress
from sudare_lakes.delta import DeltaTables
from sudare_lakes.iceberg_copies import IcebergTables
from sudare_lakes.lake_copies import LakeTables, read_version
from tasks.storage.sinks.copies import copy_version
from tasks.storage.sinks.version_copy import VersionBroken, WholeVersion
from tasks.verify import verify
from tests.extensions.sudare_lakes.test_lake_copies import pair
from tests.extensions.sudare_lakes.test_object_copies import described_once
from tests.tasks.storage.sinks.test_copies import contents, whole
from tests.worlds.versions import Version

if TYPE_CHECKING:
    from tests.extensions.sudare_lakes.object_server import ObjectServer

__all__ = ["described_once", "pair"]  # fixtures
SECRET = "Xq7-secret"
CREDENTIALS = {"access_key_id": "test", "secret_access_key": SECRET}


@pytest.fixture(autouse=True)
def credentials(object_server: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """By name alone: the environment's own are of no use."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SUDARE_CREDENTIALS_LAKE", json.dumps(CREDENTIALS))
    yield
    object_server.heal()


@dataclass(frozen=True)
class StoredTable:
    """What a table's own program says of it."""

    rows: pa.Table
    said: list[str]
    files: list[str]


def delta_table(endpoint: str, where: str) -> StoredTable:
    """deltalake keeps Python's lock while it asks for the history, and so waits for a server of this process."""
    options = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
    }
    asked = "import sys, json, deltalake as d; print(json.dumps(d.DeltaTable(sys.argv[1], storage_options="
    asked += "json.loads(sys.argv[2])).history()))"
    done = subprocess.run([sys.executable, "-c", asked, where, json.dumps(options)], capture_output=True, check=True)
    table = DeltaTable(where, storage_options=options)
    said = [each["userMetadata"] for each in reversed(json.loads(done.stdout))]
    return StoredTable(table.to_pyarrow_table(), said, table.file_uris())


def iceberg_table(endpoint: str, where: str, number: int) -> StoredTable:
    options = {
        "s3.endpoint": endpoint,
        "s3.access-key-id": "test",
        "s3.secret-access-key": "test",
        "s3.region": "us-east-1",
    }
    table = StaticTable.from_metadata(f"{where}/metadata/v{number}.metadata.json", options)
    files = [task.file.file_path for task in table.scan().plan_files()]
    return StoredTable(table.scan().to_arrow(), [each.summary["sudare"] for each in table.snapshots()], files)


@dataclass(frozen=True)
class StoredKind:
    """A kind of tables in stores, and how its own program reads one after so many commits."""

    name: str
    tables: LakeTables
    read: Callable[[str, str, int], StoredTable]

    def address(self, bucket: str) -> LakeAddress:
        read = read_address(f"{self.name}+{bucket}/lake")
        assert isinstance(read, LakeAddress)
        return read

    def copy(self, version: WholeVersion, bucket: str, *, newest: bool = True) -> str:
        return copy_version(version, str(self.address(bucket)), "lake", newest=newest)

    def back(self, bucket: str, release: str, number: int | None, to: Path) -> WholeVersion:
        return read_version(self.tables, self.address(bucket), release, number, to, "lake")


DELTA = StoredKind("delta", DeltaTables(), lambda endpoint, where, _: delta_table(endpoint, where))
ICEBERG = StoredKind("iceberg", IcebergTables(), iceberg_table)


@pytest.fixture(params=[DELTA, ICEBERG], ids=["delta", "iceberg"])
def kind(request: pytest.FixtureRequest) -> StoredKind:
    made: StoredKind = request.param
    return made


def stored(server: ObjectServer, bucket: str, key: str) -> bytes:
    body: bytes = server.client.get_object(Bucket=bucket.rpartition("/")[2], Key=key)["Body"].read()
    return body


def test_each_table_is_one_commit_that_its_own_program_reads_and_the_version_verifies(
    kind: StoredKind, versions: dict[str, Version], object_server: ObjectServer, tmp_path: Path
):
    """Rows and bytes are those of the published files. A second time nothing is written."""
    version, bucket = whole(versions["town"]), object_server.bucket()
    endpoint, _, name = bucket.removeprefix("s3+").rpartition("/")
    where = kind.copy(version, bucket)
    key = {"delta": "version", "iceberg": "snapshot"}[kind.name]
    assert where.startswith(f"{kind.name}+{bucket}/lake/town/version?{key}=")
    data = [
        each for each in version.files if each.startswith(("data/", "measurements/")) and each.endswith(".parquet")
    ]
    assert data
    for file in data:
        table = kind.read(endpoint, f"s3://{name}/lake/town/{file.removesuffix('.parquet').replace('/', '_')}", 1)
        [said] = table.said
        assert json.loads(said) == {"release": "town", "version": 1, "manifest": version.digest}
        assert table.rows.to_pylist() == pq.read_table(version.folder / file).to_pylist()
        [there] = table.files
        own = there.removeprefix(f"s3://{name}/")
        assert stored(object_server, bucket, own) == (version.folder / file).read_bytes()
    object_server.heal()
    assert kind.copy(version, bucket) == where
    assert not [path for method, path in object_server.requests if method != "GET"]
    kind.back(bucket, "town", None, tmp_path / "back")
    assert contents(tmp_path / "back") == contents(version.folder)
    assert verify(tmp_path / "back", public_key=versions["town"].key).ok


def test_a_later_version_is_the_next_commit_and_nothing_that_was_written_is_changed(
    kind: StoredKind, pair: tuple[WholeVersion, WholeVersion], object_server: ObjectServer, tmp_path: Path
):
    first, second = pair
    bucket = object_server.bucket()
    endpoint, _, name = bucket.removeprefix("s3+").rpartition("/")
    kind.copy(first, bucket, newest=False)
    before = {key: stored(object_server, bucket, key) for key in object_server.keys(bucket)}
    kind.copy(second, bucket)
    assert before == {key: stored(object_server, bucket, key) for key in before}
    table = kind.read(endpoint, f"s3://{name}/lake/{first.release}/version", 2)
    assert [json.loads(each)["version"] for each in table.said] == [1, 2]
    assert len(table.files) == 1
    assert kind.back(bucket, first.release, 1, tmp_path / "v1").number == 1
    other = WholeVersion(first.folder, first.release, 2, b"other", first.files)
    with pytest.raises(StoreRefuses, match="version 2 with another content"):
        kind.copy(other, bucket)


def test_at_whatever_object_a_writer_is_cut_off_readers_find_the_version_whole_or_not_at_all(
    kind: StoredKind,
    versions: dict[str, Version],
    object_server: ObjectServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    """The store goes away before the n-th object is written, the first, one midway or one of the last, before which
    every file of data is there; and once after the last one, unanswered. A request that writes nothing leaves what
    the write before it left."""
    monkeypatch.setattr(object_store, "ATTEMPTS", 1)
    version = whole(versions["town"])
    complete = contents(version.folder)
    object_server.heal()
    kind.copy(version, object_server.bucket())
    needed = sum(method == "PUT" for method, _ in object_server.requests) - 1  # one made the bucket
    assert needed >= 6
    cuts = {1, needed // 2, *range(max(1, needed - 5), needed + 1)}
    for last, how in [*((each, "before") for each in sorted(cuts)), (needed, "after")]:
        bucket = object_server.bucket()
        object_server.heal()

        def cut(_: int, last: int = last, how: str = how) -> str | None:
            return how if sum(method == "PUT" for method, _ in object_server.requests) >= last else None

        object_server.fails = cut
        with pytest.raises(StoreAway, match="run again later"):
            kind.copy(version, bucket)
        object_server.heal()
        to = tmp_path / f"{last}-{how}"
        if how == "after":
            kind.back(bucket, "town", None, to)
            assert contents(to) == complete
        else:
            with pytest.raises(StoreRefuses, match="no such version"):
                kind.back(bucket, "town", None, to)
        kind.copy(version, bucket)
        again = tmp_path / f"{last}-{how}-again"
        kind.back(bucket, "town", 1, again)
        assert contents(again) == complete


def test_of_writers_at_the_same_time_each_ends_well_or_is_told_to_run_again(
    kind: StoredKind, versions: dict[str, Version], object_server: ObjectServer, tmp_path: Path
):
    """Four write one version at once. Whoever is second at a log entry is told so; the next time it is done."""
    version, bucket = whole(versions["town"]), object_server.bucket()

    def write(_: int) -> str:
        try:
            return kind.copy(version, bucket)
        except StoreAway as error:
            return str(error)

    with ThreadPoolExecutor(4) as pool:
        ended = list(pool.map(write, range(4)))
    where = kind.copy(version, bucket)
    assert all(each == where or "another writer was first at" in each for each in ended), ended
    kind.back(bucket, "town", None, tmp_path / "back")
    assert contents(tmp_path / "back") == contents(version.folder)


@pytest.mark.parametrize("harm", ["changed", "gone", "another commit"])
def test_what_was_changed_in_the_store_is_found(
    kind: StoredKind, versions: dict[str, Version], object_server: ObjectServer, tmp_path: Path, harm: str
):
    bucket = object_server.bucket()
    kind.copy(whole(versions["town"]), bucket)
    keys = [key for key in object_server.keys(bucket) if key.startswith("lake/town/data_")]
    file = next(key for key in keys if key.endswith(".parquet"))
    log = next(key for key in keys if key.endswith(".json"))
    place = bucket.rpartition("/")[2]
    if harm == "gone":
        object_server.client.delete_object(Bucket=place, Key=file)
    else:
        key, content = (file, b"x") if harm == "changed" else (log, stored(object_server, bucket, log))
        content = content.replace(rb"\"version\": 1", rb"\"version\": 7")
        object_server.client.put_object(Bucket=place, Key=key, Body=content)
    with pytest.raises(VersionBroken):
        kind.back(bucket, "town", 1, tmp_path / "back")


def test_what_cannot_be_published_to_is_refused_by_name(
    kind: StoredKind, versions: dict[str, Version], object_server: ObjectServer, monkeypatch: pytest.MonkeyPatch
):
    """An address of one version, credentials that nobody set, a bucket that is none, a store that is away."""
    version, bucket = whole(versions["town"]), object_server.bucket()
    key = {"delta": "version", "iceberg": "snapshot"}[kind.name]
    with pytest.raises(StoreRefuses, match="an address of one version"):
        copy_version(version, f"{kind.name}+{bucket}/lake?{key}=3", "lake", newest=True)
    with pytest.raises(SourceUnreadable, match="no credentials named 'nobody'"):
        copy_version(version, f"{kind.name}+{bucket}/lake", "nobody", newest=True)
    with pytest.raises(StoreRefuses, match="no such bucket"):
        copy_version(version, f"{kind.name}+{bucket}-none/lake", "lake", newest=True)
    monkeypatch.setattr(object_store, "ATTEMPTS", 1)
    object_server.fails = lambda number: "before"
    with pytest.raises(StoreAway, match="run again later") as raised:
        kind.copy(version, bucket)
    assert SECRET not in str(raised.value)
    assert not object_server.keys(bucket) if object_server.heal() is None else True
