"""How far a unit moves sums within a quota: every unit of up to three rows, through the scan, in both relations."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import product
from math import log
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from contracts.contract.contract import Adjacency
from contracts.domains.addends import LoneSum
from contracts.domains.lattice import ValueLattice
from contracts.domains.text import KeyColumn, UnitOrder
from privacy.accounting.events import CountNoise, DiscreteLaplace
from privacy.marginals.cell_sums import cell_sum_event
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise, noise_event
from privacy.private_table import PrivateTable
from privacy.snapshots.scans import sum_within_quota
from tests.privacy.marginals.test_cell_sums import laplace_losses, together

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
    """The same, row by row: each adds what is left of the quota."""
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
def test_no_unit_moves_the_sums_further_than_the_quota(tmp_path: Path, low: str, high: str) -> None:
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


def test_a_scan_that_forgets_the_quota_is_found_out(tmp_path: Path) -> None:
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


def test_the_quota_hides_less_than_the_clip_of_all_rows() -> None:
    """Four steps in place of 3 rows of 3 steps; the form without a quota keeps its price."""
    (bounded, _), (whole, _) = (events(form_of("0", "3", each), "add_remove", 3) for each in (4, None))
    assert (bounded.moves, whole.moves) == ((4,), (9,))
    (bounded, _), (whole, _) = (events(form_of("-2", "3", each), "replace_one", 3) for each in (4, None))
    assert (bounded.moves, whole.moves) == ((8,), (18,))


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_a_sum_and_its_count_cost_what_their_draws_cost_together(tmp_path: Path, adjacency: Adjacency) -> None:
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
