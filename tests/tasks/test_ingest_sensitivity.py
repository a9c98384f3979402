"""How far one privacy unit moves sums by cell, from the file to the snapshot: never beyond the event's moves."""

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
from contracts.contract.odcs import load_contract
from contracts.domains.lattice import ValueLattice
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
    units: dict[str, Rows], contract: Contract, folder: Path, by_ids: bool
) -> list[tuple[PrivateCellSums, NDArray[np.int64]]]:
    """Take units in, and open the sums of both columns by all cliques."""
    folder.mkdir()
    lines = [f"{unit},{row}" if by_ids else row for unit, rows in units.items() for row in rows]
    source = write_csv(folder, *lines, header=f"person,{HEADER}" if by_ids else HEADER)
    table = ingest(source, contract, folder=folder / "run", key=KEY, memory_limit="256MB", lattices=LATTICES)
    summed = SnapshotSums(table, contract)
    return [(handle, handle._read()) for clique in CLIQUES for handle in summed.sums(clique, LATTICES)]


def contract_for(folder: Path, rows_per_unit: int, adjacency: Adjacency) -> tuple[Contract, bool]:
    by_ids = rows_per_unit > 1
    contract = make_contract(folder, rows_per_unit=rows_per_unit if by_ids else None)
    return contract.model_copy(update={"adjacency": adjacency}), by_ids


@pytest.mark.long
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("rows_per_unit", [1, 2, 3])
def test_a_unit_moves_the_numbers_by_the_moves_of_the_event_at_most(
    tmp_path: Path, adjacency: Adjacency, rows_per_unit: int
) -> None:
    """Random tables and neighbours: L1 at most k width, or 2 k width, over all numbers together; and reached."""
    random = Random(f"{adjacency} {rows_per_unit}")
    contract, by_ids = contract_for(tmp_path, rows_per_unit, adjacency)
    relation, reached = Relation(adjacency, rows_per_unit), set()
    for turn in range(3):
        most = rows_per_unit + 2 if by_ids else 1  # the bound cuts some units
        units = {f"p{unit}": [random_row(random) for _ in range(random.randint(1, most))] for unit in range(6)}
        units["p3"] = [random_row(random) for _ in range(most)]
        other = {unit: rows for unit, rows in units.items() if unit != "p3"}
        if adjacency == "replace_one":
            other["p3"] = [random_row(random) for _ in range(most)]
        taken = partial(sums, contract=contract, by_ids=by_ids)
        pairs = zip(
            taken(units, folder=tmp_path / f"{turn}a"), taken(other, folder=tmp_path / f"{turn}b"), strict=True
        )
        for (handle, exact), (_, neighbour) in pairs:
            change = np.abs(exact - neighbour)
            width = handle.addends.width
            event = CellSumQuery(handle, LaplaceNoise(Fraction(1))).event(relation)
            assert sum(event.moves) == rows_per_unit * width * (1 if adjacency == "add_remove" else 2)
            assert change.sum() <= sum(event.moves)
            assert (change.astype(object) ** 2).sum() <= sum(move * move for move in event.moves)
            if change.sum() == sum(event.moves):
                reached.add((handle.clique, handle.addends.column))
    assert reached >= {(("sex", "since"), each.column) for each in LATTICES}


def wrong(exact: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """Sums beside a third number that counts all rows, in steps: what one draw must not hold."""
    return np.stack([exact[..., 0], exact[..., 1], exact.sum(axis=-1)], axis=-1)


@pytest.mark.parametrize("rows_per_unit", [1, 3])
def test_numbers_that_count_a_row_twice_move_beyond_it(tmp_path: Path, rows_per_unit: int) -> None:
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


def test_a_column_whose_missing_values_are_mapped_has_two_numbers_that_move_alike(tmp_path: Path) -> None:
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
