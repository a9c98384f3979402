"""What the console shows of a plan with variances and sums alone, and of versions that lack a count."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from console.comparison import _intervals
from console.products.statistics import StatisticsProductView
from privacy.statistics.plan import StatisticsPlan
from tests.worlds.statistics import of_tables

TABLES = "[{by: [ward], of: [{variance: bill}, {sd: bill}]}, {by: [floor], of: [{sum: age, clip: [20, 80]}]}]"


def test_variances_and_sums_alone_are_shown_with_their_errors(tmp_path: Path) -> None:
    """In JSON and in print: a variance in cells of three sizes, a sum in a cell of any size; noise in rows."""
    spec, _, plan, ledger = of_tables(TABLES, epsilon="0.5").prepared_of(tmp_path, StatisticsPlan)
    ledger.close()
    view = StatisticsProductView()
    payload = json.loads(json.dumps(view.plan_object(spec, plan)))
    moments, alone = payload["draws"]
    assert (moments["key"], alone["key"]) == ("table:ward/bill", "table:floor/age")
    assert moments["of"]["whole"] == 9000**2
    assert alone["of"]["alone"] is True
    # A quarter of epsilon 1 for each table: three numbers of scale 4 rows, and one of 4 rows at the far end.
    assert moments["expected_error"] == pytest.approx((3 * 2) ** 0.5 * 4, rel=1e-3)
    assert alone["expected_error"] == pytest.approx(2**0.5 * 4, rel=1e-3)
    printed = io.StringIO()
    view.print_draws(Console(file=printed, width=160), payload)
    lines = printed.getvalue().splitlines()
    assert sum("variance_bill" in line or "sd_bill" in line for line in lines) == 6
    assert any("sd_bill" in line and "100 rows" in line for line in lines)
    (line,) = [line for line in lines if "sum_age" in line]
    assert "any size" in line
    assert "the whole clip" not in printed.getvalue()


def test_a_table_without_counts_is_compared_by_its_intervals_too() -> None:
    """Two versions are compared statistic by statistic, whether cells are marked as perhaps empty or not."""
    names = ["floor", "sum_age", "sum_age_low", "sum_age_high"]
    assert _intervals(names) == [("sum_age", "sum_age_low", "sum_age_high")]
    assert _intervals([*names, "near_zero"]) == _intervals(names)
    assert _intervals(["floor", "count", "lower", "upper"]) == [("count", "lower", "upper")]
