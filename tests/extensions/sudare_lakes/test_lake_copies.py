"""Copies of versions in a lake: whole or not there, and what is told of one that fails."""

import json
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.table import StaticTable

from benchmarks._periodic_place import Periodic, make_periodic
from benchmarks.orchestration import release_plainly
from contracts.errors import StoreAway, StoreRefuses
from contracts.release.address import read_address
from flows.periods.publications import settled
from flows.request import read_request
from sudare_lakes import object_store
from sudare_lakes.addresses import LakeAddress
from sudare_lakes.delta import DeltaTables
from sudare_lakes.iceberg_copies import IcebergTables
from sudare_lakes.lake_copies import LakeTables, read_version
from tasks.storage.sinks.copies import copy_version
from tasks.storage.sinks.version_copy import VersionBroken, WholeVersion
from tasks.storage.workspace.run_folder import CHARGE_STATES, RunFolder
from tasks.verify import verify
from tests.extensions.sudare_lakes.object_server import ObjectServer
from tests.flows.periods.test_period_charges import PERIOD, _epsilons
from tests.tasks.storage.sinks.test_copies import contents, whole
from tests.worlds.versions import Version


@dataclass(frozen=True)
class Kind:
    """A kind of tables, and how its own program reads one: rows, what each state says of itself, how many files."""

    name: str
    tables: LakeTables
    rows: Callable[[Path], pa.Table]
    said: Callable[[Path], list[str]]
    files: Callable[[Path], list[str]]
    key: str

    def copy(self, version: WholeVersion, folder: Path, *, newest: bool = True) -> str:
        return copy_version(version, f"{self.name}://{folder}", None, newest=newest)

    def back(self, folder: Path, release: str, number: int | None, to: Path) -> WholeVersion:
        read = read_address(f"{self.name}://{folder}")
        assert isinstance(read, LakeAddress)
        return read_version(self.tables, read, release, number, to)


def iceberg_table(folder: Path) -> StaticTable:
    newest = max(
        (folder / "metadata").glob("v*.metadata.json"), key=lambda path: int(path.name[1:].partition(".")[0])
    )
    return StaticTable.from_metadata(newest.as_uri())


DELTA = Kind(
    "delta",
    DeltaTables(),
    lambda folder: DeltaTable(folder).to_pyarrow_table(),
    lambda folder: [each["userMetadata"] for each in reversed(DeltaTable(folder).history())],
    lambda folder: [uri.removeprefix("file://") for uri in DeltaTable(folder).file_uris()],
    "version",
)
ICEBERG = Kind(
    "iceberg",
    IcebergTables(),
    lambda folder: iceberg_table(folder).scan().to_arrow(),
    lambda folder: [each.summary["sudare"] for each in iceberg_table(folder).snapshots()],
    lambda folder: [
        task.file.file_path.removeprefix("file://") for task in iceberg_table(folder).scan().plan_files()
    ],
    "snapshot",
)


@pytest.fixture(params=[DELTA, ICEBERG], ids=["delta", "iceberg"])
def kind(request: pytest.FixtureRequest) -> Kind:
    made: Kind = request.param
    return made


@pytest.fixture
def pair(versions: dict[str, Version]) -> tuple[WholeVersion, WholeVersion]:
    """Two versions of one release; the second has another manifest."""
    first = whole(versions["guild"], 1)
    return first, WholeVersion(first.folder, first.release, 2, first.manifest + b" ", first.files)


def test_each_table_is_one_commit_its_own_program_reads(kind: Kind, versions: dict[str, Version], tmp_path: Path):
    """Its rows are those of the published file, whose very bytes it has; the commit names version and manifest."""
    version = whole(versions["town"])
    where = kind.copy(version, tmp_path / "lake")
    assert where.startswith(f"{kind.name}://{tmp_path}/lake/town/version?{kind.key}=")
    data = [
        name for name in version.files if name.startswith(("data/", "measurements/")) and name.endswith(".parquet")
    ]
    assert data
    for name in data:
        folder = tmp_path / "lake" / "town" / name.removesuffix(".parquet").replace("/", "_")
        [said] = kind.said(folder)
        assert json.loads(said) == {"release": "town", "version": 1, "manifest": version.digest}
        [file] = kind.files(folder)
        assert Path(file).read_bytes() == (version.folder / name).read_bytes()
        published = pq.read_table(version.folder / name)
        assert kind.rows(folder).column_names == published.column_names
        assert kind.rows(folder).to_pylist() == published.to_pylist()


