"""Iceberg tables of Glue's Data Catalog, written by pyiceberg, on a server that speaks Glue and S3."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError
from pyiceberg.catalog.glue import GlueCatalog

from contracts.errors import SpecRefused, StoreAway
from contracts.release.source import Source, written_source_name
from sudare_lakes import object_store
from tasks.storage.sources.source import source_kind
from tests.extensions.sudare_lakes.test_delta_source import expected
from tests.extensions.sudare_lakes.test_iceberg_catalogue import codes, refusal
from tests.extensions.sudare_lakes.test_iceberg_source import rows_of
from tests.tasks.intake import ROWS, SECRET, make_contract, take_in

if TYPE_CHECKING:
    from tests.extensions.sudare_lakes.object_server import ObjectServer

REGION, ACCOUNT = "eu-west-1", "123456789012"


@dataclass(frozen=True)
class NamedByGlue:
    """A table that a catalogue names: how a spec writes the catalogue, and the table itself."""

    address: str
    table: Any
    client: Any

    def source(self, asked: str = "", table: str = "town.people") -> Source:
        return Source.model_validate({"path": f"{self.address}{asked}", "table": table, "credentials": "lake"})


@pytest.fixture
def named(object_server: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[NamedByGlue]:
    """Two snapshots: of the first two rows, and of all. One name of credentials is for catalogue and store."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    keys = {"access_key_id": "test", "secret_access_key": SECRET}
    monkeypatch.setenv("SUDARE_CREDENTIALS_LAKE", json.dumps(keys))
    endpoint, _, name = object_server.bucket().removeprefix("s3+").rpartition("/")
    own = {"endpoint": endpoint, "access-key-id": "test", "secret-access-key": "test", "region": REGION}
    options = {f"{service}.{key}": value for service in ("s3", "glue") for key, value in own.items()}
    catalogue = GlueCatalog("tests", **options, **{"glue.id": ACCOUNT, "warehouse": f"s3://{name}"})
    catalogue.create_namespace("town")
    table = catalogue.create_table("town.people", rows_of(*ROWS).schema, location=f"s3://{name}/lake/people")
    for rows in (ROWS[:2], ROWS[2:]):
        table.append(rows_of(*rows))
    port = endpoint.rpartition(":")[2]
    address = f"iceberg+glue+http://localhost:{port}/{REGION}/{ACCOUNT}?store=s3+http://localhost:{port}"
    yield NamedByGlue(address, table, catalogue.glue)
    object_server.heal()
    catalogue.drop_table("town.people")
    catalogue.drop_namespace("town")


def test_the_table_is_read_as_the_catalogue_has_it_now_or_as_it_was(named: NamedByGlue, tmp_path: Path):
    """The newest snapshot, the one before by its id, and what a commit through the catalogue makes of it."""
    first = named.table.snapshots()[0].snapshot_id
    assert codes(named.source(), tmp_path) == expected(tmp_path, *ROWS)
    assert codes(named.source(f"&snapshot={first}"), tmp_path) == expected(tmp_path, *ROWS[:2])
    named.table.overwrite(rows_of(ROWS[-1]))
    assert codes(named.source(), tmp_path) == expected(tmp_path, ROWS[-1])


def test_all_snapshots_of_a_table_are_one_source_and_a_schedule_sees_the_last(named: NamedByGlue):
    canonical = f"{named.address}::town.people"
    assert named.source().name == named.source("&snapshot=3").name == written_source_name(canonical) == canonical
    source = named.source()
    seen = source_kind(source.path).last_written  # type: ignore[arg-type]
    assert seen is not None
    written = seen(source, source.path)
    assert written is not None
    assert int(written.timestamp() * 1000) == named.table.metadata.last_updated_ms


def test_what_the_catalogue_lacks_is_told_by_name(
    named: NamedByGlue, object_server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Another table, a Hive table, an expired snapshot, credentials that nobody set, a service that is away."""
    assert "found: no such table in the catalogue" in refusal(named.source(table="town.nobody"), tmp_path)
    assert "found: no such table in the catalogue" in refusal(named.source(table="village.people"), tmp_path)
    named.client.create_table(DatabaseName="town", TableInput={"Name": "hive", "Parameters": {}})
    assert "a table of another kind than Iceberg's" in refusal(named.source(table="town.hive"), tmp_path)
    named.client.delete_table(DatabaseName="town", Name="hive")
    assert "the snapshot 77, which has expired or never was" in refusal(named.source("&snapshot=77"), tmp_path)
    nobody = named.source().model_copy(update={"credentials": "nobody"})
    assert "no credentials named 'nobody'" in refusal(nobody, tmp_path)
    monkeypatch.setattr(object_store, "ATTEMPTS", 1)
    object_server.fails = lambda number: "before"
    with pytest.raises(StoreAway, match="run again later"):
        take_in(named.source(), make_contract(tmp_path), tmp_path / "stored")


@pytest.mark.parametrize(
    ("keys", "found"),
    [
        ({"path": "iceberg+glue://eu-west-1", "table": "a.b"}, "REGION/ACCOUNT"),
        ({"path": "iceberg+glue://eu-west-1/1234", "table": "a.b"}, "REGION/ACCOUNT"),
        ({"path": "iceberg+glue://eu-west-1/123456789012"}, "without `table`"),
        ({"path": "iceberg+glue://eu-west-1/123456789012", "table": "people"}, "'people'"),
        ({"path": "iceberg+glue://eu-west-1/123456789012", "table": "a.b.c"}, "DATABASE.TABLE"),
        ({"path": "iceberg+glue://eu-west-1/123456789012?catalog=x", "table": "a.b"}, "options behind a `?`"),
        ({"path": "iceberg+glue://key:secret@eu-west-1/123456789012", "table": "a.b"}, "a user or a password"),
        ({"path": "iceberg+glue+http://far.example/eu-west-1/123456789012", "table": "a.b"}, "to another machine"),
        (
            {"path": "iceberg+glue+https://glue.eu-west-1.amazonaws.com/eu-west-1/123456789012", "table": "a.b"},
            "an endpoint of Amazon's",
        ),
        (
            {"path": "iceberg+glue://eu-west-1/123456789012?snapshot=1&at=2026-01-01T00:00Z", "table": "a.b"},
            "more than one",
        ),
    ],
)
def test_addresses_that_cannot_be_read_are_refused(keys: dict[str, str], found: str):
    with pytest.raises(ValidationError) as raised:
        Source.model_validate(keys)
    assert found in str(raised.value.errors(include_input=False))


def test_a_table_has_no_second_name_in_other_letters():
    """Glue folds names: `Town.People` would be the same rows, bound to another account."""
    asked = {"path": f"iceberg+glue://{REGION}/{ACCOUNT}", "table": "Town.people"}
    with pytest.raises(ValidationError, match="found capital letters, allowed a name in lower case"):
        Source.model_validate(asked)
    with pytest.raises(SpecRefused, match="capital letters"):
        written_source_name(f"iceberg+glue://{REGION}/{ACCOUNT}::town.People")
