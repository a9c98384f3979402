"""Versions with sums within a quota of each unit: they verify, and forgeries of the quota are found."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

from contracts.domains.addends import LoneSum
from privacy.snapshots.snapshot import SnapshotSums
from privacy.statistics.plan import StatisticsPlan
from tests.tasks.verification.forgery import Forgery, Json, forge, set_cell
from tests.worlds.private_keys import gaussian as by_notes
from tests.worlds.statistics import StatisticsScenario, of_tables, three_rows
from tests.worlds.versions import Worlds

TABLES = """[
  {by: [ward], of: [count, {sum: bill, clip: [0, 500], step: 2.5, per_unit: 400}]},
  {by: [], name: alone, of: [{sum: age, clip: [18, 90], per_unit: 70}]},
  {by: [insured], of: [count, {mean: age}, {sum: bill, clip: [0, 500], per_unit: 300}]},
  {by: [floor], of: [{sum: bill, per_unit: 100}, {quantiles: [0.5], of: bill}]}]"""
UNITS = "{unit: {kind: id, scope: block, column: patient, max_rows_per_unit: 3}, adjacency: add_remove}"


def laplace() -> StatisticsScenario:
    """Three stays of a patient; Parquet and CSV."""
    return replace(of_tables(TABLES, release="quotas", privacy=UNITS, unit="patient"), formats="[parquet, csv]")


def of_rows() -> StatisticsScenario:
    """Each unit has one row."""
    return of_tables(TABLES, release="rows")


def of_keys() -> StatisticsScenario:
    """By notes whose keys are selected: rows are coded anew, and keep their units and places."""
    selected = "{by: [note], keys: private, of: [count, {sum: bill, clip: [0, 500], per_unit: 600}]}"
    tables = f"[{selected}, {{by: [ward], of: [{{sum: bill, clip: [0, 500], per_unit: 600}}]}}]"
    product = f"{{kind: statistics, mechanism: gaussian, tables: {tables}}}"
    return replace(by_notes(), product=product, release="quotas-of-notes")


@pytest.mark.long
@pytest.mark.parametrize("scenario", [laplace(), three_rows(TABLES), of_rows()], ids=["laplace", "gaussian", "rows"])
def test_a_version_verifies_and_says_its_quotas(worlds: Worlds, scenario: StatisticsScenario) -> None:
    version = worlds.published(scenario)
    version.assert_verifies()
    record = (version.folder / "record.json").read_text()
    stated = [draw.get("addends", {}).get("per_unit") for draw in json.loads(record)["replay"]["draws"]]
    assert [each for each in stated if each is not None] == ["400", "70", "300", "100"]
    assert "near_zero" in pl.read_parquet(version.folder / "data/ward.parquet").columns


@pytest.mark.long
def test_selected_keys_have_sums_within_quotas_too(worlds: Worlds) -> None:
    version = worlds.published(of_keys())
    version.assert_verifies()
    found = {name: pl.read_parquet(version.folder / f"data/{name}.parquet") for name in ("note", "ward")}
    sums = [table["sum_bill_clipped"].sum() for table in found.values()]
    # At an epsilon of 8 each has noise of a few thousand; some 350,000 are left of 800,000.
    assert found["note"]["note"].is_in(["broken arm", "(others)"]).sum() == 2
    assert abs(sums[0] - sums[1]) < 100_000 < min(sums)


@pytest.mark.usefixtures("every_row_kept")
@pytest.mark.parametrize("scenario", [laplace(), of_rows()], ids=["three rows", "one row"])
def test_what_is_drawn_is_cut_unit_by_unit(tmp_path: Path, scenario: StatisticsScenario) -> None:
    """Of the rows themselves: nobody adds more than the quota over all cells; who has less adds all of it."""
    spec, contract, plan, ledger = scenario.prepared_of(tmp_path, StatisticsPlan)
    ledger.close()
    table, form = scenario.taken(tmp_path, spec, contract), plan.draws[0].addends
    assert isinstance(form, LoneSum)
    assert plan.draws[0].event.moves == (160,)
    with duckdb.connect(str(table.path), read_only=True) as connection:
        raw = connection.execute("SELECT * FROM raw").pl()
    bills = (raw["bill"].fill_nan(0).clip(0, 500) / 2.5).round()
    units = raw["patient"] if contract.unit.max_rows_per_unit > 1 else pl.Series(range(len(raw)))
    totals = pl.DataFrame({"unit": units, "steps": bills}).group_by("unit").agg(pl.col("steps").sum())["steps"]
    (handle,) = SnapshotSums(table, contract).sums(("ward",), [form])
    assert handle._read().sum() == totals.clip(0, 160).sum() < totals.sum()


def _draw(record: Json, place: int) -> Json:
    draw: Json = record["replay"]["draws"][place]
    return draw


def _product(record: Json) -> Json:
    statistic: Json = record["replay"]["product"]["tables"][0]["of"][1]
    return statistic


def _quota(*, addends: Any = None, moves: list[int] | None = None, product: Any = None) -> Callable[[Json], object]:

    def change(record: Json) -> None:
        if addends is not None:
            _draw(record, 0)["addends"]["per_unit"] = addends
        if moves is not None:
            _draw(record, 0)["event"]["moves"] = moves
        if product is not None:
            _product(record)["per_unit"] = product

    return change


FORGERIES = {
    "a larger quota": Forgery({6}, record=_quota(addends="450")),
    "a smaller quota": Forgery({6}, record=_quota(addends="200")),
    "no quota": Forgery({6}, record=lambda record: _draw(record, 0)["addends"].pop("per_unit")),
    "a quota in another spelling": Forgery({6}, record=_quota(addends="4e2")),
    "a quota that is no number": Forgery({6}, record=_quota(addends="much")),
    "a quota of broken steps": Forgery({5}, record=_quota(addends="401", product="401")),
    "a quota that bounds nothing": Forgery({5}, record=_quota(addends="1500", product="1500")),
    "a larger quota, in the product too": Forgery({6}, record=_quota(addends="450", product="450")),
    "a larger quota, with its moves": Forgery({6}, record=_quota(addends="450", moves=[180], product="450")),
    "a smaller move": Forgery({6}, record=_quota(moves=[80])),
    "the rows of a unit for the move": Forgery({6}, record=_quota(moves=[600])),
    "a product without the quota": Forgery({5}, record=lambda record: _product(record).pop("per_unit")),
    "a sum": Forgery({9}, files=lambda folder: set_cell(folder / "data/alone.parquet", "sum_age_clipped", 0, 7.0)),
    "a count beside it": Forgery({9}, files=lambda folder: set_cell(folder / "data/ward.parquet", "count", 0, 7)),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_found_by_the_rule_it_breaks(worlds: Worlds, tmp_path: Path, name: str) -> None:
    """Everything is signed again; other rules may break beside it, since words and losses follow from the record."""
    FORGERIES[name].check_found(worlds.published(laplace()).copy(tmp_path / "v"))


def test_the_forger_s_tools_alone_change_nothing(worlds: Worlds, tmp_path: Path) -> None:
    version = forge(worlds.published(laplace()).copy(tmp_path / "v"))
    version.assert_verifies()
