"""Versions of statistics: what is published follows from what was drawn, and verifies, whatever the tables."""

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

from contracts.contract.odcs import load_contract
from contracts.errors import SpecRefused
from contracts.release.spec import load_spec
from privacy.accounting.events import event_from_json
from privacy.marginals.count_noise import half_width
from privacy.statistics.noise_sums import quantile
from tasks.products.product_kind import planning_of
from tests.tasks.verification.forgery import Json, load
from tests.worlds.statistics import StatisticsScenario, gaussian, of_tables, pure
from tests.worlds.versions import Version, Worlds, publish_version

CHILDREN_OF_75 = (pl.col("ward") == "children") & (pl.col("age") == "75 to 99")


@pytest.fixture(scope="module")
def version(worlds: Worlds) -> Version:
    return worlds.published(pure(), here=True)


@pytest.fixture(scope="module")
def units(worlds: Worlds) -> Version:
    return worlds.published(gaussian(), here=True)


def table(version: Version, name: str) -> pl.DataFrame:
    return pl.read_parquet(version.folder / "data" / f"{name}.parquet").with_columns(
        pl.col(pl.Categorical).cast(pl.String)
    )


def draw(version: Version, key: str) -> Json:
    """A draw as it is stated, and under "noisy" its numbers: a row a cell."""
    [found] = [each for each in load(version.folder / "record.json")["replay"]["draws"] if each["key"] == key]
    noisy = pq.read_table(version.folder / found["measurements"]).column("noisy").to_numpy()
    parts = found["shape"][-1] if found["kind"] == "cell_sums" else 1
    return {**found, "noisy": noisy.reshape(-1, parts)}


@pytest.mark.parametrize("name", ["version", "units"])
def test_a_version_verifies_by_all_rules(request: pytest.FixtureRequest, name: str):
    """Laplace and Gaussian noise, rows and units of three, both relations; deep has nothing more to estimate."""
    made: Version = request.getfixturevalue(name)
    for deep in (False, True):
        report = made.verify(deep=deep)
        assert report.ok, report.findings
        assert [check.rule for check in report.checks][:10] == list(range(1, 11))


OTHERS: dict[str, StatisticsScenario] = {
    "a count of all rows": of_tables("[{of: [count]}]"),
    "one mean of all rows": of_tables("[{by: [], of: [{mean: age}]}]"),
    "by what is added up": of_tables("[{by: [bill, age], of: [{sum: bill}, {mean: age}]}]"),
    "columns against the contract's order": of_tables("[{by: [insured, ward, age], of: [count]}]"),
    "the same cells three times": of_tables(
        "[{by: [ward], of: [count], weight: 0.001}, {by: [ward], of: [{mean: bill}], name: b, weight: 5}, "
        "{by: [ward], of: [{mean: bill, clip: [0, 10], step: 10}], name: c}]"
    ),
    "a public total": of_tables(
        "[{by: [ward], of: [count, {sum: bill}]}]",
        privacy="{unit: {kind: row, scope: block}, adjacency: replace_one, "
        'invariants: [{kind: total, value: 2000, reference: "yearbook"}]}',
    ),
    "nearly no noise, nearly nobody": of_tables("[{by: [floor], of: [count, {mean: bill}]}]", epsilon="15", rows=3),
}


@pytest.mark.parametrize("what", OTHERS)
def test_other_tables_verify(tmp_path: Path, what: str):
    publish_version(OTHERS[what], tmp_path).assert_verifies()


def test_shares_are_by_weight_and_draws_of_a_table_share_alike(version: Version, tmp_path: Path):
    """Losses of the draws: 2 of 5 for the first table; the third has two columns, a tenth each."""
    losses = {
        each["key"]: Fraction(each["event"]["inverse_scale"]) * sum(each["event"]["moves"])
        for each in load(version.folder / "record.json")["replay"]["draws"]
    }
    assert {key: float(loss) for key, loss in losses.items()} == pytest.approx(
        {
            **{"table:ward/age": 0.8, "table:bills/bill": 0.4, "table:all/bill": 0.2, "table:all/age": 0.2},
            "table:how many": 0.4,
        }
    )
    assert sum(losses.values()) <= 2


