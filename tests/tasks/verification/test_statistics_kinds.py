"""Versions of each kind of statistic: they verify, what they say follows from what was drawn, and pages tell it."""

import re
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from contracts.domains.addends import WeightedCount
from contracts.release.statistics import StatisticsProduct
from privacy.refine.negative_l2 import negative_l2
from privacy.refine.simplex import round_to_total
from tasks.records.draws.draws import AddendsStatement
from tests.tasks.verification.forgery import Json, load
from tests.worlds import distinct_counts
from tests.worlds import statistic_kinds as kinds
from tests.worlds.private_keys import COMMON, KeyScenario
from tests.worlds.statistic_kinds import under_both
from tests.worlds.statistics import StatisticsScenario, three_rows
from tests.worlds.versions import Version, Worlds


def replayed(version: Version) -> Json:
    found: Json = load(version.folder / "record.json")["replay"]
    return found


def rows_of(version: Version, name: str) -> pl.DataFrame:
    return pl.read_parquet(version.folder / f"data/{name}.parquet")


@pytest.fixture(scope="module")
def suppressing(worlds: Worlds) -> Version:
    return worlds.published(kinds.suppressed())


@pytest.fixture(scope="module")
def refined(worlds: Worlds) -> Version:
    return worlds.published(kinds.refined())


@pytest.mark.long
@under_both("clips")
def test_a_version_with_private_clips_verifies_and_says_what_they_cost(worlds: Worlds, scenario: StatisticsScenario):
    version = worlds.published(scenario)
    version.assert_verifies()
    draws = {each["key"]: each for each in replayed(version)["draws"]}
    ages, bills = "clip:age/1", "clip:bill/2.5"
    assert list(draws)[:2] == [ages, bills]
    clips = replayed(version)["clips"]
    assert [(each["draw"], each["histogram"]) for each in clips] == [
        *(("table:ward/age", ages), ("table:all/bill", bills), ("table:insured/bill", bills))
    ]
    for clip, told in zip(clips, version.words["product.clips"], strict=True):
        addends = draws[clip["draw"]]["addends"]
        assert (addends["low"], addends["high"]) == (clip["low"], clip["high"])
        assert told["clip"] == f"[{clip['low']}, {clip['high']}]"
        assert (told["rows"], told["rows_below"], told["rows_above"]) == (clip["rows"], clip["below"], clip["above"])
        assert told["outside"].startswith("about ")
    page = (version.folder / "record.html").read_text(encoding="utf-8")
    assert "found in a noisy histogram of all rows" in page
    values = pq.read_table(version.folder / "data/ward.parquet").to_pydict()
    low, high = (float(clips[0][end]) for end in ("low", "high"))
    assert all(mean is None or low <= mean <= high for mean in values["mean_age_clipped"])


@pytest.mark.long
def test_a_table_of_few_rows_keeps_the_whole_bounds(tmp_path: Path, worlds: Worlds):
    """Nothing is found among three rows; other noise than this may make them look like many."""
    version = worlds.published(replace(kinds.clips(), rows=3, release="few"))
    assert version.verify().ok
    ends = [(each["low"], each["high"]) for each in replayed(version)["clips"]]
    assert ends == [("0", "99"), ("0", "900"), ("0", "900")]


