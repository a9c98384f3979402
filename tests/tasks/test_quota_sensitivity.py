"""How far one privacy unit moves sums within a quota, from the file on: never beyond the event's moves."""

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
from contracts.domains.addends import LoneSum
from contracts.domains.lattice import ValueLattice
from contracts.domains.text import KeyColumn, UnitOrder
from privacy.grant.queries.cell_sums import CellSumQuery
from privacy.grant.queries.query import Relation
from privacy.marginals.cell_sums import PrivateCellSums
from privacy.marginals.sensitivity import LaplaceNoise
from privacy.snapshots.snapshot import SnapshotSums
from tasks.ingest import ingest
from tests.tasks.intake import HEADER, KEY, write_csv
from tests.tasks.test_ingest_sensitivity import Rows, contract_for, random_row

AGE = ValueLattice("age", Decimal(0), Decimal(99), Decimal(3), counts_missing=True)
FORMS = (LoneSum(AGE, Decimal(96)), LoneSum(AGE, Decimal(30)))
CLIQUES: tuple[tuple[str, ...], ...] = ((), ("sex", "since"))


def sums(
    units: dict[str, Rows], contract: Contract, folder: Path, by_ids: bool, forms: tuple[LoneSum, ...] = FORMS
) -> list[tuple[PrivateCellSums, NDArray[np.int64]]]:
    """Take units in, and open all sums by all cliques."""
    folder.mkdir()
    lines = [f"{unit},{row}" if by_ids else row for unit, rows in units.items() for row in rows]
    source = write_csv(folder, *lines, header=f"person,{HEADER}" if by_ids else HEADER)
    beside = (KeyColumn("person"), UnitOrder("person")) if contract.unit.max_rows_per_unit > 1 else ()
    terms = {"folder": folder / "run", "key": KEY, "memory_limit": "256MB", "lattices": (AGE, *beside)}
    summed = SnapshotSums(ingest(source, contract, **terms), contract)  # type: ignore[arg-type]
    return [(handle, handle._read()) for clique in CLIQUES for handle in summed.sums(clique, forms)]


@pytest.mark.long
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("rows_per_unit", [1, 3])
def test_a_unit_moves_sums_by_its_quota_at_most(tmp_path: Path, adjacency: Adjacency, rows_per_unit: int) -> None:
    """Random tables and neighbours: L1 within that of the event, and reached; others' rows add what they added."""
    random = Random(f"quota {adjacency} {rows_per_unit}")
    contract, by_ids = contract_for(tmp_path, rows_per_unit, adjacency)
    relation, reached = Relation(adjacency, rows_per_unit), set()
    most = rows_per_unit + 1 if by_ids else 1  # the bound cuts some units
    heavy, other_heavy = (f"150,{sex},10,{since}" for sex, since in (("F", "2020-06-01"), ("M", "2021-06-01")))
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
            assert isinstance(handle.addends, LoneSum)
            assert sum(event.moves) == (handle.addends.quota or 0) * (1 if adjacency == "add_remove" else 2)
            assert change.sum() <= sum(event.moves)
            if change.sum() == sum(event.moves):
                reached.add((handle.clique, handle.addends))
    assert reached >= {(("sex", "since"), form) for form in FORMS}


def test_a_sum_that_forgets_the_quota_moves_beyond_it(tmp_path: Path) -> None:
    """Three rows of one unit, each within the clip: the comparison above finds it."""
    contract, by_ids = contract_for(tmp_path, 3, "add_remove")
    rows = {"p1": ["90,F,1,2020-06-01"] * 3, "p2": ["30,M,20,2021-06-01"]}
    whole = (LoneSum(AGE),)
    (handle, exact), *_ = sums(rows, contract, tmp_path / "a", by_ids, whole)
    (_, neighbour), *_ = sums({"p2": rows["p2"]}, contract, tmp_path / "b", by_ids, whole)
    bounded = CellSumQuery(replace(handle, addends=FORMS[0]), LaplaceNoise(Fraction(1)))
    assert np.abs(exact - neighbour).sum() == 90 > sum(bounded.event(Relation("add_remove", 3)).moves)


@pytest.mark.parametrize("per_unit", ["0", "1", "94.5", "297", "1e12"])
def test_a_grant_refuses_a_quota_that_is_none(per_unit: str) -> None:
    """No step, broken steps, or all that three rows can add."""
    form = LoneSum(AGE, Decimal(per_unit))
    handle = PrivateCellSums((), (), form, "c" * 64, "b" * 64, lambda _: np.zeros(1, dtype=np.int64))
    with pytest.raises(ValueError, match="allowed"):
        CellSumQuery(handle, LaplaceNoise(Fraction(1))).check(Relation("add_remove", 3))
    fine = replace(handle, addends=FORMS[0])
    CellSumQuery(fine, LaplaceNoise(Fraction(1))).check(Relation("add_remove", 3))
