"""Statistics in the console: their plan in JSON and in print, and their versions shown, listed and compared."""

import io
import json
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest
from rich.console import Console

from benchmarks.orchestration import release_plainly
from console.comparison import _intervals
from console.products.statistics import BYTES_PER_NUMBER, MANY_KEYS, StatisticsProductView
from privacy.statistics.plan import StatisticsPlan
from tests.console.conftest import Place, Typed
from tests.worlds.distinct_counts import laplace as distinct
from tests.worlds.private_keys import counted_units, pure
from tests.worlds.statistic_kinds import quotas as quota
from tests.worlds.statistics import of_tables

WEIGHT = "{column: bill, clip: [0, 400], step: 2.5}"
WEIGHED = (
    f"[{{by: [ward], of: [count, {{mean: age}}], survey_weight: {WEIGHT}}}, {{by: [floor], of: [{{mean: age}}]}}]"
)


def planned(folder: Path, scenario: Any) -> tuple[StatisticsPlan, dict[str, Any], dict[str, str], str]:
    """The plan of a scenario: itself, as JSON, its facts and its draws in print."""
    spec, _, plan, ledger = scenario.prepared_of(folder, StatisticsPlan)
    ledger.close()
    view, printed = StatisticsProductView(), io.StringIO()
    payload = json.loads(json.dumps(view.plan_object(spec, plan)))
    view.print_draws(Console(file=printed, width=160), payload)
    return plan, payload, dict(view.plan_facts(payload)), printed.getvalue()


def shown(folder: Path, tables: str = WEIGHED) -> tuple[dict[str, Any], str]:
    folder.mkdir()
    _, payload, _, printed = planned(folder, of_tables(tables))
    return payload, printed


def test_a_plan_tells_what_a_large_weight_costs(tmp_path: Path):
    """At the clip, a half and a quarter of it; each is what a plan with that clip says of a count."""
    payload, printed = shown(tmp_path / "400")
    weighed, plain = payload["statistics"]
    assert "survey_weight" not in plain
    costs = {each["clip"]: each["half_width_95"] for each in weighed["survey_weight"]["counts"]}
    assert list(costs) == ["400", "200", "100"]
    for clip, width in costs.items():
        clipped, _ = shown(tmp_path / f"to {clip}", WEIGHED.replace("[0, 400]", f"[0, {clip}]"))
        first, _ = clipped["statistics"]
        (count, *_) = first["expected"]
        assert (count["statistic"], count["half_width_95"]) == ("count", pytest.approx(width, rel=1e-6))
    (line,) = [line for line in printed.splitlines() if "up to 200" in line]
    width, less = (float(part.replace(",", "")) for part in re.findall(r"±?([\d,.]*\d)(?=, which| of a cell)", line))
    assert width == pytest.approx(costs["200"], rel=0.01)
    assert less == pytest.approx(costs["400"] - costs["200"], rel=0.01)
    assert "ward: bill up to 400 hides a whole weight" in printed


def test_means_are_foretold_for_cells_of_a_weight(tmp_path: Path):
    """Weights reach the hundreds, so that cells of 10,000 people and more are told."""
    payload, printed = shown(tmp_path / "400")
    weighed, plain = payload["statistics"]
    found = [each for each in weighed["expected"] if each["statistic"] == "mean_age"]
    assert [each["rows"] for each in found] == [10_000, 100_000, 1_000_000]
    assert "weight 10,000" in printed
    other = [each for each in plain["expected"] if each["statistic"] == "mean_age"]
    assert [each["rows"] for each in other] == [100, 1000, 10_000]
    # 400 times the noise over 100 times the size.
    for some, each in zip(found, other, strict=True):
        assert some["half_width_95"] == pytest.approx(4 * each["half_width_95"], rel=0.01)


@pytest.mark.parametrize("of", ["count", "{quantiles: [0.5], of: age}", "{mean: age}"])
def test_half_the_clip_has_half_the_noise(tmp_path: Path, of: str):
    """Whatever the counts come of: the weight alone, a tree, or sums."""
    (table,) = shown(tmp_path / "t", f"[{{by: [ward], of: [{of}], survey_weight: {WEIGHT}}}]")[0]["statistics"]
    widths = [each["half_width_95"] for each in table["survey_weight"]["counts"]]
    assert widths == pytest.approx([widths[0], widths[0] / 2, widths[0] / 4], rel=0.05)


def test_a_weight_of_one_step_has_no_lower_clip(tmp_path: Path):
    weight = "{column: bill, clip: [0, 400], step: 400}"
    (table,) = shown(tmp_path / "t", f"[{{by: [ward], of: [count], survey_weight: {weight}}}]")[0]["statistics"]
    assert [each["clip"] for each in table["survey_weight"]["counts"]] == ["400"]


