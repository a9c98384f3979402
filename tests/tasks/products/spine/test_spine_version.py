"""Versions of counts by place: all levels add up, public totals are exact, and a stranger makes them again."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from contracts.errors import SpecRefused
from flows.request import read_request
from tests.tasks.verification.forgery import Forgery, cell, edit_table, load, set_cell
from tests.worlds.spines import (
    WARDS,
    SpineScenario,
    with_margins,
    with_patterns,
    with_teams,
    with_totals,
    without_totals,
)
from tests.worlds.versions import Version, Worlds


@pytest.fixture(scope="module")
def version(worlds: Worlds) -> Version:
    return worlds.published(without_totals(), here=True)


@pytest.fixture(scope="module")
def wings(worlds: Worlds) -> Version:
    return worlds.published(with_totals(), here=True)


@pytest.fixture(scope="module")
def floors(worlds: Worlds) -> Version:
    return worlds.published(with_margins(), here=True)


@pytest.fixture(scope="module")
def patterns(worlds: Worlds) -> Version:
    return worlds.published(with_patterns(), here=True)


@pytest.fixture(scope="module")
def teams(worlds: Worlds) -> Version:
    return worlds.published(with_teams(), here=True)


def table(version: Version, name: str, of: str = "data") -> pl.DataFrame:
    return pl.read_parquet(version.folder / of / f"{name}.parquet").with_columns(
        pl.col(pl.Categorical).cast(pl.String)
    )


@pytest.mark.long
@pytest.mark.parametrize("name", ["version", "wings", "floors", "patterns", "teams"])
def test_a_version_verifies_by_all_rules(request: pytest.FixtureRequest, name: str):
    """Both relations, with and without public totals; deep has nothing more to estimate."""
    made: Version = request.getfixturevalue(name)
    for deep in (False, True):
        report = made.verify(deep=deep)
        assert report.ok, report.findings
        assert [check.rule for check in report.checks][:10] == list(range(1, 11))


@pytest.mark.parametrize("name", ["version", "wings", "floors", "patterns", "teams"])
def test_all_levels_and_tables_add_up(request: pytest.FixtureRequest, name: str):
    """Whole, not negative; wards to wings, wings to the hospital, floors by insured to floors, floors to rows."""
    made: Version = request.getfixturevalue(name)
    every = "floor_x_insured"
    wards = table(made, f"{every}.ward").with_columns(wing=pl.col("ward").replace_strict(WARDS))
    assert wards.get_column("count").dtype == pl.Int64
    assert wards.get_column("count").min() >= 0  # type: ignore[operator]
    by = wards.group_by("wing", "floor", "insured").agg(pl.col("count").sum()).sort(pl.all())
    wings = table(made, f"{every}.wing").select(pl.col("ward").alias("wing"), "floor", "insured", "count")
    assert by.equals(wings.sort(pl.all()))
    for level in ("hospital", "wing", "ward"):
        detail = table(made, f"{every}.{level}")
        floors = detail.group_by("ward", "floor").agg(pl.col("count").sum()).sort(pl.all())
        assert floors.equals(table(made, f"floor.{level}").select("ward", "floor", "count").sort(pl.all()))
        rows = detail.group_by("ward").agg(pl.col("count").sum()).sort(pl.all())
        assert rows.equals(table(made, f"rows.{level}").select("ward", "count").sort(pl.all()))
    for of in detail.iter_rows(named=True):
        assert of["lower"] <= of["count"] <= of["upper"]


def test_public_totals_are_exact_and_the_record_says_what_they_give_away(wings: Version):
    """The rows of each wing are those of the file of places; nothing is left to their intervals."""
    rows = {each["ward"]: each for each in table(wings, "rows.wing").iter_rows(named=True)}
    for wing, count in with_totals().wing_counts().items():
        assert (rows[wing]["lower"], rows[wing]["count"], rows[wing]["upper"]) == (count, count, count)
    [given] = wings.words["product.invariants"]
    assert str(given).startswith("totals of level wing are exact and public (yearbook)")
    assert "change places costs at most twice" in str(given)
    assert str(wings.words["unprotected.quantities"][0]) == str(given)
    assert "whether totals of places that are published exactly are public elsewhere" in wings.verify().cannot_tell


def test_public_counts_by_columns_are_exact_and_zeros_of_places_stay_empty(floors: Version):
    """The floors of each wing are those of the public file; nobody is on the first floor of the children's ward."""
    rows = {(each["ward"], each["floor"]): each for each in table(floors, "floor.wing").iter_rows(named=True)}
    for at, count in with_margins().floor_counts().items():
        assert (rows[at]["lower"], rows[at]["count"], rows[at]["upper"]) == (count, count, count)
    for name in ("floor.ward", "floor_x_insured.ward"):
        frame = table(floors, name)
        nobody = frame.filter((pl.col("ward") == "children") & (pl.col("floor") == "1"))
        assert nobody.height
        assert nobody.select(pl.sum_horizontal("lower", "count", "upper").sum()).item() == 0
        assert (frame.filter(pl.col("floor") == "1").get_column("count") > 0).any()
    [given] = floors.words["product.invariants"]
    assert str(given).startswith("counts of level wing by floor are exact and public (yearbook)")
    assert table(floors, "invariants.wing").columns == ["ward", "floor", "total"]


