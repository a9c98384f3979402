"""Versions with quantiles that the exponential mechanism chose: they verify, and forgeries of them are found."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

from privacy.accounting.events import ExponentialMechanism
from privacy.snapshots.snapshot import SnapshotValues
from privacy.statistics.plan import StatisticsPlan
from tests.tasks.verification.forgery import Forgery, Json, edit_table, set_cell
from tests.worlds.statistics import StatisticsScenario, of_tables, three_rows
from tests.worlds.versions import Worlds

TABLES = """[
  {by: [ward], of: [count, {quantiles: [0.5, 0.1, 0.975], of: age, method: exponential}, {mean: age}]},
  {by: [], of: [count, {quantiles: [0.25], of: bill, clip: [0, 500], step: 2.5}]},
  {by: [age, ward], name: zeros, of: [{quantiles: [0.5], of: bill, method: tree}]}]"""


def laplace() -> StatisticsScenario:
    """Missing ages, excluded cells, quantiles in no order; Parquet and CSV."""
    return replace(of_tables(TABLES, release="choices"), formats="[parquet, csv]")


BOTH = pytest.mark.parametrize("scenario", [laplace(), three_rows(TABLES)], ids=["laplace", "gaussian"])


@pytest.mark.long
@BOTH
def test_a_version_with_chosen_quantiles_verifies(worlds: Worlds, scenario: StatisticsScenario) -> None:
    """The published values are the chosen ones, within their intervals; the median stands under its own name."""
    version = worlds.published(scenario)
    version.assert_verifies()
    table = pq.read_table(version.folder / "data/ward.parquet").to_pydict()
    draws = [draw for draw in version.words["ledger.draws"] if draw["event"]["kind"] == "exponential_mechanism"]
    assert [draw["quantiles"] for draw in draws] == [["0.1", "0.5", "0.975"], ["0.25"]]
    chosen = pl.read_parquet(_file(version.folder))
    for name in ("q10", "q50", "q97.5"):
        own = chosen.filter(pl.col("part") == name)["chosen"].to_list()
        low, high = table[f"{name}_age_low"], table[f"{name}_age_high"]
        shown = zip(table[f"{name}_age"], own, low, high, strict=True)
        assert all(value is None or value == min(max(each, least), most) for value, each, least, most in shown)


@BOTH
def test_the_price_of_choices_is_a_part_of_the_tree_s(tmp_path: Path, scenario: StatisticsScenario) -> None:
    """Choices and their tree have together what the tree alone would have: of its share three quarters and one."""
    _, _, plan, ledger = scenario.prepared_of(tmp_path, StatisticsPlan)
    ledger.close()
    trees = {draw.key: draw.share for draw in plan.draws}
    for each in plan.choices:
        assert each.share == 3 * trees[f"table:{each.table}/quantiles/{each.choices.column}"]
        assert isinstance(each.event, ExponentialMechanism)
    assert [each.key for each in plan.choices] == ["table:ward/choice/age", "table:all/choice/bill"]
    assert sum((each.share for each in (*plan.draws,)), Fraction(0)) + sum(each.share for each in plan.choices) == 1


def test_the_values_of_a_snapshot_are_those_of_its_rows(tmp_path: Path) -> None:
    """Bills of the frame itself, clipped and rounded; missing ages have no line."""
    scenario = laplace()
    spec, contract, plan, ledger = scenario.prepared_of(tmp_path, StatisticsPlan)
    ledger.close()
    table = scenario.taken(tmp_path, spec, contract)
    ages, bills = (SnapshotValues(table, contract).values(each.clique, each.choices)._read() for each in plan.choices)
    exact = np.round(np.clip(np.nan_to_num(scenario.frame()["bill"].to_numpy()), 0, 500) / 2.5)
    wanted = np.unique(exact, return_counts=True)
    assert (bills[:, 0] == 0).all()
    assert bills[:, 1].tolist() == wanted[0].tolist()
    assert bills[:, 2].tolist() == wanted[1].tolist()
    assert ages[:, 2].sum() == scenario.frame()["age"].drop_nulls().len()
    assert (np.lexsort((ages[:, 1], ages[:, 0])) == np.arange(len(ages))).all()
    assert 0 <= ages[:, 1].min() <= ages[:, 1].max() <= 99


def _choice(record: Json) -> Json:
    (draw,) = [each for each in record["replay"]["draws"] if each["key"] == "table:ward/choice/age"]
    return draw  # type: ignore[no-any-return]


def _file(folder: Path) -> Path:
    return folder / str(_choice(json.loads((folder / "record.json").read_bytes()))["measurements"])


FORGERIES = {
    "a choice": Forgery({8}, files=lambda folder: set_cell(_file(folder), "chosen", 3, 17)),
    "a choice beyond the clip": Forgery({8}, files=lambda folder: set_cell(_file(folder), "chosen", 3, 10**6)),
    "choices in another order": Forgery(
        {8}, files=lambda folder: edit_table(_file(folder), lambda table: table.take([1, 0, *range(2, len(table))]))
    ),
    "a published quantile": Forgery(
        {9}, files=lambda folder: set_cell(folder / "data/ward.parquet", "q50_age", 0, 1.0)
    ),
    "an end": Forgery({9}, files=lambda folder: set_cell(folder / "data/ward.parquet", "q10_age_high", 1, 98.5)),
    "another lattice": Forgery({5}, record=lambda record: _choice(record)["choices"].update({"high": "98"})),
    "other quantiles": Forgery(
        {5}, record=lambda record: _choice(record)["choices"].update({"quantiles": ["0.1", "0.5", "0.9"]})
    ),
    "quantiles in another order": Forgery(
        {6}, record=lambda record: _choice(record)["choices"].update({"quantiles": ["0.5", "0.1", "0.975"]})
    ),
    "no quantiles": Forgery({6}, record=lambda record: _choice(record)["choices"].update({"quantiles": []})),
    "a quantile that is no number": Forgery(
        {6}, record=lambda record: _choice(record)["choices"].update({"quantiles": ["NaN", "0.5", "0.975"]})
    ),
    "a lower price": Forgery({6}, record=lambda record: _choice(record)["event"].update({"epsilon": "1/100"})),
    "noise in the place of a choice": Forgery(
        {6},
        record=lambda record: _choice(record).update(
            {"event": {"kind": "discrete_laplace", "inverse_scale": "1/100", "moves": [1]}}
        ),
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_found_by_the_rule_it_breaks(worlds: Worlds, tmp_path: Path, name: str) -> None:
    """Everything is signed again; other rules may break beside it, since words and losses follow from the record."""
    FORGERIES[name].check_found(worlds.published(laplace()).copy(tmp_path / "v"))