def test_a_plan_foretells_an_effective_size_and_what_it_costs(tmp_path: Path):
    """One draw more than the same table without it; the half width is of weights at a quarter of their clip."""
    without = f"[{{by: [ward], of: [count], survey_weight: {WEIGHT}}}]"
    (plain, _), (payload, printed) = (
        shown(tmp_path / "without", without),
        shown(tmp_path / "with", without.replace("[count]", "[count, {mean: age}, {effective_size: bill}]")),
    )
    assert [len(each["draws"]) for each in (plain, payload)] == [1, 2]
    (table,) = payload["statistics"]
    (size,) = [each for each in table["expected"] if each["statistic"] == "effective_size_bill"]
    (draw,) = [each for each in payload["draws"] if each["key"] == "table:ward/bill"]
    assert draw["event"]["moves"] == [160 * 160]
    # Two Laplace noises of scale b, each 8 times over 160 squared: 8 b z / 160^2 with exp(-z) (1 + z / 2) = 3.5 %.
    scale = 1 / Fraction(draw["event"]["inverse_scale"]) / 160**2
    assert size["half_width_95"] == pytest.approx(float(8 * scale) * 4.5367, rel=0.01)
    assert "rows" not in size
    assert "weights at a quarter of their clip" in printed


def test_units_and_distinct_values_are_shown_with_their_errors(tmp_path: Path):
    """In JSON and in print; where the noise is larger than all declared values, the plan says so."""
    _, payload, _, printed = planned(tmp_path, distinct())
    draws = {each["key"]: each for each in payload["draws"]}
    assert draws["table:ward/units"]["of"] == {"counts": "units", "declared_cells": True}
    # Epsilon 8 for four tables; three draws of this one: a unit in one cell, and three values.
    assert draws["table:every/units"]["expected_error"] == pytest.approx(2**0.5 * 2, rel=0.05)
    assert draws["table:every/distinct/age"]["expected_error"] == pytest.approx(2**0.5 * 6, rel=0.05)
    lines = printed.splitlines()
    assert sum("distinct_note" in line and "±" in line for line in lines) == 2
    (floors,) = [line for line in lines if "distinct_floor" in line]
    assert "all that is possible" in floors
    assert "any size" in floors


def test_a_plan_says_from_how_many_rows_on_a_key_is_published_and_how_wide_its_interval_is(tmp_path: Path):
    """No other draw counts: the table has the share of the selection, and one draw of different values beside."""
    _, payload, facts, printed = planned(tmp_path, counted_units())
    [selection] = payload["selections"]
    [table] = payload["statistics"]
    assert selection["counts"] == "rows"
    assert 0 < selection["units_for_half"] < selection["units_for_99_percent"]
    assert table["share"] == 1.0
    [count, *_] = table["expected"]
    assert (count["statistic"], count["half_width_95"] > 1) == ("count", True)
    assert facts["draws"] == "2 for 1 table"
    assert "with the counts of its rows" in facts["keys"]
    assert "rows is published in half of releases" in facts["keys"]
    assert "keys with their counts" in printed


QUANTILES = "[{by: [ward], of: [{mean: bill}, {quantiles: [0.025, 0.5], of: age, method: exponential}]}]"


def test_quantiles_are_shown_with_their_error_in_ranks(tmp_path: Path):
    """In JSON and in print; a mean beside them keeps its units and has no ranks."""
    _, payload, _, printed = planned(tmp_path, of_tables(QUANTILES))
    mean, tree = payload["draws"]
    assert (mean["key"], tree["key"]) == ("table:ward/bill", "table:ward/quantiles/age")
    assert tree["of"]["resolution"] == "1"
    assert tree["cells"] == mean["cells"] == 4
    assert tree["expected_error"] > mean["expected_error"] > 0
    expected = payload["statistics"][0]["expected"]
    ranked = {each["statistic"]: each["half_width_95"] for each in expected if each.get("ranks")}
    assert list(ranked) == ["q2.5_age", "q50_age"]
    assert [each["key"] for each in payload["choices"]] == ["table:ward/choice/age"]
    assert "quantiles of age: chosen by the exponential mechanism" in " ".join(printed.split())
    for name, width in ranked.items():
        (line,) = [line for line in printed.splitlines() if name in line]
        assert f"±{width:,.4g} in rank" in line
        assert "any size" in line
    assert not any("rank" in line for line in printed.splitlines() if "mean_bill" in line)


