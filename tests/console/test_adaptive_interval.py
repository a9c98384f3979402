"""`sudare interval` of adaptive tables: sums of groups and of cells, from a version alone."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tests.console.conftest import Typed
from tests.tasks.verification.forgery import edit_table
from tests.worlds.adaptive import of_patients, of_wards
from tests.worlds.versions import Version, Worlds


@pytest.fixture(scope="module")
def wards(worlds: Worlds) -> Version:
    return worlds.published(of_wards(), here=True)


def told(typed: Typed, version: Version, where: str) -> dict[str, float]:
    said = typed("interval", str(version.folder), "--where", where, "--json")
    assert said.code == 0, said.err
    found: dict[str, float] = json.loads(said.out)
    return found


def test_whole_groups_are_sums_of_totals_and_cells_of_counts(wards: Version, typed: Typed) -> None:
    """Counts are those of the file; deviations those of so many draws."""
    rows = pl.read_parquet(wards.folder / "data/ward.parquet")
    draws = {each["key"]: each for each in json.loads((wards.folder / "record.json").read_text())["replay"]["draws"]}
    whole = told(typed, wards, "ward=surgery|children")
    totals = rows.filter((pl.col("level") == "total") & pl.col("ward").cast(pl.String).is_in(["surgery", "children"]))
    assert whole["count"] == totals.get_column("count").sum()
    one = told(typed, wards, "ward=surgery")
    assert whole["deviation"] == pytest.approx(2**0.5 * one["deviation"])
    assert (whole["groups"], whole["numbers"]) == (2, 2)
    insured = told(typed, wards, "ward=surgery and insured=true")
    own = rows.filter((pl.col("level") != "total") & (pl.col("ward") == "surgery") & (pl.col("insured") == "true"))
    assert insured["count"] == own.get_column("count").sum()
    assert insured["numbers"] == own.height
    assert one["lower"] <= one["count"] <= one["upper"]
    assert len(draws) == 2
    said = typed("interval", str(wards.folder), "--where", "ward=surgery")
    assert said.out.splitlines()[1].startswith("table ward; groups: 1; noisy counts: 1; deviation ")


def test_what_is_no_sum_of_the_table_is_refused(wards: Version, worlds: Worlds, typed: Typed, tmp_path: Path) -> None:
    """Exit 2: an unknown column or label, columns of two tables, a file that is another."""
    patients = worlds.published(of_patients(), here=True)
    for version, where, found in (
        (wards, "street=1", "the column 'street'"),
        (wards, "ward=cellar", "the label 'cellar' of 'ward'"),
        (wards, "ward", "the condition 'ward'"),
        (wards, "ward=surgery and ward=children", "'ward' twice"),
        (patients, "bill=1", "the column 'bill'"),
    ):
        said = typed("interval", str(version.folder), "--where", where)
        assert said.code == 2
        assert found in said.err
    forged = wards.copy(tmp_path / "forged")
    edit_table(forged.folder / "measurements/ward.levels.parquet", lambda table: table.slice(1))
    said = typed("interval", str(forged.folder))
    assert said.code == 2
    assert "ward.levels.parquet" in said.err
