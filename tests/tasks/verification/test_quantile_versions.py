"""Versions with quantiles: they verify, their trees are those of the rows, and forgeries of them are found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pyarrow.parquet as pq
import pytest

from contracts.domains.trees import ValueTree
from privacy.snapshots.snapshot import SnapshotSums
from privacy.statistics.plan import StatisticsPlan
from tests.tasks.verification.forgery import Forgery, Json, edit_table, forge, set_cell
from tests.worlds.statistics import StatisticsScenario, of_tables, three_rows
from tests.worlds.versions import Worlds

TABLES = """[
  {by: [ward], of: [count, {quantiles: [0.1, 0.5, 0.975], of: age, method: tree}, {mean: age}]},
  {by: [], of: [count, {quantiles: [0.25], of: bill, clip: [0, 500], step: 2.5, resolution: 12.5, method: tree}]},
  {by: [age, ward], name: zeros, of: [{quantiles: [0.5], of: bill, resolution: 50, method: tree}]}]"""
AGES = "measurements/0001-ward_x_age.parquet"


def laplace() -> StatisticsScenario:
    """Missing ages, excluded cells, a name with a dot; Parquet and CSV."""
    return replace(of_tables(TABLES, release="quantiles"), formats="[parquet, csv]")


@pytest.mark.long
@pytest.mark.parametrize("scenario", [laplace(), three_rows(TABLES)], ids=["laplace", "gaussian"])
def test_a_version_with_quantiles_verifies(worlds: Worlds, scenario: StatisticsScenario) -> None:
    version = worlds.published(scenario)
    version.assert_verifies()
    table = pq.read_table(version.folder / "data/ward.parquet").to_pydict()
    for name in ("q10_age", "q50_age", "q97.5_age"):
        for low, value, high in zip(table[f"{name}_low"], table[name], table[f"{name}_high"], strict=True):
            assert 0 <= low <= value <= high <= 99
            assert value == int(value)
    assert [each["resolution"] for each in version.words["product.tables"][1]["lattices"]] == ["12.5"]


def test_cells_that_hold_nobody_have_no_quantile(worlds: Worlds) -> None:
    """Ages from 75 on are excluded among children."""
    rows = pq.read_table(worlds.published(laplace()).folder / "data/zeros.parquet").to_pylist()
    (empty,) = [row for row in rows if row["ward"] == "children" and str(row["age"]).startswith("75")]
    assert [empty[f"q50_bill{end}"] for end in ("_low", "", "_high")] == [None, None, None]
    assert empty["near_zero"]


@pytest.mark.parametrize("scenario", [laplace(), three_rows(TABLES)], ids=["laplace", "gaussian"])
def test_a_row_moves_one_node_of_each_level(tmp_path: Path, scenario: StatisticsScenario) -> None:
    """The levels count the same rows, missing values stand beside them; the event is that of so many marginals."""
    spec, contract, plan, ledger = scenario.prepared_of(tmp_path, StatisticsPlan)
    ledger.close()
    table = scenario.taken(tmp_path, spec, contract)
    trees = [(draw, draw.addends) for draw in plan.draws if isinstance(draw.addends, ValueTree)]
    assert len(trees) == 3
    with duckdb.connect(str(table.path), read_only=True) as connection:
        (number,) = connection.execute("SELECT count(*) FROM codes").fetchone() or (None,)
    for draw, tree in trees:
        (handle,) = SnapshotSums(table, contract).sums(draw.clique, [tree])
        exact = handle._read()
        assert exact.shape == draw.shape
        levels = np.split(exact, np.cumsum(tree.level_nodes), axis=-1)
        assert all((level.sum(axis=-1) == levels[0].sum(axis=-1)).all() for level in levels[:-1])
        assert levels[-1].shape[-1] == tree.lattice.counts_missing
        assert levels[0].sum() + levels[-1].sum() == number
        k = contract.unit.max_rows_per_unit
        assert draw.event.moves == ((k,) if contract.adjacency == "add_remove" else (k, k)) * tree.levels


def test_leaves_count_the_rows_of_their_intervals(tmp_path: Path) -> None:
    """Bills of the frame itself, clipped and rounded; missing ones are mapped to 0 by the contract."""
    scenario = laplace()
    spec, contract, plan, ledger = scenario.prepared_of(tmp_path, StatisticsPlan)
    ledger.close()
    table = scenario.taken(tmp_path, spec, contract)
    (tree,) = [draw.addends for draw in plan.of_table("all") if isinstance(draw.addends, ValueTree)]
    (handle,) = SnapshotSums(table, contract).sums((), [tree])
    offsets = np.round(np.clip(np.nan_to_num(scenario.frame()["bill"].to_numpy()), 0, 500) / 2.5)
    ends = [(tree.first(leaf), tree.last(leaf)) for leaf in range(tree.leaves)]
    wanted = [int(((offsets >= first) & (offsets <= last)).sum()) for first, last in ends]
    assert handle._read()[-tree.leaves :].tolist() == wanted
    assert sum(wanted) == scenario.rows


def _tree_draw(record: Json) -> Json:
    draw: Json = record["replay"]["draws"][1]
    return draw


def _moved_less(record: Json) -> None:
    """Say that a row moves one node, and not one of each level."""
    _tree_draw(record)["event"]["moves"] = [1]


FORGERIES = {
    "a node": Forgery({8}, files=lambda folder: set_cell(folder / AGES, "noisy", 3, 10**6)),
    "a quantile": Forgery({9}, files=lambda folder: set_cell(folder / "data/ward.parquet", "q50_age", 0, 1.0)),
    "an end": Forgery({9}, files=lambda folder: set_cell(folder / "data/ward.parquet", "q97.5_age_high", 1, 98.5)),
    "nodes in another order": Forgery(
        {8}, files=lambda folder: edit_table(folder / AGES, lambda table: table.take([1, 0, *range(2, len(table))]))
    ),
    "another resolution": Forgery(
        {6}, record=lambda record: _tree_draw(record)["addends"].update({"resolution": "2"})
    ),
    "no resolution": Forgery({6}, record=lambda record: _tree_draw(record)["addends"].pop("resolution")),
    "a resolution that is no number": Forgery(
        {6}, record=lambda record: _tree_draw(record)["addends"].update({"resolution": "fine"})
    ),
    "a resolution of nothing": Forgery(
        {6}, record=lambda record: _tree_draw(record)["addends"].update({"resolution": "0"})
    ),
    "a resolution of infinity": Forgery(
        {6}, record=lambda record: _tree_draw(record)["addends"].update({"resolution": "Infinity"})
    ),
    "fewer moves": Forgery({6}, record=_moved_less),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_found_by_the_rule_it_breaks(worlds: Worlds, tmp_path: Path, name: str) -> None:
    """Everything is signed again; other rules may break beside it, since words and losses follow from the record."""
    FORGERIES[name].check_found(worlds.published(laplace()).copy(tmp_path / "v"))


def test_the_forger_s_tools_alone_change_nothing(worlds: Worlds, tmp_path: Path) -> None:
    version = forge(worlds.published(laplace()).copy(tmp_path / "v"))
    version.assert_verifies()
