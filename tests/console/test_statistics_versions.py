"""Versions of statistics in the console: shown, listed with their files, and compared."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from benchmarks.orchestration import release_plainly
from tests.console.conftest import Place, Typed

NAME = "adult-statistics"


@pytest.fixture(scope="module")
def twice(shared: Place) -> Place:
    """A release of statistics with two versions."""
    spec = shared.adult / "statistics.yaml"
    for epsilon in ("0.5", "0.4"):
        changed: Path = shared.adult / f"statistics-{epsilon}.yaml"
        changed.write_text(spec.read_text().replace("epsilon: 0.5", f"epsilon: {epsilon}"))
        release_plainly(changed, shared.workspace.root, supersede=True)
    return shared


@pytest.mark.long
def test_a_version_is_shown_with_its_tables_statistics_and_files(twice: Place, typed: Typed) -> None:
    said = typed("releases", "show", NAME, "--version", "1", at=twice.workspace)
    assert said.code == 0
    for words in ("sex_x_race", "count, mean_hours-per-week", "data/education.parquet", "measurements/0001-"):
        assert words in said.out
    assert "refined" not in said.out


def test_each_statistic_of_two_versions_is_compared_with_its_interval(twice: Place, typed: Typed) -> None:
    """Differences have intervals from end to end; noisy sums in steps, of which the tables tell all, are left out."""
    told = typed("releases", "diff", NAME, "1", "2", "--json", at=twice.workspace).json["tables"]
    assert [(each["file"], each["statistic"]) for each in told] == [
        ("data/education.parquet", "sum_capital-gain"),
        ("data/education.parquet", "mean_capital-gain"),
        ("data/sex_x_race.parquet", "count"),
        ("data/sex_x_race.parquet", "mean_hours-per-week"),
    ]
    assert told[2]["columns"] == ["sex", "race"]
    for each in told:
        for row in each["rows"]:
            assert row["low"] <= row["difference"] <= row["high"]
            assert row["difference"] == pytest.approx(row["second"] - row["first"], abs=2e-6)
    assert "mean_hours-per-week" in typed("releases", "diff", NAME, "1", "2", at=twice.workspace).out


@pytest.mark.long
def test_the_auditor_compares_a_version_with_the_rows(twice: Place, typed: Typed) -> None:
    """Numbers are private: written into the workspace, and printed with --show alone; nothing is charged."""
    version, source = twice.workspace.releases / NAME / "v1", twice.adult / "adult.parquet"
    quiet = typed("evaluate", str(version), "--against", str(source), at=twice.workspace)
    assert quiet.code == 0, quiet.err
    assert "not shown here" in quiet.out
    said = typed("evaluate", str(version), "--against", str(source), "--show", "--json", at=twice.workspace)
    assert said.json["class"] == "private"
    count = said.json["found"]["tables"]["sex_x_race"]["count"]
    assert count["cells"] == 10
    assert 0 < count["rmse"] < 100
    worst = duckdb.sql(f"SELECT sex, race, count(*) FROM '{source}' GROUP BY 1, 2").fetchall()
    exact = {(sex, race): number for sex, race, number in worst}
    assert {tuple(cell["labels"]): cell["exact"] for cell in count["worst"]} == exact
    page = Path(said.json["page"])
    assert page.is_relative_to(twice.workspace.private)
    assert "mean_hours-per-week" in page.read_text()
    refused = typed("evaluate", str(version), "--against", str(source), "--target", "income", at=twice.workspace)
    refused.assert_ended(2, "statistics have no rows")