def test_a_quota_is_shown_with_its_interval_and_its_clip(tmp_path: Path):
    """In JSON and in print: the noise hides 400 of a patient, in place of three stays of 500."""
    _, payload, _, printed = planned(tmp_path, quota())
    drawn = next(each for each in payload["draws"] if each["key"] == "table:ward/bill")
    assert drawn["of"]["per_unit"] == "400"
    assert drawn["event"]["moves"] == [160]
    lines = printed.splitlines()
    assert sum("sum_bill" in line and "±" in line for line in lines) == 3
    (ward,) = [line for line in lines if "ward/bill" in line]
    assert "sum within a quota" in ward
    assert "[0, 500], 400 per unit" in ward


KEYS = "[{by: [insured, note], keys: private, of: [count, {mean: bill, clip: [0, 500], step: 2.5}]}]"


def test_keys_are_shown_with_their_share_and_what_many_of_them_take(tmp_path: Path):
    """The selection has half of the charge, as the one draw of its table; three labels and two numbers a key."""
    product = f"{{kind: statistics, mechanism: laplace, tables: {KEYS}}}"
    plan, payload, facts, printed = planned(tmp_path, replace(pure(), product=product))
    assert "for 50.0% of ε, and δ = " in facts["keys"]
    parts = plan.draws[0].shape[-1]
    assert parts in (2, 3)
    assert payload["megabytes_of_many_keys"] == -(-3 * parts * MANY_KEYS * BYTES_PER_NUMBER // 10**6)
    assert facts["of the keys"].startswith(f"about {payload['megabytes_of_many_keys']} MB of memory more for 10,000")
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    assert "insured_x_note/keys keys, by coins 50.0%" in lines
    assert "insured_x_note/bill sums [0, 500] 50.0%" in lines


MOMENTS = "[{by: [ward], of: [{variance: bill}, {sd: bill}]}, {by: [floor], of: [{sum: age, clip: [20, 80]}]}]"


def test_variances_and_sums_alone_are_shown_with_their_errors(tmp_path: Path):
    """In JSON and in print: a variance in cells of three sizes, a sum in a cell of any size; noise in rows."""
    _, payload, _, printed = planned(tmp_path, of_tables(MOMENTS, epsilon="0.5"))
    moments, alone = payload["draws"]
    assert (moments["key"], alone["key"]) == ("table:ward/bill", "table:floor/age")
    assert moments["of"]["whole"] == 9000**2
    assert alone["of"]["alone"] is True
    # A quarter of epsilon 1 for each table: three numbers of scale 4 rows, and one of 4 rows at the far end.
    assert moments["expected_error"] == pytest.approx((3 * 2) ** 0.5 * 4, rel=1e-3)
    assert alone["expected_error"] == pytest.approx(2**0.5 * 4, rel=1e-3)
    lines = printed.splitlines()
    assert sum("variance_bill" in line or "sd_bill" in line for line in lines) == 6
    assert any("sd_bill" in line and "100 rows" in line for line in lines)
    (line,) = [line for line in lines if "sum_age" in line]
    assert "any size" in line
    assert "the whole clip" not in printed


def test_a_table_without_counts_is_compared_by_its_intervals_too():
    """Two versions are compared statistic by statistic, whether cells are marked as perhaps empty or not."""
    names = ["floor", "sum_age", "sum_age_low", "sum_age_high"]
    assert _intervals(names) == [("sum_age", "sum_age_low", "sum_age_high")]
    assert _intervals([*names, "near_zero"]) == _intervals(names)
    assert _intervals(["floor", "count", "lower", "upper"]) == [("count", "lower", "upper")]


NAME = "adult-statistics"


@pytest.fixture(scope="module")
def twice(shared: Place) -> Place:
    spec = shared.adult / "statistics.yaml"
    for epsilon in ("0.5", "0.4"):
        changed: Path = shared.adult / f"statistics-{epsilon}.yaml"
        changed.write_text(spec.read_text().replace("epsilon: 0.5", f"epsilon: {epsilon}"))
        release_plainly(changed, shared.workspace.root, supersede=True)
    return shared


@pytest.mark.long
def test_a_version_is_shown_with_its_tables_statistics_and_files(twice: Place, typed: Typed):
    said = typed("releases", "show", NAME, "--version", "1", at=twice.workspace)
    assert said.code == 0
    for words in ("sex_x_race", "count, mean_hours-per-week", "data/education.parquet", "measurements/0001-"):
        assert words in said.out
    assert "refined" not in said.out


def test_each_statistic_of_two_versions_is_compared_with_its_interval(twice: Place, typed: Typed):
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
def test_the_auditor_compares_a_version_with_the_rows(twice: Place, typed: Typed):
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
