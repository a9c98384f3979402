"""Versions with variances and with sums alone: they verify, follow from the rows, and forgeries of them are found."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

from contracts.domains.value_sums import LoneSum, ValueMoments
from privacy.snapshots.snapshot_sums import SnapshotSums
from privacy.statistics.plan import StatisticsPlan
from tasks.verify import verify
from tests.tasks.verification.forgery import Json, edit_table, forge, load, set_cell
from tests.worlds.statistics import StatisticsScenario, gaussian, of_tables
from tests.worlds.versions import Worlds, broken

TABLES = """[
  {by: [ward], of: [count, {variance: age}, {mean: age}, {sum: age}]},
  {by: [], of: [{sd: bill, clip: [0, 500], step: 2.5}, {variance: bill}]},
  {by: [insured], name: alone, of: [{sum: age, clip: [18, 90], step: 2}, {sum: bill, clip: [0, 500]}]},
  {by: [floor], name: only, of: [{sum: age, clip: [20, 80]}]},
  {by: [age, ward], name: zeros, of: [{sd: bill}, {sum: bill}]}]"""


def laplace() -> StatisticsScenario:
    """Missing ages, excluded cells, clips away from 0; Parquet and CSV."""
    return replace(of_tables(TABLES, release="moments"), formats="[parquet, csv]")


def three_rows() -> StatisticsScenario:
    """Gaussian noise, replace_one, three rows a unit; Parquet in parts."""
    return replace(gaussian(), product=f"{{kind: statistics, mechanism: gaussian, tables: {TABLES}}}")


@pytest.mark.parametrize("scenario", [laplace(), three_rows()], ids=["laplace", "gaussian"])
def test_a_version_with_variances_and_sums_alone_verifies(worlds: Worlds, scenario: StatisticsScenario) -> None:
    version = worlds.published(scenario)
    report = verify(version.folder, public_key=version.key)
    assert report.ok, report.findings
    table = pl.read_parquet(version.folder / "data/ward.parquet")
    assert table["variance_age"].is_between(0, 99**2 / 4).all()
    assert (table["variance_age_low"] <= table["variance_age"]).all()
    assert (table["variance_age"] <= table["variance_age_high"]).all()
    every = pl.read_parquet(version.folder / "data/all.parquet")
    for end in ("", "_low", "_high"):
        assert every[f"sd_bill{end}"].to_list() == pytest.approx(every[f"variance_bill{end}"].sqrt().to_list())
