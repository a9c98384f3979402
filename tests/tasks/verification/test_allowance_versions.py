"""Versions with sums within an allowance of each unit: they verify, and forgeries of the allowance are found."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from contracts.domains.value_sums import LoneSum
from privacy.statistics.plan import StatisticsPlan
from tasks.verify import verify
from tests.tasks.verification.forgery import Forgery, Json, forge, set_cell
from tests.worlds.statistics import StatisticsScenario, gaussian, of_tables
from tests.worlds.versions import Worlds

TABLES = """[
  {by: [ward], of: [count, {sum: bill, clip: [0, 500], step: 2.5, per_unit: 400}]},
  {by: [], name: alone, of: [{sum: age, clip: [18, 90], per_unit: 70}]},
  {by: [insured], of: [count, {mean: age}, {sum: bill, clip: [0, 500], per_unit: 300}]},
  {by: [floor], of: [{sum: bill, per_unit: 100}, {quantiles: [0.5], of: bill}]}]"""
UNITS = "{unit: {kind: id, scope: block, column: patient, max_rows_per_unit: 3}, adjacency: add_remove}"


def laplace() -> StatisticsScenario:
    """Three stays of a patient; Parquet and CSV."""
    return replace(of_tables(TABLES, release="allowances", privacy=UNITS, unit="patient"), formats="[parquet, csv]")


def replaced() -> StatisticsScenario:
    """Gaussian noise, replace_one."""
    return replace(gaussian(), product=f"{{kind: statistics, mechanism: gaussian, tables: {TABLES}}}")


def of_rows() -> StatisticsScenario:
    """Each unit has one row."""
    return of_tables(TABLES, release="rows")


@pytest.mark.parametrize("scenario", [laplace(), replaced(), of_rows()], ids=["laplace", "gaussian", "rows"])
def test_a_version_verifies_and_says_its_allowances(worlds: Worlds, scenario: StatisticsScenario) -> None:
    version = worlds.published(scenario)
    report = verify(version.folder, public_key=version.key)
    assert report.ok, report.findings
    record = (version.folder / "record.json").read_text()
    stated = [draw.get("addends", {}).get("per_unit") for draw in json.loads(record)["replay"]["draws"]]
    assert [each for each in stated if each is not None] == ["400", "70", "300", "100"]
    assert "near_zero" in pl.read_parquet(version.folder / "data/ward.parquet").columns
