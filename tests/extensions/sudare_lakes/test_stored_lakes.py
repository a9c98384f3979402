"""Delta and Iceberg tables in a store that speaks S3, written there by deltalake, by pyiceberg, and by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from deltalake import DeltaTable as RealTable
from deltalake import write_deltalake
from pydantic import ValidationError
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.transforms import IdentityTransform

from contracts.errors import GateBroken, Refused, SourceUnreadable, StoreAway, StoreRefuses
from contracts.release.source import Source, written_source_name
from sudare_lakes import object_store
from tasks.storage.sources.source import source_kind
from tests.extensions.sudare_lakes.test_delta_source import DeltaTable, expected
from tests.extensions.sudare_lakes.test_iceberg_source import rows_of
from tests.tasks.intake import ROWS, SECRET, make_contract, take_in

if TYPE_CHECKING:
    from tests.extensions.sudare_lakes.object_server import ObjectServer

ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_ENDPOINT_URL": "http://127.0.0.1:1"}


@pytest.fixture(autouse=True)
def credentials(object_server: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    yield
    object_server.heal()


@dataclass
class Lake:
    address: str
    versions: tuple[int, int]
    asked: str
    rewrite: Callable[[], object]
    objects: Callable[[], list[str]]

    def source(self, asked: str = "", **more: Any) -> Source:
        return Source.model_validate({"path": f"{self.address}{asked}", **more})


def delta(server: ObjectServer, folder: Path, key: str = "lake/people") -> Lake:
    bucket = server.bucket()
    endpoint, _, name = bucket.removeprefix("s3+").rpartition("/")
    options = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_CONDITIONAL_PUT": "etag",
    }
    where = f"s3://{name}/{key}"
    for rows in (ROWS[:2], ROWS[2:]):
        write_deltalake(where, rows_of(*rows), mode="append", storage_options=options)
    assert RealTable(where, storage_options=options).version() == 1

    def rewrite() -> None:
        write_deltalake(where, rows_of(ROWS[-1]), mode="overwrite", storage_options=options)

    return Lake(f"delta+{bucket}/{key}", (0, 1), "version", rewrite, lambda: _data(server, bucket))


def iceberg_catalogue(server: ObjectServer, folder: Path, bucket: str) -> SqlCatalog:
    endpoint, _, name = bucket.removeprefix("s3+").rpartition("/")
    options = {"s3.endpoint": endpoint, "s3.access-key-id": "test", "s3.secret-access-key": "test"}
    return SqlCatalog(
        "tests",
        uri=f"sqlite:///{folder}/catalogue.db",
        warehouse=f"s3://{name}",
        **{"s3.region": "us-east-1"},
        **options,
    )


def iceberg(server: ObjectServer, folder: Path, key: str = "lake/people") -> Lake:
    bucket = server.bucket()
    catalogue = iceberg_catalogue(server, folder, bucket)
    catalogue.create_namespace("here")
    location = f"s3://{bucket.rpartition('/')[2]}/{key}"
    table = catalogue.create_table("here.people", rows_of(*ROWS).schema, location=location)
    for rows in (ROWS[:2], ROWS[2:]):
        table.append(rows_of(*rows))
    first, second = (each.snapshot_id for each in table.snapshots())
    return Lake(
        f"iceberg+{bucket}/{key}",
        (first, second),
        "snapshot",
        lambda: table.overwrite(rows_of(ROWS[-1])),
        lambda: _data(server, bucket),
    )


def _data(server: ObjectServer, bucket: str) -> list[str]:
    return [key for key in server.keys(bucket) if key.endswith(".parquet")]


KINDS = {"delta": delta, "iceberg": iceberg}


@pytest.fixture(params=KINDS)
def lake(request: pytest.FixtureRequest, object_server: ObjectServer, tmp_path: Path) -> Lake:
    made: Lake = KINDS[request.param](object_server, tmp_path)
    return made


def codes(source: Source, folder: Path) -> list[tuple[object, ...]]:
    table = take_in(source, make_contract(folder), folder / "stored")
    assert [path.name for path in table.path.parent.iterdir()] == ["snapshot.duckdb"], "copies stay nowhere"
    with duckdb.connect(str(table.path), read_only=True) as connection:
        return sorted(connection.execute("SELECT * FROM codes").fetchall())


def refusal(source: Source, folder: Path, kind: type[Exception] = SourceUnreadable) -> str:
    with pytest.raises(kind) as raised:
        take_in(source, make_contract(folder), folder / "refused")
    assert SECRET not in str(raised.value)
    assert not list((folder / "refused" / "run").glob("*"))
    return str(raised.value)


def test_rows_are_those_of_the_version_that_is_asked_for(tmp_path: Path, lake: Lake):
    """The newest; the first by its number, and by the instant between the two; after a rewrite, its rows alone."""
    first, second = lake.versions
    between = datetime.now(UTC).isoformat().replace("+", "%2B")
    assert codes(lake.source(), tmp_path) == expected(tmp_path, *ROWS)
    assert codes(lake.source(f"?{lake.asked}={first}"), tmp_path) == expected(tmp_path, *ROWS[:2])
    lake.rewrite()
    assert codes(lake.source(), tmp_path) == expected(tmp_path, ROWS[-1])
    assert codes(lake.source(f"?{lake.asked}={second}"), tmp_path) == expected(tmp_path, *ROWS)
    assert codes(lake.source(f"?at={between}"), tmp_path) == expected(tmp_path, *ROWS)


def test_the_same_version_is_taken_up_and_another_one_read(tmp_path: Path, lake: Lake):
    contract = make_contract(tmp_path)
    first = take_in(lake.source(), contract, tmp_path)
    inode = first.path.stat().st_ino
    assert take_in(lake.source(), contract, tmp_path) == first
    assert first.path.stat().st_ino == inode
    lake.rewrite()
    assert take_in(lake.source(), contract, tmp_path).keyed_hash != first.keyed_hash


def test_credentials_come_by_name_and_wrong_ones_show_nothing(
    tmp_path: Path, lake: Lake, monkeypatch: pytest.MonkeyPatch
):
    for name in ENVIRONMENT:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    assert "with these credentials" in refusal(lake.source(), tmp_path, StoreRefuses)
    assert "no credentials named 'warehouse'" in refusal(lake.source(credentials="warehouse"), tmp_path)
    monkeypatch.setenv(
        "SUDARE_CREDENTIALS_WAREHOUSE", f'{{"access_key_id": "test", "secret_access_key": "{SECRET}"}}'
    )
    assert codes(lake.source(credentials="warehouse"), tmp_path) == expected(tmp_path, *ROWS)


def test_a_store_that_is_away_or_a_file_that_went_stops_before_anything_is_charged(
    tmp_path: Path, lake: Lake, object_server: ObjectServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(object_store, "ATTEMPTS", 1)
    object_server.fails = lambda number: "before"
    assert "the store did not" in refusal(lake.source(), tmp_path, StoreAway)
    object_server.heal()
    bucket = lake.address.partition("+")[2].removesuffix("/lake/people")
    object_server.delete(f"{bucket}/{lake.objects()[-1]}")
    assert "found: a version whose files are gone" in refusal(lake.source(), tmp_path)


def test_what_is_not_there_is_told_by_name(tmp_path: Path, lake: Lake):
    """A snapshot that is none, an instant before the first, a prefix without a table, a bucket that is none."""
    early = refusal(lake.source("?at=2001-01-01T00:00Z"), tmp_path)
    assert "found: the instant 2001-01-01T00:00:00+00:00" in early
    never = refusal(lake.source(f"?{lake.asked}=77"), tmp_path)
    assert "found: the version 77" in never or "found: the snapshot 77, which has expired or never was" in never
    nowhere = Source.model_validate({"path": lake.address.replace("/people", "/nobody")})
    assert "found: no such folder" in refusal(nowhere, tmp_path)
    kind, _, rest = lake.address.partition("/lake/")
    other = Source.model_validate({"path": f"{kind}-none/lake/{rest}"})
    assert "found: no such bucket" in refusal(other, tmp_path, StoreRefuses)


def test_the_prefix_of_a_table_is_refused_as_files_and_its_address_named(tmp_path: Path, lake: Lake):
    """Read as files it would give back rows that were rewritten."""
    plain = lake.address.partition("+")[2]
    told = refusal(Source.model_validate({"path": f"{plain}/", "files": "parquet"}), tmp_path)
    assert f"name it as a table: `path: {lake.address}`, without `files:`" in told


def test_all_versions_are_one_source_and_a_schedule_sees_the_last_commit(lake: Lake):
    spelled = (lake.address, f"{lake.address}/", f"{lake.address}?at=2026-01-01T00:00Z")
    assert {written_source_name(each) for each in spelled} == {lake.address}
    source = lake.source()
    seen = source_kind(source.path).last_written  # type: ignore[arg-type]
    assert seen is not None
    written = seen(source, source.path)
    assert written is not None
    assert abs((datetime.now(UTC) - written).total_seconds()) < 600


@pytest.mark.parametrize(
    ("change", "kind", "found"),
    [
        (
            {"deletionVector": {"storageType": "u", "cardinality": 1}},
            GateBroken,
            "a Delta table with deletion vectors",
        ),
        ({"path": "s3://elsewhere/lake/people/a.parquet"}, SourceUnreadable, "a table with files outside its folder"),
        ({"path": "s3a://BUCKET/lake/other/a.parquet"}, SourceUnreadable, "a table with files outside its folder"),
        ({"path": "s3a://BUCKET/lake/people/gone.parquet"}, SourceUnreadable, "files are gone"),
    ],
)
def test_what_is_more_than_files_of_rows_is_refused_there_too(
    tmp_path: Path, object_server: ObjectServer, change: dict[str, Any], kind: type[Refused], found: str
):
    """A table that was written by hand, and copied into a bucket as it is."""
    table, bucket = DeltaTable(tmp_path / "people"), object_server.bucket()
    table.commit(table.add(*ROWS, name="a.parquet"))
    name = bucket.rpartition("/")[2]
    changed = {
        key: value.replace("BUCKET", name) if isinstance(value, str) else value for key, value in change.items()
    }
    table.commit(table.add(ROWS[0], name="b.parquet", **changed))
    copy_into(object_server, table.folder, f"{bucket}/lake/people")
    source = Source.model_validate({"path": f"delta+{bucket}/lake/people"})
    assert found in refusal(source, tmp_path, kind)
    assert codes(Source.model_validate({"path": f"{source.path}?version=0"}), tmp_path) == expected(tmp_path, *ROWS)


def test_a_file_that_was_removed_under_another_scheme_of_the_store_stays_away(
    tmp_path: Path, object_server: ObjectServer
):
    """Else the people in a rewritten file stand in two rows."""
    for scheme in ("s3", "s3a", "s3n"):
        table, bucket = DeltaTable(tmp_path / scheme / "people"), object_server.bucket()
        table.commit(table.add(*ROWS[:2], name="a b.parquet"), table.add(*ROWS[2:], name="c.parquet"))
        table.commit({"remove": {"path": f"{scheme}://{bucket.rpartition('/')[2]}/lake/people/a%20b.parquet"}})
        copy_into(object_server, table.folder, f"{bucket}/lake/people")
        source = Source.model_validate({"path": f"delta+{bucket}/lake/people"})
        assert codes(source, tmp_path / scheme) == expected(tmp_path, *ROWS[2:])


def test_partitions_keep_their_values_whatever_letters_these_have(tmp_path: Path, object_server: ObjectServer):
    """Iceberg writes the values into the files; their keys have them too, in a spelling of their own."""
    bucket = object_server.bucket()
    catalogue = iceberg_catalogue(object_server, tmp_path, bucket)
    catalogue.create_namespace("here")
    rows = [row.replace(",F,", ",ü / %20 x,") for row in ROWS]
    location = f"s3://{bucket.rpartition('/')[2]}/lake/people"
    table = catalogue.create_table("here.people", rows_of(*rows).schema, location=location)
    with table.update_spec() as update:
        update.add_field("sex", IdentityTransform())
    table.append(rows_of(*rows))
    found = codes(Source.model_validate({"path": f"iceberg+{bucket}/lake/people"}), tmp_path)
    assert found == expected(tmp_path, *rows)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("delta+s3://bucket", "a whole bucket"),
        ("iceberg+s3://bucket/metadata/00001-x.metadata.json", "a whole bucket"),
        ("delta+s3://AB/people", "another bucket"),
        ("delta+s3+http://elsewhere.example/bucket/people", "s3+http:// to another machine"),
        ("delta+s3+https://s3.eu-west-1.amazonaws.com/bucket/people", "an endpoint of Amazon S3"),
        ("iceberg+s3://key:secret@bucket/people", "a user or a password in an address"),
        ("iceberg+s3://bucket/people?token=1", "options behind a `?` in an address"),
        ("iceberg+s3://bucket/x.metadata.json", "a metadata file outside a folder `metadata`"),
        ("delta+ftp://bucket/people", "an address that begins with 'delta+ftp://'"),
    ],
)
def test_addresses_that_cannot_be_read_are_refused(path: str, found: str):
    with pytest.raises(ValidationError) as raised:
        Source.model_validate({"path": path})
    [error] = raised.value.errors(include_input=False)
    assert found in str(error)
    assert "secret" not in str(error)


def copy_into(server: ObjectServer, folder: Path, address: str) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            server.put(f"{address}/{path.relative_to(folder).as_posix()}", path.read_bytes())
