"""The page of statistics: its numbers are those of the files, and nothing that is published is left unnamed."""

import re
from html import unescape
from io import BytesIO
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.contract.contract import Contract
from tasks.records.page.language import languages, page_name
from tasks.records.page.page import prepare
from tasks.records.page.statistics_view import IMPOSSIBLE, PERHAPS_EMPTY, TOO_FEW, StatisticsView
from tasks.records.page.statistics_words import readable
from tasks.records.record import published_explanation
from tests.tasks.verification.forgery import forge, load
from tests.worlds.statistics import of_tables, pure
from tests.worlds.versions import Version, Worlds, broken, named

MANY = """[
  {by: [age, ward, arrived, left], of: [{mean: bill}, count]},
  {by: [ward, left, age], of: [{sum: bill}, {mean: bill, clip: [0, 900]}]},
  {by: [left, arrived, age], of: [{sum: age}]}]"""
NARROW = "[{by: [one], of: [{mean: bill}]}, {by: [ward], of: [{mean: age}]}]"


@pytest.fixture(scope="module")
def costs(worlds: Worlds) -> Version:
    return worlds.published(pure(), here=True)


@pytest.fixture(scope="module")
def many(worlds: Worlds) -> Version:
    return worlds.published(of_tables(MANY, release="many"), here=True)


def shown(version: Version) -> list[StatisticsView]:
    explanation = published_explanation(lambda name: (version.folder / name).read_bytes())
    views = prepare(explanation, lambda name: (version.folder / name).read_bytes()).tables
    assert all(isinstance(view, StatisticsView) for view in views)
    return [view for view in views if isinstance(view, StatisticsView)]


def contract_of(version: Version) -> Contract:
    return Contract.model_validate(load(version.folder / "record.json")["replay"]["contract"])


def data_of(version: Version, view: StatisticsView) -> pl.DataFrame:
    """The published file of a table, with the row-major number of each row."""
    [path] = [path for path in view.files if path.startswith("data/") and path.endswith(".parquet")]
    return pl.read_parquet(BytesIO((version.folder / path).read_bytes())).with_row_index("cell")


def numbers(text: str) -> list[float]:
    return [float(part.replace("−", "-").replace(",", "")) for part in re.findall(r"−?[\d,]*\.?\d+", text)]


def column_of(name: str) -> str:
    """The column of a file that holds a statistic, from its name in words: "mean of age" is mean_age."""
    return name.replace(" of ", "_").replace(" (clipped)", "_clipped")


@pytest.mark.parametrize("world", ["costs", "many"])
def test_numbers_and_intervals_are_those_of_the_files(world: str, request: pytest.FixtureRequest):
    """Each is rounded by less than a tenth of the interval's half width, an end never inwards; counts are exact."""
    version: Version = request.getfixturevalue(world)
    for view in shown(version):
        data, by = data_of(version, view), view.by
        labels = [" · ".join(row) if by else "all rows" for row in data.select(by).rows()] or ["all rows"]
        rows = dict(zip(labels, data.rows(named=True), strict=True))
        for statistic in view.statistics:
            column = column_of(statistic.name)
            assert 0 < len(statistic.rows) <= len(rows)
            for row in statistic.rows:
                if row.mark == IMPOSSIBLE:
                    assert (row.value, row.interval) == ("–", "–")
                    continue
                value, low, high = (rows[row.label][f"{column}{end}"] for end in ("", "_low", "_high"))
                if value is None:
                    assert (row.value, row.interval) == ("–", TOO_FEW)
                    continue
                [told], [lowest, highest, *_] = numbers(row.value), numbers(row.interval)
                room = 0 if column == "count" else (high - low) / 2 / 10 + 1e-9
                assert abs(told - value) <= room
                assert low - room - 1e-9 <= lowest <= low + 1e-9
                assert high - 1e-9 <= highest <= high + room + 1e-9


def test_cells_that_may_be_empty_or_cannot_be_filled_are_marked_in_words(costs: Version):
    marked = set()
    for view in shown(costs):
        data, contract = data_of(costs, view), contract_of(costs)
        impossible = contract.impossible(view.by).reshape(-1)
        expected = np.where(impossible, IMPOSSIBLE, np.where(data["near_zero"].to_numpy(), PERHAPS_EMPTY, ""))
        for statistic in view.statistics:
            assert [row.mark for row in statistic.rows] == expected.tolist()
        marked |= set(expected.tolist())
        told = dict(view.facts)
        near = int((data["near_zero"].to_numpy() & ~impossible).sum())
        assert told["Cells whose count cannot be told from 0"] == f"{near} of {data.height}"
        assert told.get("Cells declared impossible", "0") == str(impossible.sum())
    assert marked == {"", PERHAPS_EMPTY, IMPOSSIBLE}