def test_a_floor_that_one_wing_lacks_is_empty_beside_exact_totals(patterns: Version):
    """No row on the first floor of that wing and its wards, both totals exact."""
    totals = {each["ward"]: each["count"] for each in table(patterns, "rows.wing").iter_rows(named=True)}
    assert totals == with_patterns().wing_counts()
    for name, places in (("floor.wing", ["north"]), ("floor_x_insured.ward", ["surgery", "children"])):
        first = table(patterns, name).filter(pl.col("floor") == "1")
        assert first.filter(pl.col("ward").is_in(places)).get_column("upper").sum() == 0
        assert (first.filter(~pl.col("ward").is_in(places)).get_column("count") > 0).any()


def test_tables_of_both_trees_are_sums_of_the_same_wards(teams: Version):
    """Teams cross wings: each is the sum of its wards, for every table, inside its intervals."""
    team = {"surgery": "day", "(null)": "day", "children": "night", 'x, "y"': "night"}
    for name, columns in (("floor_x_insured", ["floor", "insured"]), ("floor", ["floor"]), ("rows", [])):
        wards = table(teams, f"{name}.ward").with_columns(ward=pl.col("ward").replace_strict(team))
        by = wards.group_by("ward", *columns).agg(pl.col("count").sum()).sort(pl.all())
        counts = table(teams, f"{name}.team")
        assert by.equals(counts.select("ward", *columns, "count").sort(pl.all()))
        assert (counts.get_column("lower") <= counts.get_column("count")).all()
        assert (counts.get_column("count") <= counts.get_column("upper")).all()
    wings = {each["ward"]: each["count"] for each in table(teams, "rows.wing").iter_rows(named=True)}
    assert wings == with_teams().wing_counts()
    assert table(teams, "places.2").get_column("level").unique(maintain_order=True).to_list() == [
        "hospital",
        "team",
        "ward",
    ]


def test_csv_copies_hold_the_same_rows(teams: Version):
    """One beside each table."""
    for name in ("rows.ward", "floor_x_insured.team"):
        copy = pl.read_csv(teams.folder / "data" / f"{name}.csv", infer_schema=False)
        assert copy.equals(table(teams, name).cast(pl.String))


def test_intervals_use_all_measurements(version: Version):
    """Shorter than those of each draw alone, at every level of every table."""
    draws = {each["key"]: each for each in load(version.folder / "record.json")["replay"]["draws"]}
    for each in version.words["unprotected.quantities"], draws:
        assert each
    widths = {
        (each["table"], each["level"]): int(each["half_width_95"]) for each in version.words["utility.expected_error"]
    }
    for (name, level), width in widths.items():
        frame = table(version, f"{name}.{level}").filter(pl.col("lower") > 0)
        lengths = (frame.get_column("upper") - frame.get_column("lower")).to_numpy()
        assert (lengths <= 2 * width + 1).all(), (name, level)


def children_moved(folder: Path) -> None:
    """A ward goes to the other wing: places are no longer those of the product and the draws."""

    def moved(places: pa.Table) -> pa.Table:
        to = pl.when(pl.col("place") == "children").then(pl.lit("south")).otherwise(pl.col("parent"))
        frame = pl.DataFrame(places).with_columns(parent=to)
        order = np.argsort(frame.get_column("parent").to_list()[3:], kind="stable") + 3
        return pl.concat([frame[:3], frame[order.tolist()]]).to_arrow()

    edit_table(folder / "data/places.parquet", moved)


def somebody_there(folder: Path) -> None:
    rows = pl.read_parquet(folder / "data/floor.wing.parquet").with_columns(pl.col(pl.Categorical).cast(pl.String))
    at = rows.with_row_index().filter((pl.col("floor") == "1") & (pl.col("ward") == "north")).get_column("index")[0]
    set_cell(folder / "data/floor.wing.parquet", "count", int(at), 1)


def csv_count(folder: Path) -> None:
    path = folder / "data/rows.ward.csv"
    first, second, *rest = path.read_text().splitlines(keepends=True)
    path.write_text("".join([first, second.replace(second.rsplit(",", 1)[1], "99999\n"), *rest]))