def test_files_and_folders_of_a_copy_have_the_hour_as_their_time(
    kind: Kind, pair: tuple[WholeVersion, WholeVersion], tmp_path: Path
):
    for version in pair:
        kind.copy(version, tmp_path / "lake")
    found = {path.stat().st_mtime_ns % (3600 * 10**9) for path in (tmp_path / "lake" / "guild").rglob("*")}
    assert found == {0}


def times(value: object) -> list[int]:
    """All times in milliseconds that a log or a metadata file states."""
    if isinstance(value, list):
        return [time for each in value for time in times(each)]
    if not isinstance(value, dict):
        return []
    own = [each for name, each in value.items() if re.search("-ms$|[tT]ime", name) and isinstance(each, int)]
    return own + times(list(value.values()))


def test_a_commit_states_hours_alone(kind: Kind, pair: tuple[WholeVersion, WholeVersion], tmp_path: Path):
    """How long a run took depends on its rows."""
    for version in pair:
        kind.copy(version, tmp_path, newest=version is pair[1])
    logs = [*tmp_path.rglob("*.metadata.json"), *tmp_path.rglob("_delta_log/*.json")]
    stated = [time for path in logs for line in path.read_text().splitlines() for time in times(json.loads(line))]
    assert len(stated) >= 2 * len(logs)
    assert all(time % 3_600_000 == 0 for time in stated)


