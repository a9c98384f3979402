"""Versions of adaptive tables: larger groups have more detail, and a stranger chooses and counts again."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tests.tasks.verification.forgery import edit_table, forge, load, set_cell
from tests.worlds.adaptive import of_patients, of_wards, without_delta
from tests.worlds.versions import Version, Worlds

FORGED = [
    ("data/ward.parquet", "count", 9),
    ("data/ward.parquet", "upper", 9),
    ("measurements/ward.levels.parquet", "noisy", 8),
    ("measurements/0000-ward.parquet", "noisy", 8),
]


@pytest.fixture(scope="module")
def wards(worlds: Worlds) -> Version:
    return worlds.published(of_wards(), here=True)


@pytest.fixture(scope="module")
def pure(worlds: Worlds) -> Version:
    return worlds.published(without_delta(), here=True)


@pytest.fixture(scope="module")
def patients(worlds: Worlds) -> Version:
    return worlds.published(of_patients(), here=True)


def table(version: Version, name: str) -> pl.DataFrame:
    return pl.read_parquet(version.folder / f"{name}.parquet").with_columns(pl.col(pl.Categorical).cast(pl.String))


@pytest.mark.long
@pytest.mark.parametrize("name", ["wards", "patients", "pure"])
def test_a_version_verifies_by_all_rules(request: pytest.FixtureRequest, name: str) -> None:
    """Both relations, both noises; deep has nothing more to estimate."""
    made: Version = request.getfixturevalue(name)
    for deep in (False, True):
        report = made.verify(deep=deep)
        assert report.ok, report.findings
        assert [check.rule for check in report.checks][:10] == list(range(1, 11))


def test_a_group_has_the_level_of_its_noisy_total_and_its_cells_add_up(wards: Version) -> None:
    """Thresholds 200 and 500; whole, not negative; an interval holds its count; a row has a label of each column."""
    rows = table(wards, "data/ward")
    totals = dict(table(wards, "measurements/0000-ward").select("ward", "noisy").iter_rows())
    wanted = {
        ward: {"total"} | ({"insured"} if 200 <= noisy < 500 else {"insured × floor"} if noisy >= 500 else set())
        for ward, noisy in totals.items()
    }
    assert {ward: set(own.get_column("level")) for (ward,), own in rows.group_by("ward")} == wanted
    assert len({frozenset(levels) for levels in wanted.values()}) > 1, "the example has one level"
    for (ward,), own in rows.group_by("ward"):
        (total,) = own.filter(pl.col("level") == "total").get_column("count")
        cells = own.filter(pl.col("level") != "total")
        assert cells.is_empty() or cells.get_column("count").sum() == total, ward
    assert rows.get_column("count").min() >= 0  # type: ignore[operator]
    assert rows.filter((pl.col("lower") > pl.col("count")) | (pl.col("upper") < pl.col("count"))).is_empty()
    alone = rows.filter(pl.col("level") == "total").select("insured", "floor").unique()
    assert alone.rows() == [("(all)", "(all)")]


def test_bins_and_structural_zeros_stand_in_every_level(patients: Version) -> None:
    """CSV and Parquet are the same table; rows of coarser levels have bins; impossible cells are exactly 0."""
    rows = table(patients, "data/ward_x_insured")
    copy = pl.read_csv(patients.folder / "data/ward_x_insured.csv", infer_schema=False)
    assert copy.equals(rows.select(pl.all().cast(pl.String)))
    levels = load(patients.folder / "record.json")["replay"]["tables"][0]["levels"]
    assert [level["name"] for level in levels] == ["total", "age (3)", "age (3) × floor", "age × floor"]
    assert sum(level["groups"] for level in levels) == rows.filter(pl.col("level") == "total").height
    assert (patients.folder / "data/ward_x_insured").is_dir()
    children = rows.filter((pl.col("ward") == "children") & (pl.col("age") == "75 to 99"))
    assert set(children.get_column("level")) == {"age × floor"}
    assert set(children.select("count", "lower", "upper").rows()) == {(0, 0, 0)}
    assert rows.filter((pl.col("ward") == "children") & (pl.col("age") == "50 to 99")).get_column("upper").min() > 0  # type: ignore[operator]


@pytest.mark.parametrize(("file", "column", "rule"), FORGED)
def test_another_number_is_found(wards: Version, tmp_path: Path, file: str, column: str, rule: int) -> None:
    """A cell that was changed and signed again is a finding of its rule."""
    forged = wards.copy(tmp_path / "forged")
    set_cell(forged.folder / file, column, 0, 12345)
    forge(forged)
    report = forged.verify()
    assert rule in {check.rule for check in report.checks if check.findings}, report.checks


def test_a_forged_choice_is_found(wards: Version, tmp_path: Path) -> None:
    """A record whose draw says that another level was chosen, and one that moves a threshold, do not verify."""

    def chosen(record: dict) -> None:  # type: ignore[type-arg]
        record["replay"]["draws"][1]["chosen"] = "0" * 64

    def least(record: dict) -> None:  # type: ignore[type-arg]
        record["replay"]["product"]["tables"][0]["adapt"]["thresholds"] = [200, 2000]
        record["replay"]["tables"][0]["levels"][2]["least"] = 2000

    for number, change in enumerate((chosen, least)):
        forged = wards.copy(tmp_path / f"forged{number}")
        forge(forged, record=change)
        report = forged.verify()
        assert 8 in {check.rule for check in report.checks if check.findings} or not report.ok, report.checks
        assert not report.ok


def test_rows_of_another_level_are_found(wards: Version, tmp_path: Path) -> None:
    """A group that is shown with less detail than its noisy total chose: its rows are missing."""
    forged = wards.copy(tmp_path / "forged")

    def coarser(rows: object) -> object:
        frame = pl.from_arrow(rows)
        largest = frame.filter(pl.col("level").cast(pl.String) != "total").get_column("ward")[0]  # type: ignore[union-attr]
        keep = (pl.col("ward") != largest) | (pl.col("level").cast(pl.String) == "total")
        return frame.filter(keep).to_arrow()  # type: ignore[union-attr]

    edit_table(forged.folder / "data/ward.parquet", coarser)  # type: ignore[arg-type]
    forge(forged)
    report = forged.verify()
    assert any(finding.where == "data/ward.parquet" for finding in report.findings), report.findings
