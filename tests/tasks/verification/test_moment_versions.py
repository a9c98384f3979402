"""Versions with variances and with sums alone: they verify, follow from the rows, and forgeries of them are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from contracts.domains.addends import LoneSum, ValueMoments
from privacy.snapshots.snapshot import SnapshotSums
from privacy.statistics.plan import StatisticsPlan
from tests.tasks.verification.forgery import Forgery, Json, edit_table, forge, set_cell
from tests.worlds.statistics import StatisticsScenario, of_tables, three_rows
from tests.worlds.versions import Worlds

TABLES = """[
  {by: [ward], of: [count, {variance: age}, {mean: age}, {sum: age}]},
  {by: [], of: [{sd: bill, clip: [0, 500], step: 2.5}, {variance: bill}]},
  {by: [insured], name: alone, of: [{sum: age, clip: [18, 90], step: 2}, {sum: bill, clip: [0, 500]}]},
  {by: [floor], name: only, of: [{sum: age, clip: [20, 80]}]},
  {by: [age, ward], name: zeros, of: [{sd: bill}, {sum: bill}]}]"""
AGES = "measurements/0000-ward_x_age.parquet"


def laplace() -> StatisticsScenario:
    """Missing ages, excluded cells, clips away from 0; Parquet and CSV."""
    return replace(of_tables(TABLES, release="moments"), formats="[parquet, csv]")


@pytest.mark.long
@pytest.mark.parametrize("scenario", [laplace(), three_rows(TABLES)], ids=["laplace", "gaussian"])
def test_a_version_with_variances_and_sums_alone_verifies(worlds: Worlds, scenario: StatisticsScenario) -> None:
    version = worlds.published(scenario)
    version.assert_verifies()
    table = pl.read_parquet(version.folder / "data/ward.parquet")
    assert table["variance_age"].is_between(0, 99**2 / 4).all()
    assert (table["variance_age_low"] <= table["variance_age"]).all()
    assert (table["variance_age"] <= table["variance_age_high"]).all()
    every = pl.read_parquet(version.folder / "data/all.parquet")
    for end in ("", "_low", "_high"):
        roots = every[f"variance_bill_clipped{end}"].sqrt().to_list()
        assert every[f"sd_bill_clipped{end}"].to_list() == pytest.approx(roots, rel=0.05)


def test_where_nothing_counts_rows_no_cell_is_called_empty(worlds: Worlds) -> None:
    """A sum alone has no count beside it; another column's sum, or a variance, brings one."""
    version = worlds.published(laplace())
    found = {path.stem: pl.read_parquet(path).columns for path in (version.folder / "data").glob("*.parquet")}
    assert found["only"] == ["floor", *(f"sum_age_clipped{end}" for end in ("", "_low", "_high"))]
    assert all(columns[-1] == "near_zero" for name, columns in found.items() if name != "only")


def test_cells_that_hold_nobody_have_no_deviation(worlds: Worlds) -> None:
    """Ages from 75 on are excluded among children."""
    rows = pl.read_parquet(worlds.published(laplace()).folder / "data/zeros.parquet").rows(named=True)
    (empty,) = [row for row in rows if row["ward"] == "children" and str(row["age"]).startswith("75")]
    assert [empty[f"sd_bill{end}"] for end in ("_low", "", "_high")] == [None, None, None]
    assert [empty[f"sum_bill{end}"] for end in ("_low", "", "_high")] == [0, 0, 0]


@pytest.mark.parametrize("scenario", [laplace(), three_rows(TABLES)], ids=["laplace", "gaussian"])
def test_what_is_drawn_are_the_sums_of_the_rows(tmp_path: Path, scenario: StatisticsScenario) -> None:
    """Of the frame itself: values clipped and rounded, missing bills 0, missing ages apart."""
    spec, contract, plan, ledger = scenario.prepared_of(tmp_path, StatisticsPlan)
    ledger.close()
    table, k = scenario.taken(tmp_path, spec, contract), contract.unit.max_rows_per_unit
    relation = 1 if contract.adjacency == "add_remove" else 2
    kinds = [type(draw.addends).__name__ for draw in plan.draws]
    assert kinds == ["ValueMoments", "ValueMoments", "LoneSum", "ValueLattice", "LoneSum", "ValueMoments"]
    for draw in plan.draws:
        assert draw.addends is not None
        assert draw.event.moves == (k * draw.addends.row_moves[0],) * relation
    bills = np.round(np.clip(np.nan_to_num(scenario.frame()["bill"].to_numpy()), 0, 500) / 2.5).astype(np.int64)
    moments = plan.draws[1].addends
    assert isinstance(moments, ValueMoments)
    (handle,) = SnapshotSums(table, contract).sums((), [moments])
    if k == 1:
        times = moments.whole // 200**2
        parts = [((200 - bills) ** 2).sum(), (2 * bills * (200 - bills)).sum(), (bills**2).sum()]
        assert handle._read().tolist() == [each * times for each in parts]
    alone = plan.draws[4].addends
    assert isinstance(alone, LoneSum)
    (handle,) = SnapshotSums(table, contract).sums((), [alone])
    if k == 1:
        ages = scenario.frame()["age"].drop_nulls().to_numpy()
        assert handle._read().tolist() == [int(np.clip(ages, 20, 80).sum())]


