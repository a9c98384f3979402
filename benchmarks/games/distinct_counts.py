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

from benchmarks.games.attackers import Pair, Whole, claimed
from benchmarks.games.cell_sums import TRIALS, weighed
from benchmarks.games.game import Game
from contracts.contract.contract import Adjacency
from contracts.domains.distinct_counts import DistinctCount
from privacy.accounting.events import CountNoise
from privacy.marginals.cell_sums import cell_sum_event
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise
from privacy.snapshots.offset_scan import count_distinct

CELLS: Final = 6
ROWS: Final = 3
"""Rows of a unit that are kept."""
DELTA: Final = 0.01
"""Of the game on Gaussian noise: where so many trials see most of what is claimed."""
EMPLOYERS: Final = DistinctCount("employer", None, True)
UNITS: Final = DistinctCount(None, None, True)
HALF: Final = GaussianNoise(Fraction(1, 2))
Row = tuple[int, str]
"""A cell, and what is told apart there: an employer, or the unit itself."""
_OTHERS: Final[tuple[Row, ...]] = tuple((cell, f"known {number}") for cell in range(CELLS) for number in range(8))


def counted(rows: Sequence[Row]) -> Whole:
    """Count what differs in each cell, as `privacy.snapshots` does."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "snapshot.duckdb"
        with duckdb.connect(str(path)) as connection:
            connection.execute("CREATE TABLE codes (cell UTINYINT, told VARCHAR)")
            connection.executemany("INSERT INTO codes VALUES (?, ?)", rows)
        return count_distinct(path, ("cell",), (CELLS,), "told", "", threads=1)


def pair_of(rows: Sequence[Row], instead: Sequence[Row] = ()) -> Pair:
    """Return the counts without a unit, or with other rows of it, and those with these rows."""
    return counted([*_OTHERS, *instead]), counted([*_OTHERS, *rows])


def _event(
    told: DistinctCount, rows: int, adjacency: Adjacency = "add_remove", *, noise: GaussianNoise | None = None
) -> CountNoise:
    """Return the event of the noise, as a grant derives it of six cells."""
    asked = LaplaceNoise(Fraction(1)) if noise is None else noise
    return cell_sum_event(asked, told, adjacency=adjacency, rows_per_unit=rows, cells=CELLS)


def _game(
    name: str, threat: str, pair: Pair, event: CountNoise, twin: tuple[Pair, CountNoise, str], delta: float = 0.0
) -> Game:
    broken_pair, broken_event, broken = twin
    shipped, control = (
        partial(weighed, pair=pair, event=event),
        partial(weighed, pair=broken_pair, event=broken_event),
    )
    epsilon = claimed([event], delta) if delta else 1.0
    return Game(name, f"{threat}; all noisy numbers are seen", epsilon, delta, TRIALS, shipped, control, broken)


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
    """A unit leaves three cells and enters three others, Gaussian noise; the twin is priced for one that comes."""
    rows = [(cell, "canary") for cell in range(2 * ROWS)]
    pair, event = pair_of(rows[ROWS:], rows[:ROWS]), _event(UNITS, ROWS, "replace_one", noise=HALF)
    twin = (pair, _event(UNITS, 1, noise=HALF), "the sensitivity of one row that comes or goes")
    threat = "one unit's rows move from three cells to three others"
    return _game("units by cell, replace_one, Gaussian", threat, pair, event, twin, DELTA)


GAMES: Final = {
    "distinct_values": values,
    "distinct_values_truncation": values_before_truncation,
    "distinct_units": units,
    "distinct_units_replace_one": units_moved,
}