def test_of_many_cells_those_are_shown_that_say_most(many: Version):
    """The largest counts where there are some; else the narrowest intervals of a mean; else the largest sums."""
    by_counts, by_intervals, by_sums = shown(many)
    assert [view.chosen for view in (by_counts, by_intervals, by_sums)] == ["counts", "intervals", "sums"]
    for view, size in (
        (by_counts, pl.col("count")),
        (by_intervals, (pl.col("mean_bill_clipped_low") - pl.col("mean_bill_clipped_high")).fill_null(-900)),
        (by_sums, pl.col("sum_age").abs()),
    ):
        best = data_of(many, view).sort(size, descending=True, maintain_order=True).head(15)
        expected = [" · ".join(row) for row in best.select(view.by).rows()]
        assert all([row.label for row in statistic.rows] == expected for statistic in view.statistics)


def test_every_table_statistic_and_file_is_on_the_page_in_each_language(costs: Version, many: Version):
    for version in (costs, many):
        for page in map(page_name, languages()):
            text = unescape((version.folder / page).read_text(encoding="utf-8"))
            views = shown(version)
            assert len(re.findall(r'<table class="bars statistics">', text)) == sum(len(v.statistics) for v in views)
            for number, view in enumerate(views, 1):
                article = text[text.index(f'aria-labelledby="table-{number}"') :].partition("</article>")[0]
                assert view.title in article
                assert all(f'href="{path.replace(" ", "%20")}"' in article for path in view.files)
            linked = {path for view in views for path in view.files}
            assert linked == {name for name in version.files if name.startswith(("data/", "measurements/"))}


def test_the_page_speaks_of_statistics_and_not_of_refined_tables(costs: Version):
    text = (costs.folder / "record.html").read_text(encoding="utf-8")
    assert "4 tables of statistics (counts, sums of clipped values, means, means of clipped values)" in text
    assert not re.search(r"[Rr]efine|marginal|tables of counts", text.partition('id="fields"')[0])


def test_terms_say_clip_step_missing_values_and_cost(costs: Version):
    """A column whose missing values are a cell of their own counts their rows; another takes them for a value."""
    [_, bills, everything, counts] = shown(costs)
    [bill] = bills.draws
    assert bill.column == "bill"
    assert bill.words == [
        "values below 0 count as 0, values above 500 as 500; values are rounded to steps of 2.5",
        "a missing value counts as 0",
    ]
    age = everything.draws[-1]
    assert age.words[1] == "rows without a value are counted as rows, but enter no sum and no mean"
    assert [draw.column for draw in counts.draws] == [None]
    assert sum(float(draw.draw["cost"]) for view in shown(costs) for draw in view.draws) <= 2


def test_expected_intervals_are_those_of_the_record(costs: Version):
    """What was expected of counts and sums before the run is as wide as what came out, but for what was cut at 0."""
    told = costs.words["utility.expected_error"]
    for view in shown(costs):
        name = view.title.partition(":")[0] if ":" in view.title else view.title
        table = [each for each in told if each["table"] == name.replace(" × ", "_x_")]
        assert {each["statistic"] for each in table} == {column_of(each.name) for each in view.statistics}
        data = data_of(costs, view)
        for each in table:
            if each["rows"] != "of any number" or each["statistic"] == "count":
                continue
            column = each["statistic"]
            widest = (data[f"{column}_high"] - data[f"{column}_low"]).max()
            assert widest <= 2 * float(each["half_width_95"]) * 1.001 + 8


def test_means_are_drawn_on_their_clip_or_on_the_part_of_it_that_they_need(worlds: Worlds):
    """Bills are 170 on average, of a clip to 900: their scale ends beyond the interval. Ages are 50, of 99.

    At epsilon 8 the interval of 2,000 bills is a unit wide: its end misses a quarter of the clip by 50 of these.
    """
    version = worlds.published(of_tables(NARROW, release="narrow", epsilon="8"), here=True)
    bills, ages = (view.statistics[0] for view in shown(version))
    assert ages.ends == ("0", "99")
    assert not ages.zoomed
    assert bills.zoomed
    [row] = bills.rows
    assert bills.ends[0] == "0"
    assert numbers(row.interval)[1] - 1 <= float(bills.ends[1]) < 225