CHANGED = [
    *(("data/floor.wing.parquet", "count", 9), ("data/rows.hospital.parquet", "upper", 9)),
    *(("data/floor_x_insured.ward.parquet", "lower", 9), ("measurements/floor.wing.parquet", "noisy", 8)),
    ("data/invariants.wing.parquet", "total", 8),
]
FORGERIES = {
    **{f"{column} in {file}": Forgery({rule}, files=cell(file, column, 0, 12345)) for file, column, rule in CHANGED},
    "another tree": Forgery({8}, files=children_moved, where={"data/places.parquet"}),
    "a row on a floor that a wing lacks": Forgery({9}, files=somebody_there),
    "a number in a CSV copy": Forgery({9}, files=csv_count, where={"data/rows.ward.csv"}),
}
OF = {
    "another tree": with_totals,
    "a row on a floor that a wing lacks": with_patterns,
    "a number in a CSV copy": with_teams,
}
"""The worlds of those that are not of public counts by columns."""


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_found_by_the_rule_it_breaks(worlds: Worlds, tmp_path: Path, name: str):
    """What was changed and signed again."""
    made = OF.get(name, with_margins)()
    FORGERIES[name].check_found(worlds.published(made, here=True).copy(tmp_path / "v"))


REFUSED = {
    "no total in the contract": (
        {"privacy": "{unit: {kind: row, scope: block}, adjacency: replace_one}"},
        "invariants without a total that the contract declares public",
    ),
    "added and removed": (
        {"privacy": "{unit: {kind: row, scope: block}, adjacency: add_remove}"},
        "invariants with adjacency add_remove",
    ),
    "another total": ({"privacy": with_totals().privacy.replace("2000", "2001")}, "totals that add up to 2,000"),
    "floors of the whole, and a floor that one wing lacks": (
        {
            "privacy": with_patterns().privacy,
            "invariants": with_totals().invariants.replace(
                "{wing",
                "{hospital: {columns: [floor], file: floors-of-all.csv, column: beds, reference: yearbook}, wing",
            ),
        },
        "counts by floor, and structural zeros that leave the place 'north' without",
    ),
    "a public count where nobody can be": (
        {"privacy": with_patterns().privacy, "invariants": with_margins().invariants},
        r"the place 'north' \(1\) with a total of",
    ),
    "columns without a file": (
        {"invariants": ", invariants: {wing: {columns: [floor], column: beds, reference: yearbook}}"},
        "columns without a file",
    ),
    "a column of no table": ({"invariants": with_margins().invariants.replace("floor]", "one]")}, "the column 'one'"),
    "no such file of totals": (
        {"invariants": with_margins().invariants.replace("floors.csv", "flats.csv")},
        "no file flats.csv",
    ),
    "no such column in the file of totals": (
        {
            "invariants": ", invariants: {hospital: {column: beds, reference: yearbook}, "
            "wing: {columns: [floor], file: floors.csv, column: beds, reference: yearbook}, "
            "ward: {columns: [insured], file: floors.csv, column: beds, reference: yearbook}}"
        },
        "no column 'insured'",
    ),
    "a further tree with another whole": (
        {"product": with_teams().product.replace("[hospital, team", "[clinic, team")},
        "the levels clinic, team, ward",
    ),
    "a level of two trees": (
        {"product": with_teams().product.replace("[hospital, team", "[hospital, wing")},
        "the level 'wing'",
    ),
    "a further tree without a file": (
        {"product": with_teams().product.replace("teams.csv", "crews.csv")},
        "no file crews.csv",
    ),
    "totals of a further tree": (
        {"product": with_teams().product, "invariants": with_totals().invariants.replace("wing", "team")},
        "the level 'team'",
    ),
    "a place where nobody can be": (
        {
            "privacy": with_totals().privacy.replace(
                "adjacency", "structural_zeros: [{ward: [surgery, children]}], adjacency"
            )
        },
        "the place 'north' with a total of",
    ),
    "another file": ({"product": without_totals().product.replace("places.csv", "other.csv")}, "other.csv"),
    "an unknown level": (
        {"invariants": ", invariants: {street: {column: beds, reference: yearbook}}"},
        "the level 'street'",
    ),
    "no column of totals": (
        {"invariants": ", invariants: {wing: {column: rooms, reference: yearbook}}"},
        "no column 'rooms'",
    ),
    "no smallest places": (
        {"product": without_totals().product.replace(", ward: 3", "")},
        "no measurement of 'floor_x_insured' at ward",
    ),
    "no delta": ({"delta": "0"}, "delta 0"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused_before_a_charge(tmp_path: Path, name: str):
    """Invariants need a public total and replace_one, and contradict neither each other nor a structural zero."""
    changed, found = REFUSED[name]
    scenario: SpineScenario = replace(with_totals(), **changed)
    with pytest.raises(SpecRefused, match=found):
        scenario.prepared_of(tmp_path, object)
    assert not (tmp_path / "ledger.sqlite").exists()


def test_a_plan_pins_the_places(tmp_path: Path):
    """The digest of the tree stands in the planned spec, and another tree is another spec."""
    without_totals().prepared_of(tmp_path, object)
    one = read_request(tmp_path / "spec.yaml").spec
    text = (tmp_path / "places.csv").read_text().replace("children,north", "children,south")
    (tmp_path / "places.csv").write_text(text)
    other = read_request(tmp_path / "spec.yaml").spec
    assert one.product.spine.sha256 != other.product.spine.sha256  # type: ignore[attr-defined]
    assert one.digest != other.digest