def test_what_a_library_says_of_columns_of_labels_reaches_nobody(
    kind: Kind, pair: tuple[WholeVersion, WholeVersion], tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    """pyiceberg says of each such column, several times, that Iceberg has no dictionary type."""
    labels = [pq.read_schema(path) for path in pair[0].folder.glob("data/*.parquet")]
    assert any(pa.types.is_dictionary(each.type) for schema in labels for each in schema)
    kind.copy(pair[0], tmp_path / "lake")
    assert caplog.text == ""


def test_the_version_comes_back_whole_and_verifies(kind: Kind, versions: dict[str, Version], tmp_path: Path):
    version = versions["town"]
    kind.copy(whole(version), tmp_path / "lake")
    written = contents(tmp_path / "lake")
    kind.copy(whole(version), tmp_path / "lake")
    assert contents(tmp_path / "lake") == written, "again it is left as it is"
    back = kind.back(tmp_path / "lake", "town", None, tmp_path / "back")
    assert (back.number, back.digest) == (1, whole(version).digest)
    assert contents(tmp_path / "back") == contents(version.folder)
    assert verify(tmp_path / "back", public_key=version.key).ok


def test_a_later_version_replaces_what_is_shown_and_the_earlier_one_stays(
    kind: Kind, pair: tuple[WholeVersion, WholeVersion], tmp_path: Path
):
    first, second = pair
    lake = tmp_path / "lake"
    kind.copy(first, lake, newest=False)
    before = contents(lake)
    kind.copy(second, lake)
    after = contents(lake)
    assert before.items() <= after.items(), "nothing that was written is changed"
    shown = lake / first.release / "version"
    assert [json.loads(each)["version"] for each in kind.said(shown)] == [1, 2]
    assert len(kind.files(shown)) == 1
    assert kind.back(lake, first.release, 1, tmp_path / "v1").number == 1
    with pytest.raises(StoreRefuses, match="version 1 with another content"):
        kind.copy(WholeVersion(first.folder, first.release, 1, b"other", first.files), lake, newest=False)
    kind.copy(first, lake, newest=False)
    assert contents(lake) == after
    with pytest.raises(StoreRefuses, match="version 2 with another content"):
        kind.copy(WholeVersion(first.folder, first.release, 2, b"other", first.files), lake)
    assert contents(lake) == after
    kind.copy(second, tmp_path / "second")
    with pytest.raises(StoreRefuses, match="holds version 2"):
        kind.copy(first, tmp_path / "second", newest=False)


@pytest.mark.long
def test_wherever_a_writer_is_cut_off_readers_find_the_version_whole_or_not_at_all(
    kind: Kind, versions: dict[str, Version], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Every n: the n-th file to appear is refused by the disk. The next attempt goes on and completes it."""
    version = whole(versions["town"])
    link, counted = os.link, [0]

    def cut_at(last: int) -> None:
        counted[0] = 0

        def linked(*arguments: object, **named: object) -> None:
            counted[0] += 1
            if counted[0] >= last:
                raise OSError(28, "No space left on device")
            link(*arguments, **named)  # type: ignore[arg-type]

        monkeypatch.setattr(os, "link", linked)

    cut_at(sys.maxsize)
    kind.copy(version, tmp_path / "count")
    needed = counted[0]
    assert needed >= 6
    for last in range(1, needed + 1):
        lake = tmp_path / f"cut-{last}"
        cut_at(last)
        with pytest.raises(StoreAway, match="No space left"):
            kind.copy(version, lake)
        monkeypatch.setattr(os, "link", link)
        with pytest.raises(StoreRefuses, match="no such version"):
            kind.back(lake, "town", None, tmp_path / f"none-{last}")
        kind.copy(version, lake)
        kind.back(lake, "town", 1, tmp_path / f"back-{last}")
        assert contents(tmp_path / f"back-{last}") == contents(version.folder)


@pytest.mark.parametrize("harm", ["changed", "gone", "another commit"])
def test_what_was_changed_in_the_lake_is_found(kind: Kind, versions: dict[str, Version], tmp_path: Path, harm: str):
    kind.copy(whole(versions["town"]), tmp_path / "lake")
    table = next(each for each in sorted((tmp_path / "lake" / "town").iterdir()) if each.name.startswith("data_"))
    [file] = table.rglob("*.parquet")
    if harm == "changed":
        file.write_bytes(file.read_bytes()[:-1] + b"x")
    elif harm == "gone":
        file.unlink()
    else:
        [log] = [*table.glob("_delta_log/*.json"), *table.glob("metadata/*.json")]
        log.write_text(log.read_text().replace('\\"version\\": 1', '\\"version\\": 7'))
    with pytest.raises(VersionBroken):
        kind.back(tmp_path / "lake", "town", 1, tmp_path / "back")


def test_an_address_of_one_version_is_no_place_to_publish(kind: Kind, versions: dict[str, Version], tmp_path: Path):
    with pytest.raises(StoreRefuses, match="an address of one version"):
        copy_version(whole(versions["town"]), f"{kind.name}://{tmp_path}/lake?{kind.key}=3", None, newest=True)


@pytest.fixture
def place(tmp_path: Path) -> Periodic:
    return make_periodic(tmp_path)


def test_a_copy_that_fails_again_says_that_the_period_is_paid_and_entered(
    place: Periodic, object_server: ObjectServer, monkeypatch: pytest.MonkeyPatch
):
    """Nothing of it is charged a second time, and the line about the charge must not say that nothing was."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setattr(object_store, "ATTEMPTS", 1)
    place.spec.write_text(place.spec.read_text().replace("to: releases/", f"to: '{object_server.bucket()}/open'"))
    release_plainly(place.spec, place.workspace.root, period=PERIOD)
    request, run = read_request(place.spec, place.workspace, PERIOD), RunFolder(place.folder)
    object_server.fails = lambda number: "before"
    with pytest.raises(StoreAway):
        settled(request, place.workspace, run, supersede=False)
    assert "its charge is spent and the version is entered" in CHARGE_STATES[run.charge]
    assert not run.resumable
    object_server.heal()
    found = settled(request, place.workspace, run, supersede=False)
    assert found is not None
    assert (found.repeated, found.copy is not None, _epsilons(place)) == (True, True, 1)