def test_the_page_verifies_and_one_with_another_number_does_not(many: Version, tmp_path: Path):
    """The forger signs the page again: only that it does not follow from the files tells."""
    many.assert_verifies()
    spoilt = many.copy(tmp_path / "v")
    row = shown(many)[0].statistics[0].rows[0]
    page = spoilt.folder / "record.html"
    text = page.read_text(encoding="utf-8")
    assert f"<td>{row.value}</td>" in text
    page.write_text(text.replace(f"<td>{row.value}</td>", f"<td>{row.value}1</td>", 1), encoding="utf-8")
    report = forge(spoilt).verify()
    assert (broken(report), "record.html" in named(report)) == ({10}, True)


@given(st.floats(-1e9, 1e9), st.floats(1e-4, 1e8), st.floats(0, 1))
def test_digits_follow_the_interval(low: float, width: float, share: float):
    """An interval is never narrower than the published one, and at most a fifth of its half width wider."""
    high = low + width
    value = low + share * (high - low)
    told = [numbers(text)[0] for text in readable(value, low, high, whole=False)]
    half = (high - low) / 2
    room = half / 10 + 1e-11 * max(abs(low), abs(high)) + 1e-6
    assert low - room <= told[1] <= low + 1e-11 * abs(low)
    assert high - 1e-11 * abs(high) <= told[2] <= high + room
    assert abs(told[0] - value) <= room


@pytest.mark.parametrize(
    ("given_numbers", "whole", "texts"),
    [
        ((36.21104910, 36.17804070, 36.24376183), False, ("36.211", "36.178", "36.244")),
        ((235262.0, 115430.0, 355094.0), False, ("240,000", "110,000", "360,000")),
        ((13018.0, 13010.0, 13026.0), True, ("13,018", "13,010", "13,026")),
        ((-1234.5, -1300.0, -1200.0), False, ("−1,234", "−1,300", "−1,200")),
        ((0.0, 0.0, 0.0), False, ("0", "0", "0")),
        ((1.0, 1.0, 99.0), False, ("1", "1", "99")),
    ],
)
def test_examples_of_digits(given_numbers: tuple[float, float, float], whole: bool, texts: tuple[str, ...]):
    assert readable(*given_numbers, whole=whole) == texts


SPREAD = """[
  {by: [ward], of: [{variance: age}, {sd: age}]},
  {by: [floor], name: alone, of: [{sum: age, clip: [20, 80]}]}]"""


@pytest.mark.long
def test_variances_and_sums_alone_are_shown_in_words(worlds: Worlds):
    """What is possible is said where nothing else is; a table without counts marks no cell as perhaps empty."""
    version = worlds.published(of_tables(SPREAD, release="spread", epsilon="0.02"), here=True)
    wards, alone = shown(version)
    assert wards.kinds == [("variance", False), ("sd", False)]
    assert [str(each.name) for each in wards.statistics] == ["variance of age", "standard deviation of age"]
    assert any(TOO_FEW in row.interval or "all that" in row.interval for row in wards.statistics[0].rows)
    assert "all that is possible in a cell of 100 rows" in wards.expected[0]
    assert (wards.counted, alone.counted) == (True, False)
    assert all(row.mark == "" for row in alone.statistics[0].rows)
    assert alone.facts == []
    assert {draw.draw["what"] for draw in (*wards.draws, *alone.draws)} == {"sums"}
    assert "variance of age" in unescape((version.folder / "record.html").read_text())
    assert any("mean of squared distances" in str(bias) for bias in version.words["product.known_bias"])
    [file] = [each for each in version.words["output.files"] if each["path"] == "data/alone.parquet"]
    assert [each["name"] for each in file["columns"]] == [
        "floor",
        *(f"sum_age_clipped{end}" for end in ("", "_low", "_high")),
    ]


def test_where_no_table_counts_rows_the_page_says_nothing_of_empty_cells(worlds: Worlds):
    version = worlds.published(
        of_tables("[{by: [floor], of: [{sum: age, clip: [20, 80]}]}]", release="one"), here=True
    )
    assert "near_zero</code>" not in (version.folder / "record.html").read_text()
    version.assert_verifies()
