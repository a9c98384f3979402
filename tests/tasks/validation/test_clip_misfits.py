"""What a spec's clips cut is counted for the operator: by clip and by cell, exactly, and it asks."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import polars as pl

from contracts.release.statistics import statistics_product
from tasks.validation.clip_misfits import clip_misfits
from tasks.validation.misfits import Misfits
from tests.worlds.statistics import StatisticsScenario, of_tables

ONE_PERCENT = Fraction(1, 100)
TABLES = """[
  {by: [ward], of: [count, {mean: age, clip: [10, 60]}, {variance: bill, clip: [0, 900]}]},
  {by: [floor], of: [{quantiles: [0.5], of: age}]}]"""


def look(scenario: StatisticsScenario, folder: Path) -> Misfits:
    spec, contract, _, ledger = scenario.prepared_of(folder, scenario.plan_type)
    ledger.close()
    table = scenario.taken(folder, spec, contract)
    return Misfits(0, (), (), clips=clip_misfits(table, contract, statistics_product(spec.product), ONE_PERCENT))


def test_rows_beyond_a_clip_are_counted_by_clip_and_by_cell(tmp_path: Path) -> None:
    """By Polars: values at an end are not cut. A clip that is the contract's bounds cuts nothing that they allow."""
    scenario = of_tables(TABLES)
    found = look(scenario, tmp_path)
    rows = scenario.frame().drop_nulls("age")
    cut = rows.filter(~pl.col("age").is_between(10, 60))
    whole, *cells = found.clips
    assert (whole.column, whole.rows, whole.clipped) == ("age [10, 60] · ward", rows.height, cut.height)
    surgery = next(each for each in cells if each.column == "age [10, 60] · ward: surgery")
    told = rows.filter(pl.col("ward") == "surgery").height, cut.filter(pl.col("ward") == "surgery").height
    assert (surgery.rows, surgery.clipped) == told
    assert found.above(ONE_PERCENT) == found.clips
    assert "age" not in repr(found)


def test_a_cell_of_a_few_rows_is_not_named_and_bounds_are_not_counted(tmp_path: Path) -> None:
    """One row of ten is more than 1 %: cells that cannot tell such a share are left to the whole."""
    few = look(of_tables(TABLES, rows=40), tmp_path)
    assert [each.column for each in few.clips] == ["age [10, 60] · ward"]
    (tmp_path / "wide").mkdir()
    wide = look(of_tables("[{by: [ward], of: [{mean: age}]}]"), tmp_path / "wide")
    assert wide.clips == ()
    assert not wide.above(ONE_PERCENT)