@pytest.mark.parametrize(("name", "key"), [("ward", "ward/age"), ("bills", "bills/bill")])
def test_counts_sums_and_means_follow_from_one_draw(version: Version, name: str, key: str):
    """By exact fractions from the noisy file: a second derivation of every estimate that nothing cuts."""
    drawn, published = draw(version, f"table:{key}"), table(version, name)
    low, high, step = (Decimal(drawn["addends"][end]) for end in ("low", "high", "step"))
    width, column = int((high - low) / step), drawn["addends"]["column"]
    event: Any = event_from_json(drawn["event"])
    error = quantile(event, [1 / width] * drawn["shape"][-1], 0.95)
    checked, cut = 0, "_clipped" if f"mean_{column}_clipped" in published.columns else ""
    for row, parts in zip(published.iter_rows(named=True), drawn["noisy"].tolist(), strict=True):
        above, below = parts[:2]
        count = Fraction(sum(parts), width)
        if min(parts[:2]) <= 0 or row["count"] == 0:
            continue
        checked += 1
        assert abs(row["count"] - count) <= Fraction(1, 2)
        assert row["count_low"] - 1 <= count - Fraction(error) <= row["count_low"]
        assert row["near_zero"] == (float(count) <= error)
        mean = Fraction(low) + Fraction(high - low) * Fraction(above, above + below)
        told, least, most = (row[f"mean_{column}{cut}{end}"] for end in ("", "_low", "_high"))
        error_of_rows = quantile(event, [1 / width] * 2, 0.95)
        assert (told is None) == (row["near_zero"] or (above + below) / width <= error_of_rows)
        if told is not None:
            assert abs(told - float(mean)) <= (most - least) / 2 / 1.96 / 20
            assert least <= told <= most
        if f"sum_{column}{cut}" in row:
            exact = (Fraction(high) * above + Fraction(low) * below) / width
            assert abs(Fraction(row[f"sum_{column}{cut}"]) - exact) <= Fraction(step) / 2
            assert Decimal(str(row[f"sum_{column}{cut}"])) % step == 0
    assert checked >= len(published) * 3 // 4


def test_published_numbers_lie_about_the_true_ones(version: Version):
    """Within ten half widths of 95 %: beyond that Laplace noise is in fewer than 1e-12 of releases."""
    rows = (
        pure()
        .frame()
        .with_columns(
            pl.col("age").clip(0, 99), pl.when(pl.col("ward") == "nowhere").then(None).otherwise("ward").alias("cell")
        )
    )
    age = rows.group_by("ward").agg(pl.len().alias("n"), pl.col("age").mean().alias("mean"))
    true = {row["ward"]: row for row in age.iter_rows(named=True)}
    for row in table(version, "ward").iter_rows(named=True):
        exact = true["nowhere" if row["ward"] == "(null)" else row["ward"]]
        assert abs(row["count"] - exact["n"]) <= 10 * max(1, row["count_high"] - row["count_low"])
        assert row["mean_age"] is not None
        assert abs(row["mean_age"] - exact["mean"]) <= 10 * (row["mean_age_high"] - row["mean_age_low"])


def test_a_cell_that_can_hold_nobody_says_so(version: Version):
    """Counts and sums 0, no mean, near zero, whatever was drawn for it."""
    [row] = table(version, "bills").filter(CHILDREN_OF_75).iter_rows(named=True)
    zeros = [f"{name}{end}" for name in ("count", "sum_bill_clipped") for end in ("", "_low", "_high")]
    assert {row[name] for name in zeros} == {0}
    assert {row[f"mean_bill_clipped{end}"] for end in ("_low", "", "_high")} == {None}
    assert row["near_zero"] is True
    measured = pl.read_parquet(version.folder / "measurements" / "0001-ward_x_age_x_bill.parquet")
    measured = measured.with_columns(pl.col("ward", "age").cast(pl.String))
    assert measured.filter(CHILDREN_OF_75)["structural_zero"].to_list() == [True, True]
    assert measured["structural_zero"].sum() == 2


def test_missing_values_are_counted_apart_or_as_the_contract_maps_them(version: Version):
    """Ages have a cell for missing ones, bills are mapped: three numbers a cell, and two."""
    ages, bills = draw(version, "table:all/age"), draw(version, "table:all/bill")
    assert (ages["shape"], bills["shape"]) == ([3], [2])
    rows = pure().frame()
    above, below, missing = ages["noisy"][0] / 18
    assert missing == pytest.approx(rows["age"].null_count(), abs=400)
    assert above + below == pytest.approx(rows["age"].len() - rows["age"].null_count(), abs=400)
    assert bills["noisy"][0].sum() / 9000 == pytest.approx(len(rows), abs=400)


