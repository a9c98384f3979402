"""Versions with effective sample sizes: they verify, are near those of the rows, and forgeries are found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.tasks.verification.forgery import Forgery, load, set_cell
from tests.worlds.statistics import StatisticsScenario, of_tables
from tests.worlds.versions import Worlds

TABLES = """[
  {by: [ward], of: [count, {effective_size: age}, {mean: bill, step: 0.5}], survey_weight: age},
  {by: [], of: [{effective_size: bill}], survey_weight: {column: bill, clip: [0, 400], step: 2.5}}]"""
WARD, ALL = "data/ward.parquet", "data/all.parquet"


def sizes() -> StatisticsScenario:
    """A weight that may be missing and one that is mapped; Parquet and CSV."""
    return replace(of_tables(TABLES, release="sizes"), formats="[parquet, csv]")


@pytest.mark.long
def test_a_version_verifies_and_its_sizes_are_near_those_of_the_rows(worlds: Worlds) -> None:
    """Intervals are about the noise: that of all rows holds the size of the frame, or is 10 times too narrow."""
    version, frame = worlds.published(sizes()), sizes().frame()
    version.assert_verifies()
    draws = load(version.folder / "record.json")["replay"]["draws"]
    assert [each["event"]["moves"] for each in draws] == [[99 * 99], [1800 * 99], [160 * 160]]
    weights = np.floor(np.clip(np.nan_to_num(frame["bill"].to_numpy()), 0, 400) / 2.5 + 0.5)
    (row,) = pq.read_table(version.folder / ALL).to_pylist()
    assert list(row) == [*(f"effective_size_bill{end}" for end in ("", "_low", "_high")), "near_zero"]
    true = weights.sum() ** 2 / (weights**2).sum()
    low, size, high = (row[f"effective_size_bill{end}"] for end in ("_low", "", "_high"))
    assert low <= size <= high
    assert abs(size - true) < 10 * (high - low) < 5 * true
    rows = pq.read_table(version.folder / WARD).to_pylist()
    assert all(row["effective_size_age_low"] <= row["effective_size_age"] for row in rows)


def test_the_record_and_the_page_say_what_it_is(worlds: Worlds) -> None:
    version = worlds.published(sizes())
    tables, errors = (version.words[name] for name in ("product.tables", "utility.expected_error"))
    assert "effective_size_age" in tables[0]["statistics"]
    assert sum(each["statistic"].startswith("effective") for each in errors) == 2
    assert any("effective sample sizes are of the clipped" in each for each in version.words["product.known_bias"])
    page = (version.folder / "record.html").read_text()
    assert "effective sample size" in page
    assert "where weights are about a quarter of their clip" in page


FORGERIES = {
    "squares that move by one weight": Forgery(
        {6}, record=lambda record: record["replay"]["draws"][0]["event"].update(moves=[99]), says="[9801]"
    ),
    "a weight that is not weighted": Forgery(
        {6}, record=lambda record: record["replay"]["draws"][0]["addends"].pop("weight"), says="[99]"
    ),
    "another size": Forgery({9}, files=lambda folder: set_cell(folder / WARD, "effective_size_age", 0, 1.0)),
    "a narrower end": Forgery({9}, files=lambda folder: set_cell(folder / ALL, "effective_size_bill_low", 0, 99.0)),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_found_by_the_rule_it_breaks(worlds: Worlds, tmp_path: Path, name: str) -> None:
    FORGERIES[name].check_found(worlds.published(sizes()).copy(tmp_path / "v"))
