"""What is drawn for each kind of statistic: the numbers of the rows themselves, and moves of the worst neighbour."""

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pytest

from contracts.domains.addends import DistinctCount, LoneSum, NarrowedLattice, ValueMagnitudes, ValueMoments
from contracts.domains.trees import ValueTree
from privacy.accounting.events import ExponentialMechanism
from privacy.snapshots.snapshot import SnapshotSums, SnapshotValues
from tests.worlds import statistic_kinds as kinds
from tests.worlds.distinct_counts import gaussian, laplace
from tests.worlds.private_keys import KeyScenario
from tests.worlds.statistic_kinds import under_both
from tests.worlds.statistics import StatisticsScenario


@under_both("clips")
def test_the_charge_is_fixed_before_any_clip_is_known(tmp_path: Path, scenario: StatisticsScenario):
    """A budget of the later draws' parts beside the histograms and the other draws; together at most epsilon."""
    _, contract, plan = scenario.planned(tmp_path)
    budget = plan.events[-1]
    later = [draw.noise for draw in plan.draws if draw.clip is not None]
    assert budget.kind == ("pure" if plan.mechanism == "laplace" else "zero_concentrated")
    name = "epsilon" if plan.mechanism == "laplace" else "rho"
    assert getattr(budget, name) == sum(getattr(noise, name) for noise in later)
    assert len(plan.events) == plan.number - len(later) + 1
    shares = {draw.key: draw.share for draw in (*plan.clips, *plan.draws, *plan.choices)}
    assert sum(shares.values()) == 1
    assert shares["clip:age/1"] == Fraction(1, 4) / 2 / 10
    assert shares["clip:bill/2.5"] == Fraction(1, 2) / 2 / 5 + Fraction(1, 4) / 2 / 10
    assert plan.epsilon <= Decimal(scenario.epsilon) * 10**12
    k = contract.unit.max_rows_per_unit
    assert all(set(draw.event.moves) == {k} for draw in plan.clips)


def test_histograms_and_clipped_sums_are_those_of_the_rows(tmp_path: Path):
    """From the frame itself; a handle on a part of a lattice never gives the numbers of another part, or of all."""
    scenario = kinds.clips()
    contract, plan, table = scenario.snapshot(tmp_path)
    (magnitudes,) = [draw.addends for draw in plan.clips if isinstance(draw.addends, ValueMagnitudes)][1:]
    whole = magnitudes.lattice
    parts = [magnitudes.narrowed(0, 32), magnitudes.narrowed(5, 64), magnitudes.narrowed(33, 360)]
    handles = SnapshotSums(table, contract).sums((), [whole, *parts, magnitudes])
    bills = np.nan_to_num(scenario.frame()["bill"].to_numpy())
    offsets = np.round(np.clip(bills, 0, 900) / 2.5).astype(np.int64)
    exact = [handle._read() for handle in handles]
    for lattice, found in zip([whole, *parts], exact, strict=False):
        first = lattice.first if isinstance(lattice, NarrowedLattice) else 0
        above = np.clip(offsets - first, 0, lattice.width)
        assert found.tolist() == [above.sum(), (lattice.width - above).sum()]
    wanted = [int(((offsets >= first) & (offsets <= last)).sum()) for first, last in magnitudes.bins]
    assert exact[-1].tolist() == wanted
    with duckdb.connect(str(table.path), read_only=True) as connection:
        assert connection.execute("SELECT count(*) FROM codes").fetchone() == (sum(wanted),)


def told_apart(rows: pl.DataFrame, column: str | None) -> int:
    """Count units or different values by hand: ages and bills are clipped, missing bills are 0, floors else are 9."""
    if column is None:
        return rows["patient"].n_unique()
    values = rows[column].to_list()
    if column == "note":
        values = [None if text is None else text.strip(" ") for text in values]
        fit = lambda text: text not in (None, "", "none", "(null)", "(others)", "a; =1+1", "bell\x07")  # noqa: E731
        return len({text for text in values if fit(text) and len(text) <= 40 and "\u202e" not in text})
    if column == "age":
        return len({min(99, max(0, age)) for age in values if age is not None})
    if column == "bill":
        steps = np.floor(np.clip(np.nan_to_num(np.array(values, dtype=float)), 0, 900) / 0.1 + 0.5)
        return int(np.unique(steps).size)
    if column == "ward":
        return len({ward for ward in values if ward != "nowhere"})
    return len(set(values))


@pytest.mark.usefixtures("every_row_kept")
@pytest.mark.parametrize("scenario", [laplace, gaussian], ids=["laplace", "gaussian"])
def test_what_is_drawn_are_the_different_values_of_the_rows_that_are_kept(
    tmp_path: Path, scenario: Callable[[], KeyScenario]
):
    """Of the frame itself, by ward and over all rows. Moves: three rows of a unit, or it in three or six cells."""
    contract, plan, table = scenario().snapshot(tmp_path)
    with duckdb.connect(str(table.path), read_only=True) as connection:
        kept = connection.execute("SELECT * FROM raw").pl()
    assert kept.group_by("patient").len()["len"].max() == 3
    wards = contract.column("ward").domain.labels
    for draw in plan.draws:
        if not isinstance(draw.addends, DistinctCount) or draw.clique not in ((), ("ward",)):
            continue
        (handle,) = SnapshotSums(table, contract).sums(draw.clique, [draw.addends])
        exact = handle._read()
        groups = [kept] if not draw.clique else [kept.filter(pl.col("ward") == ward) for ward in wards[:-1]]
        found = [told_apart(each, draw.addends.column) for each in groups]
        assert exact.reshape(-1)[: len(found)].tolist() == found, draw.key
    moves = {draw.key: draw.event.moves for draw in plan.draws if isinstance(draw.addends, DistinctCount)}
    sides = 1 if contract.adjacency == "add_remove" else 2
    assert moves["table:ward/distinct/note"] == (3,) * sides
    assert moves["table:ward/units"] == (1,) * min(3 * sides, len(wards))
    assert moves["table:every/units"] == (1,)  # one cell holds a unit once, whatever its rows
    assert moves["table:every/distinct/age"] == (3,)
    assert moves["table:beside/units"] == (1,) * 3 * sides


