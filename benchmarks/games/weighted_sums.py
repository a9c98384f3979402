"""Games on weighted sums by cell: somebody of the largest weight comes or goes, and a twin whose price forgets it.

Each trial is one output: the noisy numbers of one cell [steps of the column, times steps of the weight], or the one
noisy count [steps of the weight]. Many independent outputs are drawn in one call, as for marginals.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Final

import numpy as np

from benchmarks.games.attackers import Pair, Whole
from benchmarks.games.cell_sums import TRIALS, weighed
from benchmarks.games.game import Game
from contracts.contract.contract import Adjacency
from contracts.domains.addends import Addends, WeightedCount
from contracts.domains.lattice import ValueLattice
from privacy.accounting.events import CountNoise
from privacy.marginals.cell_sums import cell_sum_event
from privacy.marginals.sensitivity import LaplaceNoise

WEIGHT: Final = ValueLattice("weight", Decimal(0), Decimal(20), Decimal("0.5"), counts_missing=True)
LATTICE: Final = ValueLattice("income", Decimal(0), Decimal(1000), Decimal(10), counts_missing=True, weight=WEIGHT)
HEAVY: Final = WEIGHT.width
_OTHERS: Final = np.array([29_600, 10_400, 4000])
"""What some rows with a value, and one without, add up to."""


def handed_out(offset: int, weight: int) -> Whole:
    """Return what one row adds to the numbers of its cell, as `privacy.snapshots` adds it up."""
    return np.array([weight * offset, weight * (LATTICE.width - offset), 0])


def _event(addends: Addends, adjacency: Adjacency = "add_remove") -> CountNoise:
    """Return the event of the noise, as a grant derives it."""
    return cell_sum_event(LaplaceNoise(Fraction(1)), addends, adjacency=adjacency, rows_per_unit=1)


def _game(name: str, threat: str, pair: Pair, event: CountNoise, twin: CountNoise) -> Game:
    shipped, control = (partial(weighed, pair=pair, event=each) for each in (event, twin))
    seen, broken = f"{threat}; all noisy numbers of its cell are seen", "the sensitivity forgets the weight"
    return Game(name, seen, 1.0, 0.0, TRIALS, shipped, control, broken)


def summed() -> Game:
    """A row of the largest weight at the upper end of the clip."""
    pair = (_OTHERS, _OTHERS + handed_out(LATTICE.width, HEAVY))
    event, twin = _event(LATTICE), _event(replace(LATTICE, weight=None))
    threat = "one row of the largest weight more, at the upper end of the clip"
    return _game("weighted sums by cell, add_remove", threat, pair, event, twin)


def replaced() -> Game:
    """A row of the largest weight moves from one end of the clip to the other."""
    pair = (_OTHERS + handed_out(0, HEAVY), _OTHERS + handed_out(LATTICE.width, HEAVY))
    event, twin = _event(LATTICE, "replace_one"), _event(replace(LATTICE, weight=None), "replace_one")
    threat = "one row of the largest weight moves from the lower to the upper end of the clip"
    return _game("weighted sums by cell, replace_one", threat, pair, event, twin)


def counted() -> Game:
    """A row of the largest weight, where rows are counted alone; the twin is priced as a marginal of rows."""
    pair = (np.array([60]), np.array([60 + HEAVY]))
    unweighed = WeightedCount(replace(WEIGHT, high=WEIGHT.step))
    threat = "one row of the largest weight more, in a weighted count"
    return _game("weighted counts, add_remove", threat, pair, _event(WeightedCount(WEIGHT)), _event(unweighed))


GAMES: Final = {"weighted_sums": summed, "weighted_sums_replace_one": replaced, "weighted_counts": counted}
