"""Counts inside bins: how far one unit moves them, over all neighbours of small tables, counted by the real scan."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from contracts.contract.contract import Adjacency
from contracts.domains.lattice import ValueLattice
from contracts.domains.trees import BinTree
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace
from privacy.grant.queries.cell_sums import CellSumQuery
from privacy.grant.queries.query import Relation
from privacy.marginals.cell_sums import PrivateCellSums, cell_sum_event
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise
from privacy.private_table import PrivateTable
from privacy.snapshots.scans import count_between_cuts
from tests.contracts.domains.test_value_forms import tree_of, whole

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
def test_each_row_is_in_one_leaf_and_a_missing_value_beside_them(tmp_path: Path) -> None:
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
def test_no_neighbour_moves_counts_further_than_the_event_says(tmp_path: Path, adjacency: Adjacency) -> None:
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


def test_a_price_that_forgets_a_level_is_exceeded(tmp_path: Path) -> None:
    change = counted(tmp_path, (5,))
    event = cell_sum_event(LaplaceNoise(Fraction(1)), TREE, adjacency="add_remove", rows_per_unit=1)
    assert isinstance(event, DiscreteLaplace)
    assert np.abs(change).sum() > len(event.moves) - 1


@pytest.mark.parametrize("cuts", [(), (1, 2, 3), (0, 2, 2), (0, 5, 3), (0, 400)])
def test_a_grant_refuses_cuts_that_leave_an_offset_without_a_leaf(cuts: tuple[int, ...]) -> None:
    """The query's own check, which the grant asks before it opens a handle."""
    lattice = ValueLattice("pay", TREE.lattice.low, TREE.lattice.high, TREE.lattice.step, counts_missing=True)

    def never(_: object) -> NDArray[np.int64]:
        raise AssertionError("opened")

    sums = PrivateCellSums((), (), BinTree(lattice, cuts), "a", "b", never)
    query = CellSumQuery(sums, GaussianNoise(Fraction(1)))
    with pytest.raises(ValueError, match="allowed offsets that rise"):
        query.check(Relation("add_remove", 1, None))


def test_the_cuts_are_part_of_what_a_run_that_resumes_asks_for_again() -> None:
    one, other = (PrivateCellSums((), (), tree, "a", "b", lambda _: np.zeros(1, np.int64)) for tree in _two())
    noise, relation = GaussianNoise(Fraction(1)), Relation("add_remove", 1, None)
    identities = [CellSumQuery(each, noise).identity(relation, 0) for each in (one, other)]
    assert identities[0] != identities[1]
    assert isinstance(CellSumQuery(one, noise).event(relation), DiscreteGaussian)


def _two() -> tuple[BinTree, BinTree]:
    return TREE, BinTree(TREE.lattice, TREE.cuts[:-2] + TREE.cuts[-1:])
