"""Versions of statistics under a minimum frequency: small cells are in no file, and forgeries are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.tasks.verification.forgery import Forgery, Json, edit_table
from tests.worlds.statistics import StatisticsScenario, gaussian, of_tables
from tests.worlds.synthetic_rows import STAY
from tests.worlds.versions import Version, Worlds

TABLES = """[
  {by: [ward, age], of: [count, {mean: age, clip: [0, 90]}, {sum: bill, clip: [0, 500]}]},
  {by: [insured, floor], name: how many, of: [count]},
  {by: [insured], name: spread, of: [{variance: age}, {mean: bill}]}]"""
RULE = "minimum_frequency: {k: 100, t: auto, at_most: 0.01}"
MAPPED = STAY.replace("nulls: {policy: category}", "nulls: {policy: map, to: 50}", 1)
"""Missing ages count as 50."""
AGES = "measurements/0000-ward_x_age_x_age.parquet"
COUNTS = "measurements/0002-insured_x_floor.parquet"


def laplace() -> StatisticsScenario:
    """Structural zeros, several columns of a table, counts alone, and moments; CSV too."""
    base = of_tables(TABLES, release="small", properties=MAPPED)
    return replace(base, product=f"{base.product[:-1]}, {RULE}}}", formats="[parquet, csv]")


def three_rows() -> StatisticsScenario:
    """Gaussian noise, replace_one, three rows a unit; Parquet in parts."""
    product = f"{{kind: statistics, mechanism: gaussian, tables: {TABLES}, {RULE}}}"
    return replace(gaussian(), product=product, properties=MAPPED)


@pytest.fixture(scope="module")
def version(worlds: Worlds) -> Version:
    return worlds.published(laplace())


@pytest.mark.long
@pytest.mark.parametrize("scenario", [laplace(), three_rows()], ids=["laplace", "gaussian"])
def test_a_version_with_suppressed_cells_verifies(worlds: Worlds, scenario: StatisticsScenario) -> None:
    worlds.published(scenario).assert_verifies(deep=True)


def suppressed(version: Version, name: str) -> Any:
    return pl.read_parquet(version.folder / name)["suppressed"].to_numpy()


def test_nothing_of_a_suppressed_cell_is_published(version: Version) -> None:
    """Its statistics are missing in data and CSV, its noisy numbers in measurements; the others are all there."""
    for name, draws in {"ward_x_age": [AGES, AGES.replace("0000", "0001").replace("_age.p", "_bill.p")]}.items():
        data = pq.read_table(version.folder / f"data/{name}.parquet")
        gone = data.column("suppressed").to_numpy()
        assert 0 < gone.sum() < len(gone)
        for column in data.column_names[2:-1]:
            missing = data.column(column).is_null().to_numpy()
            if not column.startswith("mean_"):
                np.testing.assert_array_equal(missing, gone)
            assert missing[gone].all()
        lines = (version.folder / f"data/{name}.csv").read_text().splitlines()[1:]
        assert [line.endswith("," * 11 + "true") for line in lines] == gone.tolist()
        impossible, small = [], []
        for draw in draws:
            measured = pq.read_table(version.folder / draw)
            hidden = measured.column("suppressed").to_numpy()
            for column in ("noisy", "lower", "upper"):
                np.testing.assert_array_equal(measured.column(column).is_null().to_numpy(), hidden)
            parts = len(hidden) // len(gone)
            small.append(hidden.reshape(-1, parts))
            impossible = measured.column("structural_zero").to_numpy().reshape(-1, parts)[:, 0]
            assert (small[-1] == small[-1][:, :1]).all()
        expected = np.logical_or.reduce([each[:, 0] for each in small]) & ~np.asarray(impossible)
        np.testing.assert_array_equal(gone, expected)


def test_published_cells_are_those_of_many_rows(version: Version) -> None:
    """Of the cells by insurance and floor six have hundreds of rows, and three have none: those are gone."""
    data = pl.read_parquet(version.folder / "data/how many.parquet")
    assert data.filter(pl.col("suppressed"))["insured"].cast(pl.String).to_list() == ["(null)"] * 3
    assert data["count"].min() >= 100  # type: ignore[operator]
    measured = pl.read_parquet(version.folder / COUNTS)
    assert measured.filter(pl.col("suppressed"))["noisy"].to_list() == [None] * 3


def test_record_and_page_say_what_the_rule_is(version: Version) -> None:
    told: list[Json] = version.words["product.tables"]
    rules = {table["table"]: table["minimum_frequency"] for table in told}
    assert {name: [each["draw"] for each in rule["draws"]] for name, rule in rules.items()} == {
        "ward_x_age": ["table:ward_x_age/age", "table:ward_x_age/bill"],
        "how many": ["table:how many"],
        "spread": ["table:spread/age", "table:spread/bill"],
    }
    for rule in rules.values():
        assert all(each["threshold"] == 100 + each["t"] < rule["mostly_published_from"] for each in rule["draws"])
        assert 0 < float(rule["published_although_below_k"]) <= 0.01
    assert any("suppressed by their noisy counts" in words for words in version.words["product.known_bias"])
    page = (version.folder / "record.html").read_text(encoding="utf-8")
    gone = int(suppressed(version, "data/ward_x_age.parquet").sum())
    assert f"Cells suppressed by the minimum-frequency rule: {gone} of 16" in page
    assert "suppressed by their noisy counts" in page


def _shown(name: str, columns: dict[str, Any]) -> Callable[[Path], object]:
    """Give the first suppressed row of a file these values, and take its mark away."""

    def change(table: pa.Table) -> pa.Table:
        row = int(np.flatnonzero(table.column("suppressed").to_numpy())[0])
        for column, value in columns.items():
            values = table.column(column).to_pylist()
            values[row] = value
            place, field = table.schema.get_field_index(column), table.schema.field(column)
            table = table.set_column(place, field, pa.array(values, field.type))
        return table

    return lambda folder: edit_table(folder / name, change)


def _rule(**changed: Any) -> Callable[[Json], object]:
    return lambda record: record["replay"]["product"]["minimum_frequency"].update(changed)


def _more_of(statistic: Json) -> Callable[[Json], object]:
    """Add a statistic to the last table of the product."""
    return lambda record: record["replay"]["product"]["tables"][2]["of"].append(statistic)


COUNT = {"count": 500, "count_low": 490, "count_high": 510, "near_zero": False, "suppressed": False}
FORGERIES = {
    "a suppressed cell with a count": Forgery({9}, files=_shown("data/how many.parquet", COUNT)),
    "a value beside the mark": Forgery({9}, files=_shown("data/how many.parquet", {"count": 500})),
    "a noisy count of a suppressed cell": Forgery({8}, files=_shown(COUNTS, {"noisy": 3})),
    "a sum of a suppressed cell": Forgery({8}, files=_shown(AGES, {"noisy": 3})),
    "a suppressed sum unmarked": Forgery(
        {8}, files=_shown(AGES, {"noisy": 9000, "lower": 8191, "upper": 9809, "suppressed": False})
    ),
    "a lower k": Forgery({8}, record=_rule(k=3)),
    "a higher probability": Forgery({8}, record=_rule(at_most="0.4")),
    "quantiles beside the rule": Forgery(
        {5}, record=_more_of({"what": "quantiles", "column": "age", "quantiles": ["0.5"]})
    ),
    "no rule": Forgery({8}, record=lambda record: record["replay"]["product"].pop("minimum_frequency")),
    "a rule that is none": Forgery({5}, record=_rule(at_most=None)),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_found_by_the_rule_it_breaks(version: Version, tmp_path: Path, name: str) -> None:
    """Everything is signed again; other rules may break beside it."""
    FORGERIES[name].check_found(version.copy(tmp_path / "v"))
