"""`sudare evaluate` of counts by place: the published counts against the exact ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.console.conftest import Place, Typed
from tests.worlds.spines import WARDS, SpineScenario, with_teams
from tests.worlds.versions import Version, Worlds

TEAMS = {"surgery": "day", "children": "night", 'x, "y"': "night", "(null)": "day"}


def stays(scenario: Any, folder: Path) -> tuple[Path, pl.DataFrame]:
    """The real rows in a file, and as the contract reads them."""
    rows: pl.DataFrame = scenario.frame()
    path = folder / "stays.parquet"
    rows.drop([] if scenario.unit else ["patient"]).write_parquet(path)
    read = rows.select(
        ward=pl.when(pl.col("ward") == "nowhere").then(pl.lit("(null)")).otherwise(pl.col("ward")),
        floor=pl.col("floor").replace_strict({1: "1", 2: "2"}, default="9", return_dtype=pl.String),
        insured=pl.when(pl.col("insured")).then(pl.lit("true")).otherwise(pl.lit("false")),
    )
    return path, read


def evaluated(version: Version, rows: Path, place: Place, typed: Typed) -> dict[str, Any]:
    said = typed("evaluate", str(version.folder), "--against", str(rows), "--show", "--json", at=place.workspace)
    assert said.code == 0, said.err
    assert said.json["class"] == "private"
    found: dict[str, Any] = said.json["found"]["tables"]
    return found


def covered(version: Version, name: str, read: pl.DataFrame, columns: list[str]) -> float:
    """The share of intervals that hold the exact count."""
    table = pl.read_parquet(version.folder / "data" / f"{name}.parquet")
    held = [
        row["lower"] <= read.filter(**{column: row[column] for column in columns}).height <= row["upper"]
        for row in table.iter_rows(named=True)
    ]
    return sum(held) / len(held)


def test_counts_by_place_are_compared_at_every_level_of_every_tree(
    shared: Place, worlds: Worlds, typed: Typed, tmp_path: Path
) -> None:
    """Exact counts of the worst cells by hand; the public totals are not off."""
    scenario: SpineScenario = with_teams()
    path, rows = stays(scenario, tmp_path)
    version = worlds.published(scenario, here=True)
    found = evaluated(version, path, shared, typed)
    places = {
        "hospital": dict.fromkeys(WARDS, "hospital"),
        "wing": WARDS,
        "team": TEAMS,
        "ward": {ward: ward for ward in WARDS},
    }
    assert len(found) == 12
    for name, errors in found.items():
        above = places[name.rsplit(".", 1)[1]]
        read = rows.with_columns(ward=pl.col("ward").replace_strict(above))
        for cell in errors["worst"]:
            chosen = dict(zip(errors["columns"], cell["labels"], strict=True))
            assert read.filter(**chosen).height == cell["exact"]
        assert errors["unpublished"] == 0
        assert errors["covered"] == pytest.approx(covered(version, name, read, errors["columns"]))
    assert (found["rows.wing"]["largest"], found["rows.wing"]["covered"]) == (0, 1)
    assert found["floor_x_insured.team"]["largest"] > 0


def test_a_target_is_refused(shared: Place, worlds: Worlds, typed: Typed, tmp_path: Path) -> None:
    """Counts have no rows to predict of."""
    path, _ = stays(with_teams(), tmp_path)
    folder = str(worlds.published(with_teams(), here=True).folder)
    said = typed("evaluate", folder, "--against", str(path), "--target", "floor", at=shared.workspace)
    said.assert_ended(2, "counts have no rows")
