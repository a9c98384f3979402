"""Games on sums within a quota: a unit of several rows, each at the end of the clip, in as many cells.

Each trial is one output: the noisy sums of all cells. The exact ones are added up by the scan of a snapshot. Many
independent outputs are drawn in one call, as for marginals.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import duckdb

from benchmarks.games.attackers import Pair, Whole, claimed
from benchmarks.games.cell_sums import TRIALS, weighed
from benchmarks.games.game import Game
from contracts.contract.contract import Adjacency
from contracts.domains.addends import LoneSum
from contracts.domains.lattice import ValueLattice
from contracts.domains.text import KeyColumn, UnitOrder
from privacy.accounting.events import CountNoise
from privacy.marginals.cell_sums import cell_sum_event
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise
from privacy.private_table import PrivateTable
from privacy.snapshots.scans import sum_within_quota

CELLS: Final = 3
ROWS: Final = 3
"""Rows of a unit that are kept."""
DELTA: Final = 0.01
"""Of the game on Gaussian noise: where so many trials see most of what is claimed."""
HALF: Final = GaussianNoise(Fraction(1, 2))
_LATTICE: Final = ValueLattice("income", Decimal(-1000), Decimal(1000), Decimal(10), counts_missing=False)
INCOME: Final = LoneSum(_LATTICE, Decimal(1500))
"""One row and a half of three: 150 steps."""
Row = tuple[str, int, int, int]
"""A unit, the place of the row there, its cell, and the offset of its value plus 1."""
_OTHERS: Final[tuple[Row, ...]] = tuple((f"p{cell}", 1, cell, 141) for cell in range(CELLS))


def rows_of(offset: int, number: int = ROWS) -> tuple[Row, ...]:
    """Return the rows of the unit that comes or goes, one in each cell."""
    return tuple(("canary", place, place % CELLS, 1 + offset) for place in range(number))


def summed(rows: Sequence[Row], *, unit: str | None = "person") -> Whole:
    """Add rows up, each unit within its quota; where no unit is named each row by itself."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "snapshot.duckdb"
        names = KeyColumn("person").name, UnitOrder("person").name, "cell", INCOME.lattice.name
        with duckdb.connect(str(path)) as connection:
            kinds = zip(names, ("VARCHAR", "UINTEGER", "UTINYINT", "USMALLINT"), strict=True)
            columns = ", ".join(f'"{name}" {kind}' for name, kind in kinds)
            connection.execute(f"CREATE TABLE codes ({columns})")
            connection.executemany("INSERT INTO codes VALUES (?, ?, ?, ?)", rows)
        return sum_within_quota(PrivateTable(path, "", "", ""), ("cell",), (CELLS,), INCOME, unit, threads=1)


def pair_of(rows: Sequence[Row], instead: Sequence[Row] = (), *, unit: str | None = "person") -> Pair:
    """Return the sums without a unit, or with other rows of it, and those with these rows."""
    return summed([*_OTHERS, *instead], unit=unit), summed([*_OTHERS, *rows], unit=unit)


def _event(adjacency: Adjacency = "add_remove", *, noise: GaussianNoise | None = None) -> CountNoise:
    """Return the event of the noise, as a grant derives it."""
    asked = LaplaceNoise(Fraction(1)) if noise is None else noise
    return cell_sum_event(asked, INCOME, adjacency=adjacency, rows_per_unit=ROWS)


def _game(
    name: str, threat: str, pair: Pair, event: CountNoise, twin: tuple[Pair, CountNoise, str], delta: float = 0.0
) -> Game:
    broken_pair, broken_event, broken = twin
    shipped = partial(weighed, pair=pair, event=event)
    control = partial(weighed, pair=broken_pair, event=broken_event)
    epsilon = claimed([event], delta) if delta else 1.0
    return Game(name, f"{threat}; all noisy sums are seen", epsilon, delta, TRIALS, shipped, control, broken)


def bounded() -> Game:
    """Three rows at the upper end, in three cells; the twin cuts each row to the quota, and not the unit's total."""
    rows, event = rows_of(200), _event()
    twin = (pair_of(rows, unit=None), event, "the unit's total is not cut")
    threat = "three rows of one unit more, each at the end of the clip, in three cells"
    return _game("sums within a quota, 3 rows a unit", threat, pair_of(rows), event, twin)


def turned() -> Game:
    """Three rows turn from the lower to the upper end, Gaussian noise; the twin is priced for a unit that comes."""
    pair, event = pair_of(rows_of(200), rows_of(0)), _event("replace_one", noise=HALF)
    twin = (pair, _event(noise=HALF), "the sensitivity of a unit that comes or goes")
    threat = "one unit's rows turn from the lower to the upper end of the clip"
    return _game("sums within a quota, replace_one, Gaussian", threat, pair, event, twin, DELTA)


GAMES: Final = {"quota": bounded, "quota_replace_one": turned}
