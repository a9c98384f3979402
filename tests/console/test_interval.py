"""`sudare interval`: the count of any sum of cells, from a version alone."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from tests.console.conftest import Typed
from tests.tasks.verification.forgery import edit_table, sign_manifest
from tests.worlds.spines import with_teams, with_totals
from tests.worlds.statistics import pure
from tests.worlds.tables import first
from tests.worlds.versions import Version, Worlds


@pytest.fixture(scope="module")
def wings(worlds: Worlds) -> Version:
    return worlds.published(with_totals(), here=True)


def test_a_sum_is_told_in_words_and_as_json(wings: Version, typed: Typed):
    """The public total of a wing is exact; without conditions it is all rows."""
    count = with_totals().wing_counts()["north"]
    said = typed("interval", str(wings.folder), "--where", "wing=north")
    assert said.code == 0
    assert said.out.startswith(f"{count:,} rows, with 95 % from {count:,} to {count:,}\n")
    told = json.loads(typed("interval", str(wings.folder), "--json").out)
    assert (told["count"], told["lower"], told["upper"], told["places"], told["cells"]) == (2000, 2000, 2000, 1, 9)


def test_no_conditions_of_the_version_and_other_products_are_refused(wings: Version, worlds: Worlds, typed: Typed):
    """Exit 2, with what may be asked."""
    typed("interval", str(wings.folder), "--where", "wing=east").assert_ended(2, "a place of level wing")
    for other, kind in ((pure(), "statistics"), (first(), "tables")):
        said = typed("interval", str(worlds.published(other, here=True).folder))
        said.assert_ended(2, f"found:   a version of kind {kind}\n", "sudare interval is for no other kind")
        assert "discriminator" not in said.err
        assert said.err.count("found:") == 1


def test_places_of_a_further_tree_have_intervals_of_its_own(worlds: Worlds, typed: Typed):
    """Teams by name; one question is about places of one tree."""
    teams = worlds.published(with_teams(), here=True)
    told = json.loads(typed("interval", str(teams.folder), "--where", "team=day and floor=1", "--json").out)
    parts = json.loads(
        typed("interval", str(teams.folder), "--where", "ward=surgery|(null) and floor=1", "--json").out
    )
    assert told["count"] == parts["count"]
    assert told["lower"] <= told["count"] <= told["upper"]
    assert told["deviation"] < parts["deviation"]
    typed("interval", str(teams.folder), "--where", "team=day and wing=north").assert_ended(2, "the name 'wing'")


def times_three(path: Path, column: str) -> None:
    """Forge the values of a column, in a file that can be read."""

    def forged(table: pa.Table) -> pa.Table:
        at = table.column_names.index(column)
        values = pa.array(table.column(column).to_numpy() * 3, table.schema.field(column).type)
        return table.set_column(at, table.schema.field(column), values)

    edit_table(path, forged)


SPOILED: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink,
    "garbage": lambda path: path.write_bytes(b"PAR1 no table"),
    "a link": lambda path: path.symlink_to(path.rename(path.with_suffix(".other")).name),
}
USED = ("record.json", "data/places.parquet", "data/floor_x_insured.wing.parquet", "measurements/floor.ward.parquet")


@pytest.mark.parametrize("how", SPOILED)
@pytest.mark.parametrize("name", [*USED, "MANIFEST.json"])
def test_a_file_that_is_missing_or_another_is_refused_by_name(
    wings: Version, typed: Typed, tmp_path: Path, name: str, how: str
):
    """Exit 2 before it is read, with what to type."""
    spoiled = wings.copy(tmp_path / "v").folder
    SPOILED[how](spoiled / name)
    said = typed("interval", str(spoiled), "--where", "wing=north")
    assert (said.code, said.out) == (2, "")
    assert f"{name}: the file" in said.err
    assert "sudare verify VERSION_DIR" in said.err


@pytest.mark.parametrize(
    ("name", "column"), [("data/floor_x_insured.wing.parquet", "count"), ("measurements/floor.ward.parquet", "noisy")]
)
def test_forged_values_are_refused(wings: Version, typed: Typed, tmp_path: Path, name: str, column: str):
    """Three times the counts, or the noisy counts, in files of the right form; the whole is counted elsewhere."""
    spoiled = wings.copy(tmp_path / "v").folder
    times_three(spoiled / name, column)
    said = typed("interval", str(spoiled), "--where", "wing=north")
    assert (said.code, said.out) == (2, "")
    assert f"{name}: the file\n    found:   a file with another SHA-256" in said.err


@pytest.mark.parametrize("name", USED[1:])
def test_garbage_that_the_manifest_states_is_refused_too(wings: Version, typed: Typed, tmp_path: Path, name: str):
    """Who signs garbage gets no traceback; other places than those of the record are refused likewise."""
    forged = wings.copy(tmp_path / "v")
    (forged.folder / name).write_bytes(b"PAR1 no table")
    sign_manifest(forged.folder, forged.signer)
    typed("interval", str(forged.folder), "--where", "wing=north").assert_ended(2, "sudare verify VERSION_DIR")


def test_other_places_that_the_manifest_states_are_refused(wings: Version, typed: Typed, tmp_path: Path):
    """The places must be those of the record too."""
    forged = wings.copy(tmp_path / "v")
    edit_table(forged.folder / "data/places.parquet", lambda places: places.slice(0, places.num_rows - 1))
    sign_manifest(forged.folder, forged.signer)
    typed("interval", str(forged.folder), "--where", "wing=north").assert_ended(2, "files as published")
