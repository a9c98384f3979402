"""How far a unit moves distinct counts, sums within a quota and counts inside bins: by brute force."""

from decimal import Decimal
from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import log
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from contracts.contract.contract import Adjacency
from contracts.domains.addends import DistinctCount, LoneSum
from contracts.domains.lattice import ValueLattice
from contracts.domains.text import KeyColumn, UnitOrder
from contracts.domains.trees import BinTree
from privacy.accounting.events import CountNoise, DiscreteGaussian, DiscreteLaplace
from privacy.accounting.renyi import renyi
from privacy.grant.queries.cell_sums import CellSumQuery
from privacy.grant.queries.query import Relation
from privacy.marginals.cell_sums import PrivateCellSums, cell_sum_event
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise, distinct_moves, noise_event
from privacy.private_table import PrivateTable
from privacy.snapshots.scans import count_between_cuts, sum_within_quota
from tests.contracts.domains.test_value_forms import tree_of, whole
from tests.privacy.marginals.test_cell_sums import laplace_losses, together

Change = tuple[int, ...]
VALUES = 2
UNITS = DistinctCount(None, None, True)


def counts(rows: tuple[tuple[int, int], ...], cells: int) -> Change:
    """Count the different values in each cell; a row is a cell and a value."""
    return tuple(len({value for place, value in rows if place == cell}) for cell in range(cells))


def distinct_changes(counted: DistinctCount, rows: int, adjacency: Adjacency, cells: int) -> set[Change]:
    """All changes that one unit of up to so many rows can make, beside all tables of others."""
    places = list(product(range(cells), range(VALUES)))
    of_unit = [each for number in range(rows + 1) for each in combinations_with_replacement(places, number)]
    if counted.column is None:
        seen = {tuple(int(any(place == cell for place, _ in own)) for cell in range(cells)) for own in of_unit}
        pairs = product(seen, seen) if adjacency == "replace_one" else ((each, (0,) * cells) for each in seen)
        return {tuple(a - b for a, b in zip(*pair, strict=True)) for pair in pairs}
    beside = [each for number in range(cells * VALUES + 1) for each in combinations_with_replacement(places, number)]
    others = {frozenset(each) for each in beside}
    found = set()
    for other in others:
        whole = {counts((*other, *own), cells) for own in of_unit}
        left = whole if adjacency == "replace_one" else {counts(tuple(other), cells)}
        found |= {tuple(a - b for a, b in zip(one, two, strict=True)) for one in whole for two in left}
    return found


@pytest.mark.parametrize("cells", [1, 2, 3])
@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("counted", [UNITS, DistinctCount("note", None, True), DistinctCount("sex", VALUES, True)])
def test_no_change_is_worse_than_the_moves(counted: DistinctCount, adjacency: Adjacency, rows: int, cells: int):
    """L1 for pure losses, L2 for Gaussian noise, Rényi losses of Laplace noise; declared values reach. Two values are
    all that there is, so texts, of which nobody knows how many, may stay below."""
    terms = {"adjacency": adjacency, "rows_per_unit": rows, "cells": cells}
    laplace = cell_sum_event(LaplaceNoise(Fraction(1)), counted, **terms)  # type: ignore[arg-type]
    gaussian = cell_sum_event(GaussianNoise(Fraction(1, 2)), counted, **terms)  # type: ignore[arg-type]
    assert isinstance(laplace, DiscreteLaplace)
    assert isinstance(gaussian, DiscreteGaussian)
    found = {
        tuple(sorted((abs(each) for each in change if each), reverse=True)) for change in changes_of(counted, terms)
    }
    assert max(map(sum, found)) <= sum(laplace.moves)
    assert max(sum(each * each for each in change) for change in found) <= sum(each**2 for each in gaussian.moves)
    for order in (Fraction(3, 2), Fraction(4), Fraction(40)):
        most = renyi(laplace, order)
        for change in found - {()}:
            assert renyi(DiscreteLaplace(laplace.inverse_scale, change), order) <= most * (1 + 1e-9)
    if counted.values is not None and adjacency == "add_remove":
        assert laplace.moves in found


def changes_of(counted: DistinctCount, terms: dict[str, object]) -> set[Change]:
    return distinct_changes(counted, terms["rows_per_unit"], terms["adjacency"], terms["cells"])  # type: ignore[arg-type]