@pytest.mark.long
@under_both("weights")
def test_a_version_with_weights_verifies(worlds: Worlds, scenario: StatisticsScenario):
    """All rules; the moves of each draw are those of rows that weigh the largest weight."""
    version = worlds.published(scenario)
    version.assert_verifies()
    draws = replayed(version)["draws"]
    sides = [1] if scenario.delta == "0" else [3, 3]
    assert [each["event"]["moves"] for each in draws] == [
        [k * 1800 * 99 for k in sides],
        [k * 160 for k in sides],
        [k * 99 * 9 for k in sides],
        [k * 9 for k in sides * (len(draws[3]["event"]["moves"]) // len(sides))],
    ]
    assert draws[0]["addends"]["weight"]["column"] == "age"
    assert draws[1]["addends"]["counts_rows"] is True


def test_weighted_statistics_follow_from_the_noisy_numbers(worlds: Worlds):
    """A second derivation by exact fractions of every estimate that nothing cuts."""
    folder = worlds.published(kinds.weights()).folder
    rows = pq.read_table(folder / "data/ward.parquet").to_pylist()
    noisy = (
        pq.read_table(folder / "measurements/0000-ward_x_bill.parquet")
        .column("noisy")
        .to_numpy()
        .reshape(len(rows), -1)
        .tolist()
    )
    for row, (above, below) in zip(rows, noisy, strict=True):
        assert abs(row["count"] - Fraction(above + below, 1800)) <= Fraction(1, 2)
        off = (row["mean_bill_high"] - row["mean_bill_low"]) / 3.92 / 20  # half of a tenth of the standard error
        assert row["mean_bill"] == pytest.approx(900 * above / (above + below), abs=off)
        assert row["sum_bill"] == pytest.approx(above / 2, abs=0.26)
    wards = pq.read_table(folder / "data/wards.parquet").to_pylist()
    measured = pq.read_table(folder / "measurements/0001-ward_x_age_x_bill.parquet")
    noisy, zeros = (measured[name].to_pylist() for name in ("noisy", "structural_zero"))
    assert [row["count"] for row in wards] == [
        0 if zero else max(0, each) * 2.5 for each, zero in zip(noisy, zeros, strict=True)
    ]


def test_weighted_numbers_are_near_those_of_the_rows(worlds: Worlds):
    """Weighted sums of the frame itself, clipped and rounded, lie within 20 deviations of what is published."""
    scenario = kinds.weights()
    version, frame = worlds.published(scenario), scenario.frame()
    age = np.clip(frame["age"].fill_null(0).to_numpy(), 0, 99)
    bill = np.clip(np.nan_to_num(frame["bill"].to_numpy()), 0, 900)
    bill, ward = np.round(bill * 2) / 2, frame["ward"].to_numpy()
    for row in pq.read_table(version.folder / "data/ward.parquet").to_pylist():
        here = ward == row["ward"] if row["ward"] != "(null)" else ward == "nowhere"
        if row["ward"] != "children":  # ages from 75 on are excluded there
            assert abs(row["count"] - age[here].sum()) < 10 * (row["count_high"] - row["count_low"])
            assert abs(row["sum_bill"] - (age * bill)[here].sum()) < 10 * (row["sum_bill_high"] - row["sum_bill_low"])
    (everybody,) = pq.read_table(version.folder / "data/all.parquet").to_pylist()
    weights = np.clip(np.floor(np.nan_to_num(frame["bill"].to_numpy()) / 100 + 0.5), 0, 9) * 100
    wide = everybody["count_high"] - everybody["count_low"]
    assert abs(everybody["count"] - weights.sum()) < 10 * wide


def test_the_record_says_by_what_rows_are_weighed(worlds: Worlds):
    words = worlds.published(kinds.weights()).words
    tables = words["product.tables"]
    assert [each["survey_weight"]["column"] for each in tables] == ["age", "bill", "bill"]
    assert tables[1]["survey_weight"] == {"column": "bill", "clip": "[0, 400]", "steps_of": "2.5"}
    assert any("as often as its weight says" in each for each in words["product.known_bias"])
    errors = [each for each in words["utility.expected_error"] if each["statistic"] == "mean_bill"]
    assert [each["rows"] for each in errors] == [1000, 10_000, 100_000]
    page = (worlds.published(kinds.weights()).folder / "record.html").read_text()
    assert "every row counts as often as age says: weights above 99 count as 99" in page
    assert "in a cell of weight 10,000" in page
    assert "bill, up to 400: counts are sums of it" in page


def test_a_count_alone_is_read_as_it_was_stated(worlds: Worlds):
    """The statement gives the addends again, with the numbers of their lattice."""
    stated = replayed(worlds.published(kinds.weights()))["draws"][1]["addends"]
    addends = AddendsStatement.model_validate(stated).addends
    assert isinstance(addends, WeightedCount)
    assert (addends.weight.high, addends.weight.step, addends.weight.width) == (400, Decimal("2.5"), 160)


@pytest.mark.long
def test_a_version_with_sizes_verifies_and_they_are_near_those_of_the_rows(worlds: Worlds):
    """Intervals are about the noise: that of all rows holds the size of the frame, or is 10 times too narrow."""
    version, frame = worlds.published(kinds.sizes()), kinds.sizes().frame()
    version.assert_verifies()
    draws = replayed(version)["draws"]
    assert [each["event"]["moves"] for each in draws] == [[99 * 99], [1800 * 99], [160 * 160]]
    weights = np.floor(np.clip(np.nan_to_num(frame["bill"].to_numpy()), 0, 400) / 2.5 + 0.5)
    (row,) = pq.read_table(version.folder / "data/all.parquet").to_pylist()
    assert list(row) == [*(f"effective_size_bill{end}" for end in ("", "_low", "_high")), "near_zero"]
    true = weights.sum() ** 2 / (weights**2).sum()
    low, size, high = (row[f"effective_size_bill{end}"] for end in ("_low", "", "_high"))
    assert low <= size <= high
    assert abs(size - true) < 10 * (high - low) < 5 * true
    rows = pq.read_table(version.folder / "data/ward.parquet").to_pylist()
    assert all(row["effective_size_age_low"] <= row["effective_size_age"] for row in rows)


def test_the_record_and_the_page_say_what_an_effective_size_is(worlds: Worlds):
    version = worlds.published(kinds.sizes())
    tables, errors = (version.words[name] for name in ("product.tables", "utility.expected_error"))
    assert "effective_size_age" in tables[0]["statistics"]
    assert sum(each["statistic"].startswith("effective") for each in errors) == 2
    assert any("effective sample sizes are of the clipped" in each for each in version.words["product.known_bias"])
    page = (version.folder / "record.html").read_text()
    assert "effective sample size" in page
    assert "where weights are about a quarter of their clip" in page


DISTINCT = (distinct_counts.laplace, distinct_counts.gaussian, distinct_counts.of_keys)


@pytest.mark.long
@pytest.mark.parametrize("scenario", DISTINCT)
def test_a_version_with_distinct_values_verifies_by_all_rules(worlds: Worlds, scenario: Callable[[], KeyScenario]):
    """Both adjacencies, texts and declared columns, a survey weight and selected keys beside."""
    report = worlds.published(scenario()).verify(deep=True)
    assert report.ok, report.findings
    assert not [check for check in report.checks if check.skipped]


@pytest.mark.long
@pytest.mark.parametrize("scenario", DISTINCT[:2])
def test_published_numbers_are_possible_ones(worlds: Worlds, scenario: Callable[[], KeyScenario]):
    """Whole, between 0 and what the contract declares, the estimate within its interval; excluded cells are 0."""
    version = worlds.published(scenario())
    sizes = {"floor": 3, "age": 100, "bill": 9001, "arrived": 4, "ward": 3}
    most = {f"distinct_{name}": size for name, size in sizes.items()}
    seen = set()
    for path in (version.folder / "data").glob("*.parquet"):
        table = pl.read_parquet(path)
        for name in [each for each in table.columns if each in most or each in ("units", "distinct_note")]:
            value, low, high = (table[f"{name}{end}"] for end in ("", "_low", "_high"))
            assert {each.dtype for each in (value, low, high)} == {pl.Int64}
            assert ((low >= 0) & (low <= value) & (value <= high)).all()
            assert (high <= most.get(name, 10**9)).all()
            seen.add(name)
        if path.stem == "zeros":
            assert "near_zero" not in table.columns  # nothing of it counts rows
            (empty,) = [
                r for r in table.rows(named=True) if r["ward"] == "children" and str(r["age"]).startswith("75")
            ]
            assert {empty[name] for name in table.columns[2:]} == {0}
    assert seen == {*most, "units", "distinct_note"}


def test_keys_have_their_units_and_the_notes_of_other_tables_are_told_apart(worlds: Worlds):
    """A selected key is one text; the cell of all others has many, that of missing ones none.

    stat: epsilon 8 in 5 draws and a selection: the scale of a number is at most 3 / 0.66 < 5, and 100 of it is
    exceeded with probability below 1e-8.
    """
    version = worlds.published(distinct_counts.of_keys())
    [path] = (version.folder / "data").glob("insured*.parquet")
    table = pl.read_parquet(path).with_columns(pl.col(pl.Categorical).cast(pl.String))
    assert set(table["note"]) == {*(text.strip() for text in COMMON), "(others)", "(null)"}
    for row in table.rows(named=True):
        assert row["distinct_note"] <= 101 or row["note"] == "(others)"
        assert row["units_low"] <= row["count_high"] + 100
    assert table.filter(pl.col("note") == "(others)")["distinct_note"].max() > 200  # type: ignore[operator]
    wards = rows_of(version, "ward")
    assert (wards["distinct_note"] > 10).sum() == 4  # each ward has some of hundreds of notes
    events = {each["key"]: each["event"] for each in replayed(version)["draws"]}
    units = "table:insured_x_note/units"
    assert events[units]["moves"] == [1, 1, 1]  # how many cells there will be, nobody knows before


def test_pages_say_what_was_told_apart(worlds: Worlds):
    """Each statistic by its name, what is a value, and what is known to be wrong."""
    page = " ".join((worlds.published(distinct_counts.laplace()).folder / "record.html").read_text().split())
    for words in (
        "<b>privacy units</b>",
        "<b>different values of note</b>",
        "the at most 3 rows",
        "at most 40 bytes",
    ):
        assert words in page


@pytest.mark.long
@under_both("moments")
def test_a_version_with_variances_and_sums_alone_verifies(worlds: Worlds, scenario: StatisticsScenario):
    version = worlds.published(scenario)
    version.assert_verifies()
    wards = rows_of(version, "ward")
    assert wards["variance_age"].is_between(0, 99**2 / 4).all()
    assert (wards["variance_age_low"] <= wards["variance_age"]).all()
    assert (wards["variance_age"] <= wards["variance_age_high"]).all()
    every = rows_of(version, "all")
    for end in ("", "_low", "_high"):
        roots = every[f"variance_bill_clipped{end}"].sqrt().to_list()
        assert every[f"sd_bill_clipped{end}"].to_list() == pytest.approx(roots, rel=0.05)


def test_where_nothing_counts_rows_no_cell_is_called_empty(worlds: Worlds):
    """A sum alone has no count beside it; another column's sum, or a variance, brings one."""
    version = worlds.published(kinds.moments())
    found = {path.stem: pl.read_parquet(path).columns for path in (version.folder / "data").glob("*.parquet")}
    assert found["only"] == ["floor", *(f"sum_age_clipped{end}" for end in ("", "_low", "_high"))]
    assert all(columns[-1] == "near_zero" for name, columns in found.items() if name != "only")


def test_cells_that_hold_nobody_have_no_deviation_and_no_quantile(worlds: Worlds):
    """Ages from 75 on are excluded among children."""
    for scenario, missing in ((kinds.moments(), "sd_bill"), (kinds.trees(), "q50_bill")):
        rows = rows_of(worlds.published(scenario), "zeros").rows(named=True)
        (empty,) = [row for row in rows if row["ward"] == "children" and str(row["age"]).startswith("75")]
        assert [empty[f"{missing}{end}"] for end in ("_low", "", "_high")] == [None, None, None]
        assert empty["near_zero"]
        assert {empty[f"sum_bill{end}"] for end in ("_low", "", "_high") if "sum_bill" in empty} <= {0}
    assert "sum_bill" in rows_of(worlds.published(kinds.moments()), "zeros").columns


@pytest.mark.long
@pytest.mark.parametrize("scenario", [kinds.quotas(), three_rows(kinds.QUOTAS), kinds.quotas_of_rows()])
def test_a_version_with_quotas_verifies_and_says_its_quotas(worlds: Worlds, scenario: StatisticsScenario):
    version = worlds.published(scenario)
    version.assert_verifies()
    stated = [draw.get("addends", {}).get("per_unit") for draw in replayed(version)["draws"]]
    assert [each for each in stated if each is not None] == ["400", "70", "300", "100"]
    assert "near_zero" in rows_of(version, "ward").columns


@pytest.mark.long
def test_selected_keys_have_sums_within_quotas_too(worlds: Worlds):
    version = worlds.published(kinds.quotas_of_keys())
    version.assert_verifies()
    found = {name: rows_of(version, name) for name in ("note", "ward")}
    sums = [each["sum_bill_clipped"].sum() for each in found.values()]
    # At an epsilon of 8 each has noise of a few thousand; some 350,000 are left of 800,000.
    assert found["note"]["note"].is_in(["broken arm", "(others)"]).sum() == 2
    assert abs(sums[0] - sums[1]) < 100_000 < min(sums)


@pytest.mark.long
@under_both("trees")
def test_a_version_with_quantiles_verifies(worlds: Worlds, scenario: StatisticsScenario):
    version = worlds.published(scenario)
    version.assert_verifies()
    table = pq.read_table(version.folder / "data/ward.parquet").to_pydict()
    for name in ("q10_age", "q50_age", "q97.5_age"):
        for low, value, high in zip(table[f"{name}_low"], table[name], table[f"{name}_high"], strict=True):
            assert 0 <= low <= value <= high <= 99
            assert value == int(value)
    assert [each["resolution"] for each in version.words["product.tables"][1]["lattices"]] == ["12.5"]


@pytest.mark.long
@under_both("choices")
def test_a_version_with_chosen_quantiles_verifies(worlds: Worlds, scenario: StatisticsScenario):
    """The published values are the chosen ones, within their intervals; the median stands under its own name."""
    version = worlds.published(scenario)
    version.assert_verifies()
    table = pq.read_table(version.folder / "data/ward.parquet").to_pydict()
    draws = [draw for draw in version.words["ledger.draws"] if draw["event"]["kind"] == "exponential_mechanism"]
    assert [draw["quantiles"] for draw in draws] == [["0.1", "0.5", "0.975"], ["0.25"]]
    [draw] = [draw for draw in replayed(version)["draws"] if draw["key"] == "table:ward/choice/age"]
    chosen = pl.read_parquet(version.folder / draw["measurements"])
    for name in ("q10", "q50", "q97.5"):
        own = chosen.filter(pl.col("part") == name)["chosen"].to_list()
        low, high = table[f"{name}_age_low"], table[f"{name}_age_high"]
        shown = zip(table[f"{name}_age"], own, low, high, strict=True)
        assert all(value is None or value == min(max(each, least), most) for value, each, least, most in shown)


@pytest.mark.parametrize("scenario", [kinds.shares(), kinds.shares("gaussian")], ids=["laplace", "gaussian"])
def test_a_version_with_optimal_shares_verifies(worlds: Worlds, scenario: StatisticsScenario):
    version = worlds.published(scenario)
    version.assert_verifies()
    assert replayed(version)["product"]["split"] == "optimal"


@pytest.mark.long
@pytest.mark.parametrize("scenario", [kinds.suppressed(), kinds.suppressed_units()], ids=["laplace", "gaussian"])
def test_a_version_with_suppressed_cells_verifies(worlds: Worlds, scenario: StatisticsScenario):
    worlds.published(scenario).assert_verifies(deep=True)


def test_nothing_of_a_suppressed_cell_is_published(suppressing: Version):
    """Its statistics are missing in data and CSV, its noisy numbers in measurements; the others are all there."""
    data = pq.read_table(suppressing.folder / "data/ward_x_age.parquet")
    gone = data.column("suppressed").to_numpy()
    assert 0 < gone.sum() < len(gone)
    for column in data.column_names[2:-1]:
        missing = data.column(column).is_null().to_numpy()
        if not column.startswith("mean_"):
            np.testing.assert_array_equal(missing, gone)
        assert missing[gone].all()
    lines = (suppressing.folder / "data/ward_x_age.csv").read_text().splitlines()[1:]
    assert [line.endswith("," * 11 + "true") for line in lines] == gone.tolist()
    impossible, small = [], []
    for draw in ("0000-ward_x_age_x_age", "0001-ward_x_age_x_bill"):
        measured = pq.read_table(suppressing.folder / f"measurements/{draw}.parquet")
        hidden = measured.column("suppressed").to_numpy()
        for column in ("noisy", "lower", "upper"):
            np.testing.assert_array_equal(measured.column(column).is_null().to_numpy(), hidden)
        parts = len(hidden) // len(gone)
        small.append(hidden.reshape(-1, parts))
        impossible = measured.column("structural_zero").to_numpy().reshape(-1, parts)[:, 0]
        assert (small[-1] == small[-1][:, :1]).all()
    expected = np.logical_or.reduce([each[:, 0] for each in small]) & ~np.asarray(impossible)
    np.testing.assert_array_equal(gone, expected)


def test_published_cells_are_those_of_many_rows(suppressing: Version):
    """Of the cells by insurance and floor six have hundreds of rows, and three have none: those are gone."""
    data = rows_of(suppressing, "how many")
    assert data.filter(pl.col("suppressed"))["insured"].cast(pl.String).to_list() == ["(null)"] * 3
    assert data["count"].min() >= 100  # type: ignore[operator]
    measured = pl.read_parquet(suppressing.folder / "measurements/0002-insured_x_floor.parquet")
    assert measured.filter(pl.col("suppressed"))["noisy"].to_list() == [None] * 3


def test_record_and_page_say_what_the_rule_is(suppressing: Version):
    told: list[Json] = suppressing.words["product.tables"]
    rules = {each["table"]: each["minimum_frequency"] for each in told}
    assert {name: [each["draw"] for each in rule["draws"]] for name, rule in rules.items()} == {
        "ward_x_age": ["table:ward_x_age/age", "table:ward_x_age/bill"],
        "how many": ["table:how many"],
        "spread": ["table:spread/age", "table:spread/bill"],
    }
    for rule in rules.values():
        assert all(each["threshold"] == 100 + each["t"] < rule["mostly_published_from"] for each in rule["draws"])
        assert 0 < float(rule["published_although_below_k"]) <= 0.01
    assert any("suppressed by their noisy counts" in words for words in suppressing.words["product.known_bias"])
    page = (suppressing.folder / "record.html").read_text(encoding="utf-8")
    gone = int(rows_of(suppressing, "ward_x_age")["suppressed"].sum())
    assert f"Cells suppressed by the minimum-frequency rule: {gone} of 16" in page
    assert "suppressed by their noisy counts" in page


@pytest.mark.long
@pytest.mark.parametrize("scenario", [kinds.refined(), kinds.refined_total()], ids=["laplace", "public total"])
def test_refined_counts_have_one_total_and_the_version_verifies(worlds: Worlds, scenario: StatisticsScenario):
    """Weighted tables have a total of their own; a table that publishes no count has none to refine."""
    made = worlds.published(scenario)
    made.assert_verifies(deep=True)
    counts = [rows_of(made, name)["count_refined"] for name in ("ward_x_age", "many", "ward", "all", "insured")]
    assert all((each >= 0).all() for each in counts)
    totals = [each.sum() for each in counts]
    assert totals[0] == totals[1] == totals[2]
    assert totals[3] == totals[4]
    assert totals[3] % 4.5 == 0
    assert "count_refined" not in rows_of(made, "floor").columns
    if scenario.release == "yearbook":
        assert totals[0] == 2000


def test_counts_alone_are_refined_as_those_of_tables(refined: Version):
    """A second derivation: the projection of the noisy whole counts themselves, rounded to the total."""
    found = rows_of(refined, "many")["count_refined"].to_numpy()
    noisy = pl.read_parquet(next((refined.folder / "measurements").glob("*-insured_x_floor.parquet")))["noisy"]
    total = int(found.sum())
    projected = negative_l2(noisy.to_numpy(), float(total), lambda_=0.02)
    np.testing.assert_array_equal(found, round_to_total(projected, total))


def test_an_excluded_cell_stays_empty_and_noisy_counts_stay_as_they_are(refined: Version):
    rows = rows_of(refined, "ward_x_age").with_columns(pl.col("ward", "age").cast(pl.String))
    (empty,) = rows.filter((pl.col("ward") == "children") & (pl.col("age") == "75 to 99")).rows(named=True)
    assert (empty["count"], empty["count_refined"]) == (0, 0)
    assert (rows["count"] != rows["count_refined"]).any()


def test_record_and_page_say_how_counts_are_refined(refined: Version):
    steps = {each["table"]: " ".join(each["steps"]) for each in refined.words["product.tables"]}
    assert "method negative_l2, lambda 0.02" in steps["many"]
    assert "refined" not in steps["floor"]
    page = (refined.folder / "record.html").read_text(encoding="utf-8")
    total = int(rows_of(refined, "many")["count_refined"].sum())
    assert f"Refined counts (count_refined) add up to: {total:,}" in page


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ({"refine": {"method": "negative_l2", "lambda": "auto"}}, "lambda: NUMBER"),
        ({"refine": {"method": "empirical_bayes"}}, "method: simplex"),
        ({"refine": {"method": "simplex"}, "tables": [{"by": [], "of": [{"mean": "age"}]}]}, "a table with count"),
        ({"refine": {"method": "simplex"}, "minimum_frequency": {"k": 3, "t": 0}}, "one of the two"),
    ],
)
def test_what_cannot_be_refined_is_refused_with_words(written: dict[str, Any], says: str):
    tables = [{"by": ["ward"], "of": ["count"]}]
    with pytest.raises(ValidationError, match=re.escape(says)):
        StatisticsProduct.model_validate({"kind": "statistics", "tables": tables, **written})
