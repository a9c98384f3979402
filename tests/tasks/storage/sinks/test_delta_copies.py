"""Copies of versions as commits to Delta tables: read by delta-rs, cut off anywhere, verified again."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from contracts.release.address_kinds import read_address
from contracts.release.lake_address import DeltaAddress
from tasks.storage.object_store import StoreAway, StoreRefuses
from tasks.storage.sinks.copies import copy_version
from tasks.storage.sinks.delta_copies import read_version
from tasks.storage.sinks.version_copy import VersionBroken, WholeVersion
from tasks.verify import verify
from tests.tasks.storage.sinks.test_copies import contents, whole
from tests.worlds.versions import Version


def place(folder: Path) -> DeltaAddress:
    read = read_address(f"delta://{folder}")
    assert isinstance(read, DeltaAddress)
    return read


@pytest.fixture
def pair(versions: dict[str, Version], tmp_path: Path) -> tuple[WholeVersion, WholeVersion]:
    """Two versions of one release; the second has another manifest."""
    first = whole(versions["guild"], 1)
    return first, WholeVersion(first.folder, first.release, 2, first.manifest + b" ", first.files)


def test_each_table_is_one_commit_that_delta_rs_reads(versions: dict[str, Version], tmp_path: Path) -> None:
    """Its rows and types are those of the published file, whose very bytes it has; the commit names the version."""
    version = whole(versions["town"])
    where = copy_version(version, f"delta://{tmp_path}/lake", None, newest=True)
    assert where == f"delta://{tmp_path}/lake/town/version?version=0"
    data = [
        name for name in version.files if name.startswith(("data/", "measurements/")) and name.endswith(".parquet")
    ]
    assert data
    for name in data:
        table = DeltaTable(tmp_path / "lake" / "town" / name.removesuffix(".parquet").replace("/", "_"))
        assert table.version() == 0
        [said] = table.history()
        assert json.loads(said["userMetadata"]) == {"release": "town", "version": 1, "manifest": version.digest}
        [file] = table.file_uris()
        assert Path(file).read_bytes() == (version.folder / name).read_bytes()
        shown = table.to_pyarrow_table()
        published = pq.read_table(version.folder / name)
        assert shown.column_names == published.column_names
        assert shown.to_pylist() == published.to_pylist()


def test_the_version_comes_back_whole_and_verifies(versions: dict[str, Version], tmp_path: Path) -> None:
    version = versions["town"]
    for _ in range(2):
        copy_version(whole(version), f"delta://{tmp_path}/lake", None, newest=True)
    assert len([*(tmp_path / "lake" / "town" / "version" / "_delta_log").iterdir()]) == 1, "again it is left as it is"
    back = read_version(place(tmp_path / "lake"), "town", None, tmp_path / "back")
    assert (back.number, back.digest) == (1, whole(version).digest)
    assert contents(tmp_path / "back") == contents(version.folder)
    assert verify(tmp_path / "back", public_key=version.key).ok


def test_a_later_version_replaces_what_is_shown_and_the_earlier_one_stays(
    pair: tuple[WholeVersion, WholeVersion], tmp_path: Path
) -> None:
    first, second = pair
    lake = f"delta://{tmp_path}/lake"
    copy_version(first, lake, None, newest=False)
    before = contents(tmp_path / "lake")
    copy_version(second, lake, None, newest=True)
    after = contents(tmp_path / "lake")
    assert before.items() <= after.items(), "nothing that was written is changed"
    table = DeltaTable(tmp_path / "lake" / first.release / "version")
    assert table.version() == 1
    assert [len(DeltaTable(table.table_uri, version=number).file_uris()) for number in (0, 1)] == [1, 1]
    assert read_version(place(tmp_path / "lake"), first.release, 1, tmp_path / "v1").number == 1
    with pytest.raises(StoreRefuses, match="version 1 with another content"):
        copy_version(WholeVersion(first.folder, first.release, 1, b"other", first.files), lake, None, newest=False)
    copy_version(second, f"{lake}-of-the-second", None, newest=True)
    with pytest.raises(StoreRefuses, match="holds version 2"):
        copy_version(first, f"{lake}-of-the-second", None, newest=False)
    copy_version(first, lake, None, newest=False)
    assert contents(tmp_path / "lake") == after
    with pytest.raises(StoreRefuses, match="version 2 with another content"):
        copy_version(WholeVersion(first.folder, first.release, 2, b"other", first.files), lake, None, newest=True)
    assert contents(tmp_path / "lake") == after


def test_wherever_a_writer_is_cut_off_readers_find_the_version_whole_or_not_at_all(
    versions: dict[str, Version], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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

    cut_at(10**6)
    copy_version(version, f"delta://{tmp_path}/count", None, newest=True)
    needed = counted[0]
    assert needed >= 6
    for last in range(1, needed + 1):
        lake = tmp_path / f"cut-{last}"
        cut_at(last)
        with pytest.raises(StoreAway, match="No space left"):
            copy_version(version, f"delta://{lake}", None, newest=True)
        monkeypatch.setattr(os, "link", link)
        with pytest.raises(StoreRefuses, match="no such version"):
            read_version(place(lake), "town", None, tmp_path / f"none-{last}")
        copy_version(version, f"delta://{lake}", None, newest=True)
        read_version(place(lake), "town", 1, tmp_path / f"back-{last}")
        assert contents(tmp_path / f"back-{last}") == contents(version.folder)


@pytest.fixture
def lake(versions: dict[str, Version], tmp_path: Path) -> Path:
    copy_version(whole(versions["town"]), f"delta://{tmp_path}/lake", None, newest=True)
    return tmp_path / "lake" / "town"


@pytest.mark.parametrize("harm", ["changed", "gone", "another commit"])
def test_what_was_changed_in_the_lake_is_found(lake: Path, tmp_path: Path, harm: str) -> None:
    table = next(each for each in sorted(lake.iterdir()) if each.name.startswith("data_"))
    [file] = table.glob("*.parquet")
    if harm == "changed":
        file.write_bytes(file.read_bytes()[:-1] + b"x")
    elif harm == "gone":
        file.unlink()
    else:
        log = next((table / "_delta_log").iterdir())
        log.write_text(log.read_text().replace('\\"version\\": 1', '\\"version\\": 7'))
    with pytest.raises(VersionBroken):
        read_version(place(lake.parent), "town", 1, tmp_path / "back")


def test_an_address_of_one_version_is_no_place_to_publish_to(versions: dict[str, Version], tmp_path: Path) -> None:
    with pytest.raises(StoreRefuses, match="an address of one version"):
        copy_version(whole(versions["town"]), f"delta://{tmp_path}/lake?version=3", None, newest=True)
