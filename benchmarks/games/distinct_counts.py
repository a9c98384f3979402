"""Games on units and distinct values: a unit of several rows that nobody else is like, in one cell or in many.

Each trial is one output: the noisy numbers of all cells. The exact ones are counted from rows by the scan of a
snapshot. Many independent outputs are drawn in one call, as for marginals.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import duckdb
import numpy as np

from benchmarks.games.attackers import Pair, Whole, recorded
from benchmarks.games.cell_sums import TRIALS, weighed
from benchmarks.games.game import Game
from contracts.contract.contract import Adjacency
from contracts.domains.addends import DistinctCount
from privacy.accounting.events import CountNoise
from privacy.arrays import Floats
from privacy.marginals.cell_sums import cell_sum_event
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise
from privacy.private_table import PrivateTable
from privacy.snapshots.scans import count_distinct

CELLS: Final = 6
ROWS: Final = 3
"""Rows of a unit that are kept."""
DELTA: Final = 0.05
"""Of the game on Gaussian noise: where so many trials see most of what is claimed."""
MOVED: Final = 30
"""Rows of a unit in the game on Gaussian noise, each in a cell of its own: the more, the larger is a cell's noise.
The record's claim is that of rounded continuous noise with 4 less variance, which is then little."""
MANY: Final = 800_000
AT_ONCE: Final = 20_000
"""Outputs of many cells that are made at once."""
EMPLOYERS: Final = DistinctCount("employer", None, True)
UNITS: Final = DistinctCount(None, None, True)
HALF: Final = GaussianNoise(Fraction(1, 2))
Row = tuple[int, str]
"""A cell, and what is told apart there: an employer, or the unit itself."""
_OTHERS: Final[tuple[Row, ...]] = tuple((cell, f"known {number}") for cell in range(CELLS) for number in range(8))


def counted(rows: Sequence[Row], cells: int = CELLS) -> Whole:
    """Count what differs in each cell, as `privacy.snapshots` does."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "snapshot.duckdb"
        with duckdb.connect(str(path)) as connection:
            connection.execute("CREATE TABLE codes (cell UTINYINT, told VARCHAR)")
            connection.executemany("INSERT INTO codes VALUES (?, ?)", rows)
        return count_distinct(PrivateTable(path, "", "", ""), ("cell",), (cells,), "told", "", threads=1)


def pair_of(rows: Sequence[Row]) -> Pair:
    """Return the counts without a unit, and those with these rows of it."""
    return counted(_OTHERS), counted([*_OTHERS, *rows])


def _event(told: DistinctCount, rows: int) -> CountNoise:
    """Return the event of the noise, as a grant derives it of six cells."""
    return cell_sum_event(LaplaceNoise(Fraction(1)), told, adjacency="add_remove", rows_per_unit=rows, cells=CELLS)


def _moved_event(rows: int, adjacency: Adjacency) -> CountNoise:
    """Return the event of Gaussian noise on units, over the cells that one unit leaves and enters."""
    return cell_sum_event(HALF, UNITS, adjacency=adjacency, rows_per_unit=rows, cells=2 * MOVED)


def _game(name: str, threat: str, pair: Pair, event: CountNoise, twin: tuple[Pair, CountNoise, str]) -> Game:
    broken_pair, broken_event, broken = twin
    shipped, control = (
        partial(weighed, pair=pair, event=event),
        partial(weighed, pair=broken_pair, event=broken_event),
    )
    return Game(name, f"{threat}; all noisy numbers are seen", 1.0, 0.0, TRIALS, shipped, control, broken)


def weighed_in_parts(there: bool, trials: int, *, pair: Pair, event: CountNoise) -> Floats:
    """Play the numbers of many cells, some outputs at a time."""
    parts = (min(AT_ONCE, trials - done) for done in range(0, trials, AT_ONCE))
    return np.concatenate([weighed(there, part, pair=pair, event=event) for part in parts])


def values() -> Game:
    """Three rows with three employers that nobody else has; the twin lets the unit bring one more."""
    pair, crowded = (pair_of([(2, f"own {n}") for n in range(rows)]) for rows in (ROWS, ROWS + 1))
    event, threat = _event(EMPLOYERS, ROWS), "three rows of one unit more, each with a value of its own, in one cell"
    return _game("distinct values, 3 rows a unit", threat, pair, event, (crowded, event, "a value more than rows"))


def values_before_truncation() -> Game:
    """A unit of nine rows, of which three are kept, over all cells; the twin counts values before rows are chosen."""
    rows = [(n % CELLS, f"own {n}") for n in range(9)]
    event, broken = _event(EMPLOYERS, ROWS), "values are counted before rows are chosen"
    threat = "one unit more, which has nine rows, each with a value of its own"
    twin = (pair_of(rows), event, broken)
    return _game("distinct values, 9 rows of which 3 are kept", threat, pair_of(rows[:ROWS]), event, twin)


def units() -> Game:
    """A unit in three cells; the twin is priced as if it were in one."""
    pair, event = pair_of([(cell, "canary") for cell in range(ROWS)]), _event(UNITS, ROWS)
    twin = (pair, _event(UNITS, 1), "the sensitivity of one cell")
    return _game("units by cell, 3 rows a unit", "one unit more, in three cells", pair, event, twin)


def units_moved() -> Game:
    """A unit leaves thirty cells and enters thirty others, Gaussian noise; the twin is priced for one that comes."""
    before, after = ([(cell, "canary") for cell in range(first, first + MOVED)] for first in (0, MOVED))
    pair, event = (counted(before, 2 * MOVED), counted(after, 2 * MOVED)), _moved_event(MOVED, "replace_one")
    shipped, twin = (
        partial(weighed_in_parts, pair=pair, event=each) for each in (event, _moved_event(1, "add_remove"))
    )
    broken = "the sensitivity of one row that comes or goes"
    threat = "one unit's rows move from thirty cells to thirty others; all noisy numbers are seen"
    name = "units by cell, replace_one, Gaussian"
    return Game(name, threat, recorded([event], DELTA), DELTA, MANY, shipped, twin, broken)


GAMES: Final = {
    "distinct_values": values,
    "distinct_values_truncation": values_before_truncation,
    "distinct_units": units,
    "distinct_units_replace_one": units_moved,
}
