"""How far one privacy unit moves weighted sums, from the file to the snapshot: never beyond the event's moves."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from random import Random

import numpy as np
import pytest
from numpy.typing import NDArray

from contracts.contract.contract import Adjacency, Contract
from contracts.domains.addends import Addends, WeightedCount
from contracts.domains.lattice import ValueLattice
from contracts.domains.trees import ValueTree
from privacy.grant.queries.cell_sums import CellSumQuery
from privacy.grant.queries.query import Relation
from privacy.marginals.cell_sums import PrivateCellSums
from privacy.marginals.sensitivity import LaplaceNoise
from privacy.snapshots.snapshot import SnapshotSums
from tasks.ingest import ingest
from tests.tasks.intake import HEADER, KEY, write_csv
from tests.tasks.test_ingest_sensitivity import Rows, contract_for, random_row

AGE = ValueLattice("age", Decimal(0), Decimal(99), Decimal(3), counts_missing=True)
WEIGHT = ValueLattice("wage", Decimal(0), Decimal(110), Decimal("2.5"), counts_missing=True)
WEIGHED = replace(AGE, weight=WEIGHT)
SQUARES = replace(WEIGHT, weight=WEIGHT)
"""Of an effective size: the weight, weighted by itself."""
ADDENDS: tuple[Addends, ...] = (WEIGHED, ValueTree(WEIGHED, Decimal(9)), WeightedCount(WEIGHT), SQUARES)
CLIQUES: tuple[tuple[str, ...], ...] = ((), ("sex", "since"))


def sums(
    units: dict[str, Rows], contract: Contract, folder: Path, by_ids: bool
) -> list[tuple[PrivateCellSums, NDArray[np.int64]]]:
    """Take units in, and open all weighted sums by all cliques."""
    folder.mkdir()
    lines = [f"{unit},{row}" if by_ids else row for unit, rows in units.items() for row in rows]
    source = write_csv(folder, *lines, header=f"person,{HEADER}" if by_ids else HEADER)
    terms = {"folder": folder / "run", "key": KEY, "memory_limit": "256MB", "lattices": (AGE, WEIGHT)}
    summed = SnapshotSums(ingest(source, contract, **terms), contract)  # type: ignore[arg-type]
    return [(handle, handle._read()) for clique in CLIQUES for handle in summed.sums(clique, ADDENDS)]


@pytest.mark.long
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("rows_per_unit", [1, 3])
def test_a_unit_moves_weighted_numbers_by_the_moves_of_the_event_at_most(
    tmp_path: Path, adjacency: Adjacency, rows_per_unit: int
) -> None:
    """Random tables and neighbours: L1 and L2 within those of the event, and both reached by sums and counts."""
    random = Random(f"weights {adjacency} {rows_per_unit}")
    contract, by_ids = contract_for(tmp_path, rows_per_unit, adjacency)
    relation, reached = Relation(adjacency, rows_per_unit), set()
    most = rows_per_unit + 1 if by_ids else 1  # the bound cuts some units
    heavy, other_heavy = (f"{age},{sex},1e6,2020-06-01" for age, sex in (("0", "F"), ("150", "M")))
    for turn in range(3):
        units = {f"p{unit}": [random_row(random) for _ in range(random.randint(1, most))] for unit in range(6)}
        units["p3"] = [heavy] * rows_per_unit if turn == 0 else [random_row(random) for _ in range(most)]
        other = {unit: rows for unit, rows in units.items() if unit != "p3"}
        if adjacency == "replace_one":
            others = [other_heavy] * rows_per_unit
            other["p3"] = others if turn == 0 else [random_row(random) for _ in range(most)]
        taken = partial(sums, contract=contract, by_ids=by_ids)
        pairs = zip(
            taken(units, folder=tmp_path / f"{turn}a"), taken(other, folder=tmp_path / f"{turn}b"), strict=True
        )
        for (handle, exact), (_, neighbour) in pairs:
            change = np.abs(exact - neighbour)
            event = CellSumQuery(handle, LaplaceNoise(Fraction(1))).event(relation)
            sides = 1 if adjacency == "add_remove" else 2
            assert sum(event.moves) == rows_per_unit * sides * sum(handle.addends.row_moves)
            assert change.sum() <= sum(event.moves)
            assert (change.astype(object) ** 2).sum() <= sum(move * move for move in event.moves)
            if change.sum() == sum(event.moves):
                reached.add((handle.clique, handle.addends))
    assert reached >= {(("sex", "since"), each) for each in ADDENDS}


def test_a_weight_that_the_price_forgets_moves_beyond_it(tmp_path: Path) -> None:
    """The event of the same lattice without its weight: the comparison above finds it."""
    contract, by_ids = contract_for(tmp_path, 1, "add_remove")
    rows = {"p1": ["41,F,61.24,2020-06-01"], "p2": ["30,M,20,2021-06-01"]}
    both, less = (
        sums(rows, contract, tmp_path / "a", by_ids),
        sums({"p2": rows["p2"]}, contract, tmp_path / "b", by_ids),
    )
    (handle, exact), (_, neighbour) = both[0], less[0]
    forgetful = CellSumQuery(replace(handle, addends=AGE), LaplaceNoise(Fraction(1)))
    assert np.abs(exact - neighbour).sum() > sum(forgetful.event(Relation("add_remove", 1)).moves)
    (handle, exact), (_, neighbour) = both[3], less[3]
    plain = CellSumQuery(replace(handle, addends=WEIGHT), LaplaceNoise(Fraction(1)))
    assert np.abs(exact - neighbour).sum() > sum(plain.event(Relation("add_remove", 1)).moves)  # squares


@pytest.mark.parametrize(
    ("row", "weight"),
    [("41,F,61.24,2020-06-01", 24), ("41,F,0,2020-06-01", 0), ("41,F,,2020-06-01", 0), ("41,F,nan,2020-06-01", 0)],
)
def test_a_row_counts_as_often_as_its_weight_and_nowhere_without_one(tmp_path: Path, row: str, weight: int) -> None:
    """61.24 is 24 steps of 2.5. Missing weights are counted apart by the contract: such a row weighs 0."""
    contract, by_ids = contract_for(tmp_path, 1, "add_remove")
    for _, exact in sums({"p1": [row]}, contract, tmp_path / "a", by_ids):
        levels = exact.reshape(-1, exact.shape[-1])
        assert exact.sum() % max(weight, 1) == 0
        assert levels.any() == (weight > 0)
    assert sums({"p1": [row]}, contract, tmp_path / "b", by_ids)[2][1].tolist() == [weight]


@pytest.mark.parametrize(
    "addends",
    [
        replace(AGE, weight=replace(WEIGHT, low=Decimal(10))),
        replace(AGE, weight=replace(WEIGHT, weight=AGE)),
        replace(AGE, weight=replace(WEIGHT, step=Decimal("0.3"))),
        replace(AGE, weight=replace(WEIGHT, step=Decimal("1e-6"))),
        ValueTree(replace(AGE, weight=replace(WEIGHT, low=Decimal(-10))), Decimal(9)),
        ValueTree(replace(AGE, weight=replace(WEIGHT, step=Decimal("1e-7"))), Decimal(9)),
        WeightedCount(replace(WEIGHT, low=Decimal(10))),
        WeightedCount(replace(WEIGHT, step=Decimal("1e-7"))),
    ],
)
def test_a_grant_refuses_a_weight_that_is_none(addends: Addends) -> None:
    """From below or above 0, weighed itself, in broken steps, or of so many that sums might leave 64 bits."""
    handle = PrivateCellSums((), (), addends, "c" * 64, "b" * 64, lambda _: np.zeros(addends.parts, dtype=np.int64))
    with pytest.raises(ValueError, match="allowed"):
        CellSumQuery(handle, LaplaceNoise(Fraction(1))).check(Relation("add_remove", 1))
    fine = PrivateCellSums((), (), WEIGHED, "c" * 64, "b" * 64, lambda _: np.zeros(3, dtype=np.int64))
    CellSumQuery(fine, LaplaceNoise(Fraction(1))).check(Relation("add_remove", 1))