@pytest.mark.parametrize("counted", [UNITS, DistinctCount("note", None, True)])
def test_a_bound_of_one_row_less_is_exceeded(counted: DistinctCount):
    """The comparison above finds it: three rows in three cells, priced as two."""
    event = cell_sum_event(LaplaceNoise(Fraction(1)), counted, adjacency="add_remove", rows_per_unit=2, cells=3)
    assert isinstance(event, DiscreteLaplace)
    assert max(sum(map(abs, change)) for change in distinct_changes(counted, 3, "add_remove", 3)) > sum(event.moves)


@pytest.mark.parametrize(
    ("adjacency", "rows", "most", "cells", "moves"),
    [
        ("add_remove", 5, None, None, (5,)),
        ("replace_one", 5, None, None, (5, 5)),
        ("replace_one", 5, None, 1, (5,)),
        ("add_remove", 5, 1, None, (1,) * 5),
        ("add_remove", 5, 1, 3, (1,) * 3),
        ("replace_one", 5, 1, 30, (1,) * 10),
        ("add_remove", 5, 2, None, (2, 2, 1)),
        ("replace_one", 5, 2, 3, (2, 2, 2)),
        ("add_remove", 5, 9, 1, (5,)),
        ("add_remove", 4096, 1, None, (1,) * 4096),
        ("add_remove", 10**6, 1, None, (245,) * 4081 + (155,)),
    ],
)
def test_moves_by_hand(adjacency: Adjacency, rows: int, most: int | None, cells: int | None, moves: tuple[int, ...]):
    """The last is a list of 4,096 entries at most: fewer cells that move farther, and the same L1."""
    assert distinct_moves(adjacency, rows, most_per_cell=most, cells=cells) == moves


def test_cells_that_are_not_declared_bound_nothing():
    """Of selected keys nobody knows the number before: the event is that of the plan, whatever was selected."""
    counted = DistinctCount(None, None, False)
    events = {
        cell_sum_event(LaplaceNoise(Fraction(1)), counted, adjacency="add_remove", rows_per_unit=4, cells=cells)
        for cells in (1, 2, None)
    }
    assert [event.moves for event in events] == [(1,) * 4]


CLIPS = [("0", "3"), ("2", "3"), ("-2", "2"), ("-1", "3"), ("-3", "-1")]
Rows = tuple[tuple[int, int], ...]
"""Of a unit in its order: the cell and what stands in the snapshot for the value of each row."""


def form_of(low: str, high: str, per_unit: int | None) -> LoneSum:
    lattice = ValueLattice("pay", Decimal(low), Decimal(high), Decimal(1), counts_missing=True)
    return LoneSum(lattice, None if per_unit is None else Decimal(per_unit))


def every_unit(form: LoneSum, rows: int) -> list[Rows]:
    """All units of up to so many rows in two cells, values and missing ones, in every order."""
    places = list(product((0, 1), range(form.lattice.width + 2)))
    return [unit for number in range(rows + 1) for unit in product(places, repeat=number)]


def scanned(folder: Path, form: LoneSum, units: list[Rows]) -> NDArray[np.int64]:
    """What each unit adds to the two cells, by one scan: each of them alone in a world of its own."""
    lines = [
        (world, cell, stored, f"p{world}", place)
        for world, unit in enumerate(units)
        for place, (cell, stored) in enumerate(unit, 1)
    ]
    names = ["world", "cell", form.lattice.name, KeyColumn("person").name, UnitOrder("person").name]
    frame = pl.DataFrame(lines, schema=names, orient="row").sample(fraction=1.0, shuffle=True, seed=1)
    path = folder / f"{form.lattice.name}{form.per_unit}.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.register("rows", frame.to_arrow())
        connection.execute("CREATE TABLE codes AS SELECT * FROM rows")
    found = sum_within_quota(
        PrivateTable(path, "", "", ""), ("world", "cell"), (len(units), 2), form, "person", threads=2
    )
    return found.reshape(len(units), 2)


def added(form: LoneSum, unit: Rows) -> list[int]:
    totals, left = [0, 0], form.quota or 0
    for cell, stored in unit:
        value = 0 if stored == 0 else form.low_steps + stored - 1
        part = max(-left, min(left, value))
        totals[cell] += part
        left -= abs(part)
    return totals


def changes(sums: NDArray[np.int64], adjacency: str) -> NDArray[np.int64]:
    known = np.unique(sums, axis=0)
    if adjacency == "add_remove":
        return known
    return np.unique((known[:, None] - known[None]).reshape(-1, 2), axis=0)


