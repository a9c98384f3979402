"""Versions of statistics with refined counts: one total, nothing negative, made again, and forgeries found."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError

from contracts.release.statistics import StatisticsProduct
from privacy.refine.negative_l2 import negative_l2
from privacy.refine.simplex import round_to_total
from tests.tasks.verification.forgery import Forgery, Json, set_cell
from tests.worlds.statistics import StatisticsScenario, of_tables
from tests.worlds.versions import Version, Worlds

WEIGHT = "survey_weight: {column: age, clip: [0, 90], step: 4.5}"
TABLES = f"""[
  {{by: [ward, age], of: [count, {{mean: age, clip: [0, 90]}}, {{mean: bill}}]}},
  {{by: [insured, floor], name: many, of: [count]}},
  {{by: [ward], of: [{{quantiles: [0.5], of: bill}}, count]}},
  {{by: [floor], of: [{{mean: age}}]}},
  {{by: [], of: [count, {{mean: bill}}], {WEIGHT}}},
  {{by: [insured], of: [count], {WEIGHT}}}]"""
REFINE = "refine: {method: negative_l2, lambda: 0.02}"
COUNTED = ("ward_x_age", "many", "ward", "all", "insured")


def laplace() -> StatisticsScenario:
    """Excluded cells, averages of several columns, counts alone, a tree, weights; Parquet and CSV."""
    base = of_tables(TABLES, release="refined")
    return replace(base, product=f"{base.product[:-1]}, {REFINE}}}", formats="[parquet, csv]")


def public_total() -> StatisticsScenario:
    """A total that is declared public, replace_one, the plain projection."""
    total = 'invariants: [{kind: total, value: 2000, reference: "yearbook"}]'
    privacy = f"{{unit: {{kind: row, scope: block}}, adjacency: replace_one, {total}}}"
    base = of_tables(TABLES, privacy=privacy, release="yearbook")
    return replace(base, product=f"{base.product[:-1]}, refine: {{method: simplex}}}}")


@pytest.fixture(scope="module")
def version(worlds: Worlds) -> Version:
    return worlds.published(laplace())


def table(version: Version, name: str) -> pl.DataFrame:
    return pl.read_parquet(version.folder / f"data/{name}.parquet")


@pytest.mark.long
@pytest.mark.parametrize("scenario", [laplace(), public_total()], ids=["laplace", "public total"])
def test_refined_counts_have_one_total_and_the_version_verifies(worlds: Worlds, scenario: StatisticsScenario) -> None:
    """Weighted tables have a total of their own; a table that publishes no count has none to refine."""
    made = worlds.published(scenario)
    made.assert_verifies(deep=True)
    refined = {name: table(made, name)["count_refined"] for name in COUNTED}
    assert all((each >= 0).all() for each in refined.values())
    totals = [refined[name].sum() for name in COUNTED]
    assert totals[0] == totals[1] == totals[2]
    assert totals[3] == totals[4]
    assert totals[3] % 4.5 == 0
    assert "count_refined" not in table(made, "floor").columns
    if scenario.release == "yearbook":
        assert totals[0] == 2000


def test_counts_alone_are_refined_as_those_of_tables(version: Version) -> None:
    """A second derivation: the projection of the noisy whole counts themselves, rounded to the total."""
    found = table(version, "many")["count_refined"].to_numpy()
    noisy = pl.read_parquet(next((version.folder / "measurements").glob("*-insured_x_floor.parquet")))["noisy"]
    total = int(found.sum())
    projected = negative_l2(noisy.to_numpy(), float(total), lambda_=0.02)
    np.testing.assert_array_equal(found, round_to_total(projected, total))


def test_an_excluded_cell_stays_empty_and_noisy_counts_stay_as_they_are(version: Version) -> None:
    rows = table(version, "ward_x_age").with_columns(pl.col("ward", "age").cast(pl.String))
    (empty,) = rows.filter((pl.col("ward") == "children") & (pl.col("age") == "75 to 99")).rows(named=True)
    assert (empty["count"], empty["count_refined"]) == (0, 0)
    assert (rows["count"] != rows["count_refined"]).any()


def test_record_and_page_say_how_counts_are_refined(version: Version) -> None:
    steps = {each["table"]: " ".join(each["steps"]) for each in version.words["product.tables"]}
    assert "method negative_l2, lambda 0.02" in steps["many"]
    assert "refined" not in steps["floor"]
    page = (version.folder / "record.html").read_text(encoding="utf-8")
    total = int(table(version, "many")["count_refined"].sum())
    assert f"Refined counts (count_refined) add up to: {total:,}" in page


def _terms(**changed: Any) -> Callable[[Json], object]:
    return lambda record: record["replay"]["product"]["refine"].update(changed)


FORGERIES = {
    "a refined count": Forgery(
        {9}, files=lambda folder: set_cell(folder / "data/many.parquet", "count_refined", 0, 7)
    ),
    "another lambda": Forgery({9}, record=_terms(lambda_="0.3")),
    "another method": Forgery({9}, record=_terms(method="simplex", lambda_=None)),
    "no refinement": Forgery({9}, record=lambda record: record["replay"]["product"].pop("refine")),
    "a lambda that is none": Forgery({5}, record=_terms(lambda_="auto")),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_found_by_the_rule_it_breaks(version: Version, tmp_path: Path, name: str) -> None:
    """Everything is signed again; other rules may break beside it."""
    FORGERIES[name].check_found(version.copy(tmp_path / "v"))


COUNT = [{"by": ["ward"], "of": ["count"]}]
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a lambda to be found": ({"refine": {"method": "negative_l2", "lambda": "auto"}}, "lambda: NUMBER"),
    "another method": ({"refine": {"method": "empirical_bayes"}}, "method: simplex"),
    "no counts": (
        {"refine": {"method": "simplex"}, "tables": [{"by": [], "of": [{"mean": "age"}]}]},
        "a table with count",
    ),
    "suppressed cells": (
        {"refine": {"method": "simplex"}, "minimum_frequency": {"k": 3, "t": 0}},
        "one of the two",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_refined_is_refused_with_words(what: str) -> None:
    written, says = REFUSED[what]
    with pytest.raises(ValidationError, match=re.escape(says)):
        StatisticsProduct.model_validate({"kind": "statistics", "tables": COUNT, **written})
