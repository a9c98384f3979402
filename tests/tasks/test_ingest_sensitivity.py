"""How far one privacy unit moves sums by cell, weighted or within a quota: never beyond the event's moves."""

from collections.abc import Callable, Iterator
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
from contracts.contract.odcs import load_contract
from contracts.domains.addends import Addends, LoneSum, WeightedCount
from contracts.domains.lattice import ValueLattice
from contracts.domains.text import KeyColumn, UnitOrder
from contracts.domains.trees import ValueTree
from privacy.accounting.events import CountNoise
from privacy.grant.queries.cell_sums import CellSumQuery
from privacy.grant.queries.query import Relation
from privacy.marginals.cell_sums import PrivateCellSums
from privacy.marginals.sensitivity import LaplaceNoise
from privacy.snapshots.snapshot import SnapshotSums
from tasks.ingest import ingest
from tests.tasks.intake import HEADER, KEY, make_contract, write_csv

LATTICES = (
    ValueLattice("age", Decimal(0), Decimal(99), Decimal(1), counts_missing=True),
    ValueLattice("wage", Decimal(10), Decimal(110), Decimal("2.5"), counts_missing=True),
)
CLIQUES: tuple[tuple[str, ...], ...] = ((), ("sex",), ("sex", "since"))
Rows = list[str]
"""Rows of a file, without the unit's id."""


def random_row(random: Random) -> str:
    """Values at the ends, between steps, outside and missing, in cells that differ."""
    age = random.choice(("", "?", "0", "99", "150", "-3", "41", "17.5"))
    wage = random.choice(("", "10", "110", "0", "1e6", "11.3", "nan", "61.24"))
    return f"{age},{random.choice('FMX')},{wage},{random.choice((2020, 2021, 2024))}-06-01"


def sums(
    units: dict[str, Rows],
    contract: Contract,
    folder: Path,
    by_ids: bool,
    addends: tuple[Addends, ...] = LATTICES,
    lattices: tuple[ValueLattice | KeyColumn, ...] = LATTICES,
    cliques: tuple[tuple[str, ...], ...] = CLIQUES,
) -> list[tuple[PrivateCellSums, NDArray[np.int64]]]:
    folder.mkdir()
    lines = [f"{unit},{row}" if by_ids else row for unit, rows in units.items() for row in rows]
    source = write_csv(folder, *lines, header=f"person,{HEADER}" if by_ids else HEADER)
    table = ingest(source, contract, folder=folder / "run", key=KEY, memory_limit="256MB", lattices=lattices)
    summed = SnapshotSums(table, contract)
    return [(handle, handle._read()) for clique in cliques for handle in summed.sums(clique, addends)]


def contract_for(folder: Path, rows_per_unit: int, adjacency: Adjacency) -> tuple[Contract, bool]:
    by_ids = rows_per_unit > 1
    contract = make_contract(folder, rows_per_unit=rows_per_unit if by_ids else None)
    return contract.model_copy(update={"adjacency": adjacency}), by_ids


def moved(
    random: Random,
    folder: Path,
    relation: Relation,
    opened: Callable[..., list[tuple[PrivateCellSums, NDArray[np.int64]]]] = sums,
    *,
    beyond: int = 1,
    heavy: tuple[str, str] | None = None,
) -> Iterator[tuple[PrivateCellSums, NDArray[np.int64], CountNoise]]:
    """Take in three random tables and a neighbour of each: what changes in all sums, and the event that bounds it.

    Some units have so many rows beyond the bound. In the first table one is heavy, where rows of it are given.
    """
    contract, by_ids = contract_for(folder, relation.rows_per_unit, relation.adjacency)
    most = relation.rows_per_unit + beyond if by_ids else 1
    taken = partial(opened, contract=contract, by_ids=by_ids)
    for turn in range(3):
        units = {f"p{unit}": [random_row(random) for _ in range(random.randint(1, most))] for unit in range(6)}
        own, others = ([row] * relation.rows_per_unit for row in heavy or ("", ""))
        first = heavy is not None and turn == 0
        units["p3"] = own if first else [random_row(random) for _ in range(most)]
        other = {unit: rows for unit, rows in units.items() if unit != "p3"}
        if relation.adjacency == "replace_one":
            other["p3"] = others if first else [random_row(random) for _ in range(most)]
        both = (taken(rows, folder=folder / f"{turn}{side}") for side, rows in (("a", units), ("b", other)))
        for (handle, exact), (_, neighbour) in zip(*both, strict=True):
            change = np.abs(exact - neighbour)
            event = CellSumQuery(handle, LaplaceNoise(Fraction(1))).event(relation)
            assert change.sum() <= sum(event.moves)
            yield handle, change, event


