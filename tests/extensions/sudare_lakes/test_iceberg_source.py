"""An Iceberg table as a source: its newest snapshot or an earlier one, and what cannot be read of such tables."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.transforms import IdentityTransform

from contracts.errors import GateBroken, Refused
from contracts.release.source import Source, written_source_name
from sudare_lakes import iceberg
from tests.tasks.intake import ROWS, make_contract, take_in, write_csv

SCHEMA = ("age", "sex", "wage", "since")


def rows_of(*rows: str) -> pa.Table:
    cells = [dict(zip(SCHEMA, row.split(","), strict=True)) for row in rows]
    return pa.table({name: pa.array([row[name] or None for row in cells], pa.string()) for name in SCHEMA})


class IcebergPlace:
    """A table in a folder, with a catalogue of its own elsewhere that writes it."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "people"
        self._catalogue = SqlCatalog("tests", uri=f"sqlite:///{root}/catalogue.db", warehouse=root.as_uri())
        self._catalogue.create_namespace("here")
        self.table = self._catalogue.create_table("here.people", rows_of(*ROWS).schema, location=self.folder.as_uri())
        for rows in (ROWS[:2], ROWS[2:]):
            self.table.append(rows_of(*rows))
        self.snapshots = [each.snapshot_id for each in self.table.snapshots()]

    def source(self, asked: str = "", **more: Any) -> Source:
        return Source.model_validate({"path": f"iceberg://{self.folder}{asked}", **more})

    @property
    def metadata(self) -> list[Path]:
        return sorted((self.folder / "metadata").glob("*.metadata.json"))

    def edit(self, change: Callable[[dict[str, Any]], object]) -> None:
        """Write the newest metadata file again with a change."""
        content = json.loads(self.metadata[-1].read_text())
        change(content)
        self.metadata[-1].write_text(json.dumps(content))


@pytest.fixture
def place(tmp_path: Path) -> IcebergPlace:
    return IcebergPlace(tmp_path)


def taken(source: Source, folder: Path) -> list[tuple[object, ...]]:
    table = take_in(source, make_contract(folder), folder / source.path.__class__.__name__)
    with duckdb.connect(str(table.path), read_only=True) as connection:
        return sorted(connection.execute("SELECT * FROM codes").fetchall())


def expected(folder: Path, *rows: str) -> list[tuple[object, ...]]:
    return taken(write_csv(folder, *rows), folder)


def refusal(source: Source, folder: Path) -> str:
    with pytest.raises(Refused) as raised:
        take_in(source, make_contract(folder), folder / "refused")
    assert raised.value.exit_code == (3 if isinstance(raised.value, GateBroken) else 2)
    [finding] = raised.value.findings
    return f"found: {finding.found}; allowed: {finding.allowed}"


@pytest.mark.long
def test_rows_are_those_of_the_snapshot_that_is_asked_for(tmp_path: Path, place: IcebergPlace):
    """The newest, one by its id, by an instant, and as a metadata file has it."""
    first, second = place.snapshots
    assert taken(place.source(), tmp_path) == expected(tmp_path, *ROWS)
    assert taken(place.source(f"?snapshot={first}"), tmp_path) == expected(tmp_path, *ROWS[:2])
    between = place.table.history()[0].timestamp_ms
    at = datetime.fromtimestamp(between / 1000, UTC).isoformat().replace("+", "%2B")
    assert taken(place.source(f"?at={at}"), tmp_path) == expected(tmp_path, *ROWS[:2])
    named = place.source(f"/metadata/{place.metadata[1].name}")
    assert taken(named, tmp_path) == expected(tmp_path, *ROWS[:2])
    assert {place.source().name, named.name, place.source(f"?snapshot={second}").name} == {
        f"iceberg://{place.folder}"
    }
    assert written_source_name(str(named.path)) == f"iceberg://{place.folder}"


def test_the_same_snapshot_is_taken_up_and_another_one_read(tmp_path: Path, place: IcebergPlace):
    """Rows that are rewritten are not there twice, and what nobody rewrote costs nothing again."""
    contract = make_contract(tmp_path)
    first = take_in(place.source(), contract, tmp_path)
    inode = first.path.stat().st_ino
    assert take_in(place.source(), contract, tmp_path) == first
    assert first.path.stat().st_ino == inode
    place.table.overwrite(rows_of(*ROWS[1:]))
    assert taken(place.source(), tmp_path) == expected(tmp_path, *ROWS[1:])
    assert taken(place.source(f"?snapshot={place.snapshots[1]}"), tmp_path) == expected(tmp_path, *ROWS)


def _dropped_field(place: IcebergPlace) -> None:
    with place.table.update_spec() as update:
        update.add_field("sex", IdentityTransform())
    with place.table.update_spec() as update:
        update.remove_field("sex")


def _added_again(place: IcebergPlace) -> None:
    with place.table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("wage")
    with place.table.update_schema() as update:
        from pyiceberg.types import StringType

        update.add_column("wage", StringType())


def _renamed(place: IcebergPlace) -> None:
    with place.table.update_schema() as update:
        update.rename_column("wage", "pay")


