"""Data files once more in parts: what is written, what engines read, and forged parts that verify refuses."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from tasks.records.files import part_names
from tests.tasks.verification.forgery import Json, assert_caught, cell, edit, edit_table, forge, load
from tests.worlds.synthetic_rows import SyntheticScenario
from tests.worlds.tables import first
from tests.worlds.versions import Version, broken, publish_version

ROWS_A_PART = 4


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Version]:
    """A version whose files have row groups of a few rows, and so several parts each; verify knows the size too."""
    scenario = first()
    scenario.spec = scenario.spec.replace("formats: [parquet]", "formats: [parquet, csv, parts]")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(part_names, "PIECE", ROWS_A_PART)
        yield publish_version(scenario, tmp_path_factory.mktemp("parts"))


def listed(version: Version) -> list[Json]:
    files: list[Json] = version.words["output.files"]
    return [file for file in files if "/part-" in file["path"]]


def test_parts_are_the_rows_of_the_whole_file_and_verify(published: Version):
    """An engine that reads the folder gets the file; each part says where it is from, and nothing else counts it."""
    assert published.verify().ok
    parts = listed(published)
    for whole in ("age", "age_x_sex"):
        file = pq.ParquetFile(published.folder / "data" / f"{whole}.parquet")
        mine = [part for part in parts if part["path"].startswith(f"data/{whole}/")]
        assert len(mine) == file.num_row_groups == -(-file.metadata.num_rows // ROWS_A_PART) > 1
        assert sum(part["rows"] for part in mine) == file.metadata.num_rows
        folder = str(published.folder / "data" / whole / "*.parquet")
        together = duckdb.sql(f"select * from read_parquet('{folder}')").to_arrow_table()
        assert together.to_pylist() == file.read().to_pylist()
    assert pq.read_schema(published.folder / parts[0]["path"]).metadata[b"sudare_release"] == b"town"
    croissant = load(published.folder / "croissant.json")
    assert {part["path"] for part in parts} <= {each["contentUrl"] for each in croissant["distribution"]}
    assert not [each["name"] for each in croissant["recordSet"] if "part-" in each["name"]]
    output = published.words
    assert output["output.formats"] == ["parquet", "csv", "parts"]
    assert output["output.partitioning"].endswith(f"in parts, a row group each: {len(parts)} files")


PART = "data/age/part-00000.parquet"


def lost_part(folder: Path) -> None:
    (folder / PART).unlink()


def exchanged(folder: Path) -> None:
    one, other = (folder / "data" / "age_x_sex" / f"part-0000{place}.parquet" for place in range(2))
    kept = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(kept)


def one_more(folder: Path) -> None:
    parts = sorted((folder / "data" / "age").iterdir())
    shutil.copy(parts[-1], parts[-1].with_name(f"part-{len(parts):05d}.parquet"))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (cell("data/age/part-00001.parquet", "count", 0, 10**6), "those of the whole file"),
        (exchanged, "those of the whole file"),
        (lost_part, "part-00000 to data/age/"),
        (one_more, "part-00000 to data/age/"),
        (lambda folder: edit_table(folder / PART, lambda table: table.slice(1)), "in one group"),
        (
            lambda folder: edit_table(folder / PART, lambda table: table.drop_columns(["upper"])),
            "those of the whole file, with its marks",
        ),
        (lambda folder: (folder / PART).write_bytes(b"PAR1"), "readable Parquet"),
    ],
)
def test_forged_parts_are_caught_where_all_digests_and_signatures_hold(
    version: Version, change: Callable[[Path], object], says: str
):
    change(version.folder)
    if change is lost_part:
        edit(version.folder / "record.json", lambda r: r.update(files=[f for f in r["files"] if f["path"] != PART]))
        edit(
            version.folder / "croissant.json",
            lambda c: c.update(distribution=[f for f in c["distribution"] if f["contentUrl"] != PART]),
        )
    assert_caught(forge(version), {9}, says)


def test_a_part_of_a_file_that_is_none_is_refused(version: Version):
    (version.folder / "data" / "sex").mkdir()
    source = version.folder / "data" / "age" / "part-00000.parquet"
    shutil.copy(source, version.folder / "data" / "sex" / "part-00000.parquet")
    assert 5 in broken(forge(version).verify())


@pytest.mark.long
def test_synthetic_rows_in_parts_verify(tmp_path: Path):
    version = publish_version(SyntheticScenario(formats="[parquet, parts]"), tmp_path)
    assert version.verify().ok
    [part] = listed(version)
    assert part["path"] == "data/stays/part-00000.parquet"
    whole = pq.read_table(version.folder / "data" / "stays.parquet")
    assert pq.read_table(version.folder / part["path"]).equals(whole)
    edit_table(version.folder / part["path"], lambda table: table.take(list(range(table.num_rows))[::-1]))
    forge(version)
    assert broken(version.verify()) == {9}