def events(form: LoneSum, adjacency: Adjacency, rows: int) -> tuple[CountNoise, CountNoise]:
    terms = {"adjacency": adjacency, "rows_per_unit": rows}
    laplace = cell_sum_event(LaplaceNoise(Fraction(1)), form, **terms)  # type: ignore[arg-type]
    return laplace, cell_sum_event(GaussianNoise(Fraction(1, 2)), form, **terms)  # type: ignore[arg-type]


def loss(change: NDArray[np.int64] | tuple[int, ...], scale: float, order: float) -> float:
    """The Renyi loss of discrete Laplace noise on some numbers that move, by the law of the loss."""
    losses, chances = together(*(laplace_losses(int(each), scale) for each in change if each))
    return log(float((chances * np.exp((order - 1) * losses)).sum())) / (order - 1)


@pytest.mark.parametrize(("low", "high"), CLIPS)
def test_no_unit_moves_the_sums_further_than_the_quota(tmp_path: Path, low: str, high: str):
    """L1, for pure losses, is reached exactly; L2 and the Renyi losses of the moves are never exceeded."""
    for per_unit in (1, 2, 4):
        form = form_of(low, high, per_unit)
        rows = 1 if per_unit < form.reach else 2
        units = every_unit(form, rows)
        sums = scanned(tmp_path, form, units)
        assert sums.tolist() == [added(form, unit) for unit in units]
        for adjacency in ("add_remove", "replace_one"):
            laplace, gaussian = events(form, adjacency, rows)
            found = changes(sums, adjacency)
            assert np.abs(found).sum(axis=1).max() == sum(laplace.moves)
            assert sum(laplace.moves) == per_unit * (1 if adjacency == "add_remove" else 2)
            assert (found**2).sum(axis=1).max() <= sum(move**2 for move in gaussian.moves)
            assert isinstance(laplace, DiscreteLaplace)
            scale = float(laplace.inverse_scale)
            for order in (1.5, 20.0):
                worst = loss(laplace.moves, scale, order)
                assert all(loss(each, scale, order) <= worst + 1e-12 for each in found if each.any())


def test_a_scan_that_forgets_the_quota_is_found_out(tmp_path: Path):
    """Rows that are each cut to the quota, and not together: two of them move the sums twice as far."""
    form = form_of("0", "3", 2)
    units = every_unit(form, 2)
    alone = scanned(tmp_path, form, [unit[:1] for unit in units]) + scanned_second(tmp_path, form, units)
    laplace, _ = events(form, "add_remove", 2)
    assert np.abs(alone).sum(axis=1).max() == 2 * sum(laplace.moves)


def scanned_second(folder: Path, form: LoneSum, units: list[Rows]) -> NDArray[np.int64]:
    """What the second row of each unit adds where the first one takes nothing of the quota."""
    (folder / "second").mkdir()
    return scanned(folder / "second", form, [unit[1:] for unit in units])


def test_the_quota_hides_less_than_the_clip_of_all_rows():
    """Four steps in place of 3 rows of 3 steps; the form without a quota keeps its price."""
    (bounded, _), (whole, _) = (events(form_of("0", "3", each), "add_remove", 3) for each in (4, None))
    assert (bounded.moves, whole.moves) == ((4,), (9,))
    (bounded, _), (whole, _) = (events(form_of("-2", "3", each), "replace_one", 3) for each in (4, None))
    assert (bounded.moves, whole.moves) == ((8,), (18,))


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_a_sum_and_its_count_cost_what_their_draws_cost_together(tmp_path: Path, adjacency: Adjacency):
    """The worst unit moves both as far as they can be moved at once: no joint price is below the sum of the two."""
    form, rows = form_of("0", "3", 4), 2
    units = every_unit(form, rows)
    numbers = np.hstack(
        [scanned(tmp_path, form, units), [[sum(c == cell for c, _ in u) for cell in (0, 1)] for u in units]]
    )
    known = np.unique(numbers, axis=0)
    moved = known if adjacency == "add_remove" else (known[:, None] - known[None]).reshape(-1, 4)
    terms = {"adjacency": adjacency, "rows_per_unit": rows}
    summed = cell_sum_event(LaplaceNoise(Fraction(2, 3)), form, **terms)  # type: ignore[arg-type]
    counted = noise_event(LaplaceNoise(Fraction(1, 3)), **terms)  # type: ignore[arg-type]
    assert isinstance(summed, DiscreteLaplace)
    assert isinstance(counted, DiscreteLaplace)
    scales = np.array([float(summed.inverse_scale)] * 2 + [float(counted.inverse_scale)] * 2)
    assert 1 - 1e-9 < (np.abs(moved) @ scales).max() <= 1