UNREADABLE: dict[str, tuple[Callable[[IcebergPlace], object], str]] = {
    "a dropped partition field": (
        _dropped_field,
        "found: an Iceberg table with a dropped partition field; allowed: a table of format version 1 or 2 with the "
        "partition fields that it always had",
    ),
    "a column that was dropped and added again": (
        lambda place: (_added_again(place), place.table.append(rows_of(ROWS[0]))),
        "found: files whose column 'wage' is another one of that name (it was dropped and added again); "
        "allowed: files with the columns of the table",
    ),
    "files that are gone": (
        lambda place: next((place.folder / "data").glob("*.parquet")).unlink(),
        "found: a version whose files are gone (expired snapshots); allowed: a version whose files are all there",
    ),
    "manifests that are gone": (
        lambda place: [each.unlink() for each in (place.folder / "metadata").glob("*-m0.avro")],
        "found: Iceberg metadata that cannot be read; allowed: a whole table",
    ),
    "torn metadata": (
        lambda place: place.metadata[-1].write_text('{"format-ver'),
        "found: Iceberg metadata that cannot be read; allowed: a whole table",
    ),
    "two newest metadata files": (
        lambda place: shutil.copy(place.metadata[-1], place.folder / "metadata" / "00002-again.metadata.json"),
        "found: two metadata files that are equally new; allowed: one newest metadata file",
    ),
    "no snapshot": (
        lambda place: place.edit(lambda content: content.update({"current-snapshot-id": -1, "refs": {}})),
        "found: a table without a snapshot; allowed: a snapshot that the table still has",
    ),
    "no metadata": (
        lambda place: [each.unlink() for each in place.metadata],
        "found: a folder without Iceberg metadata; allowed: a folder with metadata/*.metadata.json",
    ),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_what_is_more_than_files_of_rows_is_refused_by_name(tmp_path: Path, place: IcebergPlace, case: str):
    change, said = UNREADABLE[case]
    change(place)
    assert refusal(place.source(), tmp_path) == said


def test_a_snapshot_that_expired_is_told(tmp_path: Path, place: IcebergPlace):
    first = place.snapshots[0]
    place.edit(lambda content: content["snapshots"].pop(0))
    told = refusal(place.source(f"?snapshot={first}"), tmp_path)
    assert told.startswith(f"found: the snapshot {first}, which has expired or never was")
    early = refusal(place.source("?at=2020-01-01T00:00:00Z"), tmp_path)
    assert early.startswith("found: the instant 2020-01-01T00:00:00+00:00, before the first snapshot")


def test_files_that_call_a_column_differently_are_refused(tmp_path: Path, place: IcebergPlace):
    _renamed(place)
    place.table.append(rows_of(ROWS[0]).rename_columns(["age", "sex", "pay", "since"]))
    with pytest.raises(GateBroken, match=r"other columns than in the first file .*(wage.*pay|pay.*wage)"):
        take_in(place.source(), make_contract(tmp_path), tmp_path / "refused")


def test_rows_that_are_deleted_in_files_of_their_own_are_refused(
    tmp_path: Path, place: IcebergPlace, monkeypatch: pytest.MonkeyPatch
):
    """pyiceberg writes no such deletes: a scan that tells one stands for the table."""
    from pyiceberg.table import DataScan

    whole = DataScan.plan_files

    def with_deletes(scan: DataScan) -> Any:
        tasks = list(whole(scan))
        tasks[0].delete_files.add(tasks[1].file)
        return tasks

    monkeypatch.setattr(DataScan, "plan_files", with_deletes)
    assert refusal(place.source(), tmp_path).startswith("found: an Iceberg table with row-level deletes")
    with pytest.raises(GateBroken):  # whether a row was deleted is the data's
        take_in(place.source(), make_contract(tmp_path), tmp_path / "again")


def test_a_schedule_sees_when_the_table_was_last_written(tmp_path: Path, place: IcebergPlace):
    source = place.source()
    last = iceberg.SOURCE.last_written
    assert last is not None
    assert last(source, source.path) == datetime.fromtimestamp(place.table.metadata.last_updated_ms / 1000, UTC)
    gone = Source.model_validate({"path": f"iceberg://{tmp_path}/nowhere"})
    assert last(gone, gone.path) is None


def test_a_column_is_found_by_its_id_under_whatever_name_all_files_have(tmp_path: Path):
    """A writer spells a hyphen as Avro can have it; and a column that was renamed since is the same one."""
    catalogue = SqlCatalog("tests", uri=f"sqlite:///{tmp_path}/other.db", warehouse=tmp_path.as_uri())
    catalogue.create_namespace("here")
    odd = rows_of(*ROWS).rename_columns(["age", "se-x", "pay", "since"])
    table = catalogue.create_table("here.odd", odd.schema, location=(tmp_path / "odd").as_uri())
    table.append(odd)
    with table.update_schema() as update:
        update.rename_column("pay", "wage")
        update.rename_column("se-x", "sex")
    [file] = (tmp_path / "odd" / "data").glob("*.parquet")
    assert pq.read_schema(file).names == ["age", "se_x2Dx", "pay", "since"]
    whole = Source.model_validate({"path": f"iceberg://{tmp_path}/odd"})
    assert taken(whole, tmp_path) == expected(tmp_path, *ROWS)
    select = "SELECT age, lower(sex) AS sex, wage, since FROM source"
    chosen = {"path": f"iceberg://{tmp_path}/odd", "select": select, "types": {"sex": "text"}}
    quiet = [",".join((age, sex.lower(), *more)) for age, sex, *more in (row.split(",") for row in ROWS)]
    assert taken(Source.model_validate(chosen), tmp_path) == expected(tmp_path, *quiet)