@under_both("moments")
def test_what_is_drawn_are_the_sums_of_the_rows(tmp_path: Path, scenario: StatisticsScenario):
    """Of the frame itself: values clipped and rounded, missing bills 0, missing ages apart."""
    contract, plan, table = scenario.snapshot(tmp_path)
    k = contract.unit.max_rows_per_unit
    relation = 1 if contract.adjacency == "add_remove" else 2
    assert [type(draw.addends).__name__ for draw in plan.draws] == [
        *("ValueMoments", "ValueMoments", "LoneSum", "ValueLattice", "LoneSum", "ValueMoments")
    ]
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


@pytest.mark.usefixtures("every_row_kept")
@pytest.mark.parametrize("scenario", [kinds.quotas(), kinds.quotas_of_rows()], ids=["three rows", "one row"])
def test_what_is_drawn_is_cut_unit_by_unit(tmp_path: Path, scenario: StatisticsScenario):
    """Of the rows themselves: nobody adds more than the quota over all cells; who has less adds all of it."""
    contract, plan, table = scenario.snapshot(tmp_path)
    form = plan.draws[0].addends
    assert isinstance(form, LoneSum)
    assert plan.draws[0].event.moves == (160,)
    with duckdb.connect(str(table.path), read_only=True) as connection:
        raw = connection.execute("SELECT * FROM raw").pl()
    bills = (raw["bill"].fill_nan(0).clip(0, 500) / 2.5).round()
    units = raw["patient"] if contract.unit.max_rows_per_unit > 1 else pl.Series(range(len(raw)))
    totals = pl.DataFrame({"unit": units, "steps": bills}).group_by("unit").agg(pl.col("steps").sum())["steps"]
    (handle,) = SnapshotSums(table, contract).sums(("ward",), [form])
    assert handle._read().sum() == totals.clip(0, 160).sum() < totals.sum()


@under_both("trees")
def test_a_row_moves_one_node_of_each_level(tmp_path: Path, scenario: StatisticsScenario):
    """The levels count the same rows, missing values stand beside them; the event is that of so many marginals."""
    contract, plan, table = scenario.snapshot(tmp_path)
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


def test_leaves_count_the_rows_of_their_intervals(tmp_path: Path):
    """Bills of the frame itself, clipped and rounded; missing ones are mapped to 0 by the contract."""
    scenario = kinds.trees()
    contract, plan, table = scenario.snapshot(tmp_path)
    (tree,) = [draw.addends for draw in plan.of_table("all") if isinstance(draw.addends, ValueTree)]
    (handle,) = SnapshotSums(table, contract).sums((), [tree])
    offsets = np.round(np.clip(np.nan_to_num(scenario.frame()["bill"].to_numpy()), 0, 500) / 2.5)
    ends = [(tree.first(leaf), tree.last(leaf)) for leaf in range(tree.leaves)]
    wanted = [int(((offsets >= first) & (offsets <= last)).sum()) for first, last in ends]
    assert handle._read()[-tree.leaves :].tolist() == wanted
    assert sum(wanted) == scenario.rows


@under_both("choices")
def test_the_price_of_choices_is_a_part_of_the_tree_s(tmp_path: Path, scenario: StatisticsScenario):
    """Choices and their tree have together what the tree alone would have: of its share three quarters and one."""
    _, _, plan = scenario.planned(tmp_path)
    trees = {draw.key: draw.share for draw in plan.draws}
    for each in plan.choices:
        assert each.share == 3 * trees[f"table:{each.table}/quantiles/{each.choices.column}"]
        assert isinstance(each.event, ExponentialMechanism)
    assert [each.key for each in plan.choices] == ["table:ward/choice/age", "table:all/choice/bill"]
    assert sum(each.share for each in (*plan.draws, *plan.choices)) == 1


def test_the_values_of_a_snapshot_are_those_of_its_rows(tmp_path: Path):
    """Bills of the frame itself, clipped and rounded; missing ages have no line."""
    scenario = kinds.choices()
    contract, plan, table = scenario.snapshot(tmp_path)
    ages, bills = (SnapshotValues(table, contract).values(each.clique, each.choices)._read() for each in plan.choices)
    exact = np.round(np.clip(np.nan_to_num(scenario.frame()["bill"].to_numpy()), 0, 500) / 2.5)
    wanted = np.unique(exact, return_counts=True)
    assert (bills[:, 0] == 0).all()
    assert bills[:, 1].tolist() == wanted[0].tolist()
    assert bills[:, 2].tolist() == wanted[1].tolist()
    assert ages[:, 2].sum() == scenario.frame()["age"].drop_nulls().len()
    assert (np.lexsort((ages[:, 1], ages[:, 0])) == np.arange(len(ages))).all()
    assert 0 <= ages[:, 1].min() <= ages[:, 1].max() <= 99