@pytest.mark.long
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("rows_per_unit", [1, 2, 3])
def test_a_unit_moves_the_numbers_by_the_moves_of_the_event_at_most(
    tmp_path: Path, adjacency: Adjacency, rows_per_unit: int
):
    """Random tables and neighbours: L1 at most k width, or 2 k width, over all numbers together; and reached."""
    relation, reached = Relation(adjacency, rows_per_unit), set()
    for handle, change, event in moved(Random(f"{adjacency} {rows_per_unit}"), tmp_path, relation, beyond=2):
        assert sum(event.moves) == rows_per_unit * handle.addends.width * (1 if adjacency == "add_remove" else 2)
        assert (change.astype(object) ** 2).sum() <= sum(move * move for move in event.moves)
        if change.sum() == sum(event.moves):
            reached.add((handle.clique, handle.addends.column))
    assert reached >= {(("sex", "since"), each.column) for each in LATTICES}


def wrong(exact: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """Sums beside a third number that counts all rows, in steps: what one draw must not hold."""
    return np.stack([exact[..., 0], exact[..., 1], exact.sum(axis=-1)], axis=-1)


@pytest.mark.parametrize("rows_per_unit", [1, 3])
def test_numbers_that_count_a_row_twice_move_beyond_it(tmp_path: Path, rows_per_unit: int):
    """Missing values that were not part of the width: the comparison above finds it."""
    contract, by_ids = contract_for(tmp_path, rows_per_unit, "add_remove")
    row = "41,F,61.24,2020-06-01"
    units = {"p1": [row] * rows_per_unit, "p2": ["30,M,20,2021-06-01"]}
    both = sums(units, contract, tmp_path / "a", by_ids)
    less = sums({"p2": units["p2"]}, contract, tmp_path / "b", by_ids)
    for (handle, exact), (_, neighbour) in zip(both, less, strict=True):
        width = handle.addends.width
        assert np.abs(exact - neighbour).sum() == rows_per_unit * width
        assert np.abs(wrong(exact, width) - wrong(neighbour, width)).sum() == 2 * rows_per_unit * width


def test_a_column_whose_missing_values_are_mapped_has_two_numbers_that_move_alike(tmp_path: Path):
    """The contract maps missing values to one: then they are values, and every row hands out the width."""
    make_contract(tmp_path)
    text = (tmp_path / "people.odcs.yaml").read_text()
    mapped = text.replace(
        "bins: {edges: [0, 12.5, 100, 1000]}\n              nulls: {policy: category}",
        "bins: {edges: [0, 12.5, 100, 1000]}\n              nulls: {policy: map, to: 30}",
    )
    assert mapped != text
    (tmp_path / "mapped.yaml").write_text(mapped)
    contract = load_contract(tmp_path / "mapped.yaml")
    lattice = replace(LATTICES[1], counts_missing=False)
    found = []
    for place, rows in enumerate((["1,F,,2020-06-01"], ["1,F,nan,2020-06-01"], ["1,F,30,2020-06-01"])):
        folder = tmp_path / str(place)
        folder.mkdir()
        source = write_csv(folder, *rows)
        table = ingest(source, contract, folder=folder / "run", key=KEY, memory_limit="256MB", lattices=(lattice,))
        [handle] = SnapshotSums(table, contract).sums((), [lattice])
        found.append(handle._read().tolist())
    assert found == [[8, 32]] * 3


AGE = ValueLattice("age", Decimal(0), Decimal(99), Decimal(3), counts_missing=True)
FORMS = (LoneSum(AGE, Decimal(96)), LoneSum(AGE, Decimal(30)))
TWO_CLIQUES: tuple[tuple[str, ...], ...] = ((), ("sex", "since"))


def quota_sums(
    units: dict[str, Rows], contract: Contract, folder: Path, by_ids: bool, forms: tuple[LoneSum, ...] = FORMS
) -> list[tuple[PrivateCellSums, NDArray[np.int64]]]:
    beside = (KeyColumn("person"), UnitOrder("person")) if contract.unit.max_rows_per_unit > 1 else ()
    return sums(units, contract, folder, by_ids, forms, (AGE, *beside), TWO_CLIQUES)


@pytest.mark.long
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("rows_per_unit", [1, 3])
def test_a_unit_moves_sums_by_its_quota_at_most(tmp_path: Path, adjacency: Adjacency, rows_per_unit: int):
    """Random tables and neighbours: L1 within that of the event, and reached; others' rows add what they added."""
    relation, reached = Relation(adjacency, rows_per_unit), set()
    heavy = ("150,F,10,2020-06-01", "150,M,10,2021-06-01")
    random = Random(f"quota {adjacency} {rows_per_unit}")
    for handle, change, event in moved(random, tmp_path, relation, quota_sums, heavy=heavy):
        assert isinstance(handle.addends, LoneSum)
        assert sum(event.moves) == (handle.addends.quota or 0) * (1 if adjacency == "add_remove" else 2)
        if change.sum() == sum(event.moves):
            reached.add((handle.clique, handle.addends))
    assert reached >= {(("sex", "since"), form) for form in FORMS}


def test_a_sum_that_forgets_the_quota_moves_beyond_it(tmp_path: Path):
    """Three rows of one unit, each within the clip: the comparison above finds it."""
    contract, by_ids = contract_for(tmp_path, 3, "add_remove")
    rows = {"p1": ["90,F,1,2020-06-01"] * 3, "p2": ["30,M,20,2021-06-01"]}
    whole = (LoneSum(AGE),)
    (handle, exact), *_ = quota_sums(rows, contract, tmp_path / "a", by_ids, whole)
    (_, neighbour), *_ = quota_sums({"p2": rows["p2"]}, contract, tmp_path / "b", by_ids, whole)
    bounded = CellSumQuery(replace(handle, addends=FORMS[0]), LaplaceNoise(Fraction(1)))
    assert np.abs(exact - neighbour).sum() == 90 > sum(bounded.event(Relation("add_remove", 3)).moves)


@pytest.mark.parametrize("per_unit", ["0", "1", "94.5", "297", "1e12"])
def test_a_grant_refuses_a_quota_that_is_none(per_unit: str):
    """No step, broken steps, or all that three rows can add."""
    form = LoneSum(AGE, Decimal(per_unit))
    handle = PrivateCellSums((), (), form, "c" * 64, "b" * 64, lambda _: np.zeros(1, dtype=np.int64))
    with pytest.raises(ValueError, match="allowed"):
        CellSumQuery(handle, LaplaceNoise(Fraction(1))).check(Relation("add_remove", 3))
    fine = replace(handle, addends=FORMS[0])
    CellSumQuery(fine, LaplaceNoise(Fraction(1))).check(Relation("add_remove", 3))


WEIGHT = ValueLattice("wage", Decimal(0), Decimal(110), Decimal("2.5"), counts_missing=True)
WEIGHED = replace(AGE, weight=WEIGHT)
SQUARES = replace(WEIGHT, weight=WEIGHT)
"""Of an effective size: the weight, weighted by itself."""
ADDENDS: tuple[Addends, ...] = (WEIGHED, ValueTree(WEIGHED, Decimal(9)), WeightedCount(WEIGHT), SQUARES)


weighted_sums = partial(sums, addends=ADDENDS, lattices=(AGE, WEIGHT), cliques=TWO_CLIQUES)


@pytest.mark.long
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("rows_per_unit", [1, 3])
def test_a_unit_moves_weighted_numbers_by_the_moves_of_the_event_at_most(
    tmp_path: Path, adjacency: Adjacency, rows_per_unit: int
):
    """Random tables and neighbours: L1 and L2 within those of the event, and both reached by sums and counts."""
    relation, reached = Relation(adjacency, rows_per_unit), set()
    heavy = ("0,F,1e6,2020-06-01", "150,M,1e6,2020-06-01")
    random = Random(f"weights {adjacency} {rows_per_unit}")
    for handle, change, event in moved(random, tmp_path, relation, weighted_sums, heavy=heavy):
        sides = 1 if adjacency == "add_remove" else 2
        assert sum(event.moves) == rows_per_unit * sides * sum(handle.addends.row_moves)
        assert (change.astype(object) ** 2).sum() <= sum(move * move for move in event.moves)
        if change.sum() == sum(event.moves):
            reached.add((handle.clique, handle.addends))
    assert reached >= {(("sex", "since"), each) for each in ADDENDS}


def test_a_weight_that_the_price_forgets_moves_beyond_it(tmp_path: Path):
    """The event of the same lattice without its weight: the comparison above finds it."""
    contract, by_ids = contract_for(tmp_path, 1, "add_remove")
    rows = {"p1": ["41,F,61.24,2020-06-01"], "p2": ["30,M,20,2021-06-01"]}
    both, less = (
        weighted_sums(rows, contract, tmp_path / "a", by_ids),
        weighted_sums({"p2": rows["p2"]}, contract, tmp_path / "b", by_ids),
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
def test_a_row_counts_as_often_as_its_weight_and_nowhere_without_one(tmp_path: Path, row: str, weight: int):
    """61.24 is 24 steps of 2.5. Missing weights are counted apart by the contract: such a row weighs 0."""
    contract, by_ids = contract_for(tmp_path, 1, "add_remove")
    for _, exact in weighted_sums({"p1": [row]}, contract, tmp_path / "a", by_ids):
        levels = exact.reshape(-1, exact.shape[-1])
        assert exact.sum() % max(weight, 1) == 0
        assert levels.any() == (weight > 0)
    assert weighted_sums({"p1": [row]}, contract, tmp_path / "b", by_ids)[2][1].tolist() == [weight]


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
def test_a_grant_refuses_a_weight_that_is_none(addends: Addends):
    """From below or above 0, weighed itself, in broken steps, or of so many that sums might leave 64 bits."""
    handle = PrivateCellSums((), (), addends, "c" * 64, "b" * 64, lambda _: np.zeros(addends.parts, dtype=np.int64))
    with pytest.raises(ValueError, match="allowed"):
        CellSumQuery(handle, LaplaceNoise(Fraction(1))).check(Relation("add_remove", 1))
    fine = PrivateCellSums((), (), WEIGHED, "c" * 64, "b" * 64, lambda _: np.zeros(3, dtype=np.int64))
    CellSumQuery(fine, LaplaceNoise(Fraction(1))).check(Relation("add_remove", 1))