TREE = tree_of(whole([-3, 1, 40, 96]))
STORED = (0, 1, 4, 5, 100)
"""Missing, the lower bound, 0, a value inside a bin, the upper bound: as a snapshot has them."""


def counted(folder: Path, rows: tuple[int, ...], tree: BinTree = TREE) -> NDArray[np.int64]:
    """Count rows by the real scan, and put nodes above leaves by another route."""
    path = folder / "snapshot.duckdb"
    path.unlink(missing_ok=True)
    with duckdb.connect(str(path)) as connection:
        connection.register("rows", pl.DataFrame({tree.lattice.name: np.array(rows, dtype=np.int64)}))
        connection.execute("CREATE TABLE codes AS SELECT * FROM rows")
    found = count_between_cuts(PrivateTable(path, "0" * 64, "0" * 64, "rows"), (), (), tree, threads=1)[0]
    nodes = []
    for size in tree.level_leaves:
        nodes += [
            found[1 + start : 1 + min(start + size, tree.leaves)].sum() for start in range(0, tree.leaves, size)
        ]
    return np.array([*nodes, found[0]], dtype=np.int64)


@pytest.mark.long
def test_each_row_is_in_one_leaf_and_a_missing_value_beside_them(tmp_path: Path):
    """Against the definition: offset o stands as o + 1; -3 is the lower bound."""
    for stored in range(101):
        found = counted(tmp_path, (stored,))
        assert found.sum() == (1 if stored == 0 else TREE.levels)
        leaves = found[-1 - TREE.leaves : -1]
        wanted = [TREE.first(leaf) <= stored - 1 <= TREE.last(leaf) for leaf in range(TREE.leaves)]
        assert leaves.tolist() == [int(each) for each in wanted]
    assert TREE.levels > 1


@pytest.mark.long
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_no_neighbour_moves_counts_further_than_the_event_says(tmp_path: Path, adjacency: Adjacency):
    """All changes of one unit of up to two rows: L1 and L2 are at most the event's, and both are reached."""
    event = cell_sum_event(GaussianNoise(Fraction(1, 2)), TREE, adjacency=adjacency, rows_per_unit=2)
    worst = sum(event.moves), sum(move * move for move in event.moves)
    alone = {rows: counted(tmp_path, rows) for size in (0, 1, 2) for rows in product(STORED, repeat=size)}
    if adjacency == "add_remove":
        changes = list(alone.values())
    else:
        changes = [new - old for new in alone.values() for old in alone.values()]
    norms = [(int(np.abs(change).sum()), int((change * change).sum())) for change in changes]
    assert max(one for one, _ in norms) == worst[0]
    assert max(two for _, two in norms) == worst[1]


def test_a_price_that_forgets_a_level_is_exceeded(tmp_path: Path):
    change = counted(tmp_path, (5,))
    event = cell_sum_event(LaplaceNoise(Fraction(1)), TREE, adjacency="add_remove", rows_per_unit=1)
    assert isinstance(event, DiscreteLaplace)
    assert np.abs(change).sum() > len(event.moves) - 1


@pytest.mark.parametrize("cuts", [(), (1, 2, 3), (0, 2, 2), (0, 5, 3), (0, 400)])
def test_a_grant_refuses_cuts_that_leave_an_offset_without_a_leaf(cuts: tuple[int, ...]):
    """The query's own check, which the grant asks before it opens a handle."""
    lattice = ValueLattice("pay", TREE.lattice.low, TREE.lattice.high, TREE.lattice.step, counts_missing=True)

    def never(_: object) -> NDArray[np.int64]:
        raise AssertionError("opened")

    sums = PrivateCellSums((), (), BinTree(lattice, cuts), "a", "b", never)
    query = CellSumQuery(sums, GaussianNoise(Fraction(1)))
    with pytest.raises(ValueError, match="allowed offsets that rise"):
        query.check(Relation("add_remove", 1, None))


def test_the_cuts_are_part_of_what_a_run_that_resumes_asks_for_again():
    one, other = (PrivateCellSums((), (), tree, "a", "b", lambda _: np.zeros(1, np.int64)) for tree in _two())
    noise, relation = GaussianNoise(Fraction(1)), Relation("add_remove", 1, None)
    identities = [CellSumQuery(each, noise).identity(relation, 0) for each in (one, other)]
    assert identities[0] != identities[1]
    assert isinstance(CellSumQuery(one, noise).event(relation), DiscreteGaussian)


def _two() -> tuple[BinTree, BinTree]:
    return TREE, BinTree(TREE.lattice, TREE.cuts[:-2] + TREE.cuts[-1:])