def test_counts_alone_are_a_marginal_in_the_order_of_the_table(version: Version):
    drawn, published = draw(version, "table:how many"), table(version, "how many")
    assert (drawn["kind"], drawn["clique"]) == ("marginal", ["insured", "floor"])
    noisy, width = drawn["noisy"].reshape(-1), half_width(event_from_json(drawn["event"]), 0.95)  # type: ignore[arg-type]
    assert published.columns == ["insured", "floor", "count", "count_low", "count_high", "near_zero"]
    np.testing.assert_array_equal(published["count"], np.maximum(noisy, 0))
    np.testing.assert_array_equal(published["near_zero"], noisy <= width)


def test_csv_and_parts_hold_what_parquet_holds(version: Version, units: Version):
    for name in ("ward", "bills", "all", "how many"):
        whole = table(version, name)
        written = pl.read_csv(version.folder / "data" / f"{name}.csv", schema_overrides=whole.schema)
        assert written.equals(whole)
        parts = [path for path in units.files if path.startswith(f"data/{name}/")]
        assert parts == [f"data/{name}/part-00000.parquet"]
        part = pl.read_parquet(units.folder / parts[0])
        assert part.equals(pl.read_parquet(units.folder / "data" / f"{name}.parquet"))
    assert not [name for name in units.files if name.endswith(".csv")]


def test_units_of_three_rows_under_replace_one_move_six_widths(units: Version):
    for each in load(units.folder / "record.json")["replay"]["draws"]:
        width = 1
        if each["kind"] == "cell_sums":
            low, high, step = (Decimal(each["addends"][end]) for end in ("low", "high", "step"))
            width = int((high - low) / step)
        assert each["event"]["moves"] == [3 * width, 3 * width]


def test_the_record_tells_clip_step_and_what_intervals_say(version: Version):
    words = version.words
    told = {each["table"]: each for each in words["product.tables"]}
    assert told["bills"]["lattices"] == [{"column": "bill", "clip": "[0, 500]", "steps_of": "2.5"}]
    assert told["how many"]["lattices"] == "none"
    assert "95 % of releases" in words["product.intervals"]
    assert [each["columns"] for each in words["product.measured"]][:2] == ["age by ward", "bill by ward × age"]
    errors = {
        (each["table"], each["statistic"], str(each["rows"])): float(each["half_width_95"])
        for each in words["utility.expected_error"]
    }
    hundred, thousand = (errors["ward", "mean_age", rows] for rows in ("100", "1000"))
    assert thousand == pytest.approx(hundred / 10, rel=1e-3)
    assert "near_zero" in (version.folder / "record.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(("changed", "draws"), [({"epsilon": "1e-12"}, 5), ({"epsilon": "1e-11"}, 5)])
def test_an_epsilon_too_small_for_the_draws_is_refused_with_what_to_do(
    tmp_path: Path, changed: dict[str, str], draws: int
):
    """Before any data are touched; the steps count as well, since noise is calibrated to them."""
    with pytest.raises(SpecRefused) as refused:
        replace(pure(), **changed).run(tmp_path)  # type: ignore[arg-type]
    (finding,) = refused.value.findings
    assert finding.field == "charge.epsilon"
    assert finding.found == f"{changed['epsilon']} for {draws} draws"
    assert "take a larger `step:`" in finding.remedy
    assert not (tmp_path / "ledger.sqlite").exists()


def test_a_plan_is_a_function_of_spec_and_contract(tmp_path: Path):
    """No file of rows is there; its ε is at most the spec's, and needs grow with the cells."""
    spec, contract, plan, ledger = pure().prepared_of(tmp_path, object)
    ledger.close()
    planning = planning_of("statistics")
    again = planning.plan(load_spec(tmp_path / "spec.yaml"), load_contract(tmp_path / "contract.odcs.yaml"), None)
    assert again == (spec, plan)
    assert planning.planned_again(spec, contract, plan, None) == (spec, plan)  # type: ignore[arg-type]
    assert not (tmp_path / "stays.parquet").exists()
    assert 0 < planning.needs(plan).megabytes < 1
    assert planning.adapted_options(spec, 10) is None