def _draw(record: Json, place: int) -> Json:
    draw: Json = record["replay"]["draws"][place]
    return draw


def _addends(place: int, **changed: Any) -> Callable[[Json], object]:
    """Change what a draw says that it adds up; None takes it out."""

    def change(record: Json) -> None:
        stated = _draw(record, place)["addends"]
        stated.update({key: value for key, value in changed.items() if value is not None})
        for key in [key for key, value in changed.items() if value is None]:
            stated.pop(key)

    return change


def _set(name: str, column: str, row: int, value: float) -> Callable[[Path], object]:
    return lambda folder: set_cell(folder / name, column, row, value)


def _deviation_of_nobody(folder: Path) -> None:
    rows = pl.read_parquet(folder / "data/zeros.parquet")["sd_bill"].is_null()
    set_cell(folder / "data/zeros.parquet", "sd_bill", int(rows.arg_max()), 225.0)  # type: ignore[arg-type]


def _more_digits(folder: Path) -> None:
    found = pl.read_parquet(folder / "data/ward.parquet")["variance_age"]
    row = int(found.is_not_null().arg_max())  # type: ignore[arg-type]
    set_cell(folder / "data/ward.parquet", "variance_age", row, found[row] + 0.0625)


FORGERIES = {
    "a moment": Forgery({8}, files=_set(AGES, "noisy", 3, 10**9)),
    "a variance": Forgery({9}, files=_set("data/ward.parquet", "variance_age", 0, 1.0)),
    "an end of a variance": Forgery({9}, files=_set("data/ward.parquet", "variance_age_high", 1, 98.5)),
    "a deviation of nobody": Forgery({9}, files=_deviation_of_nobody),
    "more digits than were published": Forgery({9}, files=_more_digits),
    "a deviation": Forgery({9}, files=_set("data/all.parquet", "sd_bill_clipped_low", 0, 3.0)),
    "a sum alone": Forgery({9}, files=_set("data/only.parquet", "sum_age_clipped", 0, 7.0)),
    "a column that says nobody is there": Forgery(
        {9},
        files=lambda folder: edit_table(
            folder / "data/only.parquet", lambda table: table.append_column("near_zero", [[True] * len(table)])
        ),
    ),
    "fewer steps": Forgery({6}, record=_addends(0, whole=99**2)),
    "no steps": Forgery({6}, record=_addends(0, whole=0)),
    "steps below 0": Forgery({6}, record=_addends(0, whole=-4)),
    "steps beyond all bounds": Forgery({6}, record=_addends(0, whole=10**30)),
    "moments that are two sums": Forgery({6}, record=_addends(0, whole=None)),
    "a sum alone that is two sums": Forgery({6}, record=_addends(4, alone=None)),
    "two sums that are one": Forgery({6}, record=_addends(3, alone=True)),
    "both forms": Forgery({6}, record=_addends(4, whole=65536)),
    "the length of the clip for the move": Forgery(
        {6}, record=lambda record: _draw(record, 4)["event"].update({"moves": [60]})
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_found_by_the_rule_it_breaks(worlds: Worlds, tmp_path: Path, name: str) -> None:
    """Everything is signed again; other rules may break beside it, since words and losses follow from the record."""
    FORGERIES[name].check_found(worlds.published(laplace()).copy(tmp_path / "v"))


def test_the_forger_s_tools_alone_change_nothing(worlds: Worlds, tmp_path: Path) -> None:
    version = forge(worlds.published(laplace()).copy(tmp_path / "v"))
    version.assert_verifies()
