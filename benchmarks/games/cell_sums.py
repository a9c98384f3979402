"""Games on sums of a column by cell: a value far outside the clip, rows of one unit, a row that becomes another.

Each trial is one output: the noisy numbers of one cell (steps above, steps below, steps of missing values), or of two
cells, a number each, where sums are drawn alone. Many independent outputs are drawn in one call, as for marginals.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Final

import numpy as np

from benchmarks.games.attackers import Pair, Whole, halved, log_odds, recorded
from benchmarks.games.game import Game
from contracts.contract.contract import Adjacency
from contracts.domains.addends import Addends, LoneSum, moments_of
from contracts.domains.lattice import ValueLattice, offset_of
from privacy.accounting.events import CountNoise
from privacy.arrays import Floats
from privacy.grant.queries.cell_sums import noisy_cell_sums
from privacy.grant.sampled_noise import SampledNoise
from privacy.marginals.cell_sums import cell_sum_event
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise
from privacy.noise.random_bytes import SecureBytes

TRIALS: Final = 400_000
DELTA: Final = 0.01
"""Of the game on Gaussian noise: where so many trials see most of what is claimed."""
LATTICE: Final = ValueLattice("income", Decimal(0), Decimal(1000), Decimal(10), counts_missing=True)
FAR: Final = 3000
"""A value three times as far from the lower end as the clip is long."""
BALANCE: Final = LoneSum(ValueLattice("balance", Decimal(-1000), Decimal(1000), Decimal(10), counts_missing=False))
AGE: Final = LoneSum(ValueLattice("age", Decimal(20), Decimal(90), Decimal(1), counts_missing=False))
MOMENTS: Final = moments_of(LATTICE, 1)
_OTHERS: Final = np.array([740, 260, 100])
"""What ten rows with a value and one without add up to."""


def handed_out(offset: int | None) -> Whole:
    """Return what one row adds to the numbers of its cell; None is a missing value."""
    width = LATTICE.width
    return np.array([0, 0, width] if offset is None else [offset, width - offset, 0])


def moved(offset: int) -> Whole:
    """Return what one row adds to the moments of its cell."""
    width, times = LATTICE.width, MOMENTS.whole // LATTICE.width**2
    return np.array([(width - offset) ** 2, 2 * offset * (width - offset), offset**2, 0]) * times


def event_of(
    noise: LaplaceNoise | GaussianNoise,
    adjacency: Adjacency = "add_remove",
    rows_per_unit: int = 1,
    addends: Addends = LATTICE,
) -> CountNoise:
    """Return the event of the noise, as a grant derives it."""
    return cell_sum_event(noise, addends, adjacency=adjacency, rows_per_unit=rows_per_unit)


def weighed(there: bool, trials: int, *, pair: Pair, event: CountNoise) -> Floats:
    """Play the numbers of a cell, weighed by the noise that is drawn."""
    exact = np.tile(pair[there], (trials, 1))
    return log_odds(noisy_cell_sums(exact, event=event, noise=SampledNoise(SecureBytes())), pair, event)


def _game(
    name: str,
    threat: str,
    pair: Pair,
    event: CountNoise,
    twin: tuple[Pair, CountNoise, str],
    *,
    epsilon: float = 1.0,
    delta: float = 0.0,
) -> Game:
    broken_pair, broken_event, broken = twin
    shipped = partial(weighed, pair=pair, event=event)
    control = partial(weighed, pair=broken_pair, event=broken_event)
    seen = f"{threat}; all noisy numbers of its cell are seen"
    return Game(name, seen, epsilon, delta, TRIALS, shipped, control, broken)


def clipped() -> Game:
    """A row whose value lies far above the clip; the twin adds it up as it is."""
    event, width = event_of(LaplaceNoise(Fraction(1))), LATTICE.width
    pair = (_OTHERS, _OTHERS + handed_out(offset_of(LATTICE, Decimal(FAR))))
    beyond = FAR // int(LATTICE.step)
    unclipped = (_OTHERS, _OTHERS + np.array([beyond, width - beyond, 0]))
    threat = "one row more, its value three times the clip"
    return _game("sums by cell, add_remove", threat, pair, event, (unclipped, event, "the value is not clipped"))


def rows_of_a_unit() -> Game:
    """Two rows of one unit, one without a value; the twin lets a third one in."""
    event = event_of(LaplaceNoise(Fraction(1)), rows_per_unit=2)
    two = handed_out(LATTICE.width) + handed_out(None)
    pair, crowded = (_OTHERS, _OTHERS + two), (_OTHERS, _OTHERS + two + handed_out(LATTICE.width))
    name, threat = "sums by cell, add_remove, 2 rows a unit", "two rows of one unit more, one without a value"
    return _game(name, threat, pair, event, (crowded, event, "one row too many of a unit"))


def replaced() -> Game:
    """A row at the lower end becomes one at the upper end; the twin is calibrated for one that comes or goes."""
    event, twin = (event_of(LaplaceNoise(Fraction(1)), each) for each in ("replace_one", "add_remove"))
    pair = (_OTHERS + handed_out(0), _OTHERS + handed_out(LATTICE.width))
    threat = "one row moves from the lower to the upper end of the clip"
    return _game("sums by cell, replace_one", threat, pair, event, (pair, twin, "the sensitivity of add_remove"))


def gaussian() -> Game:
    """A row at the upper end, rho 1/2."""
    event = event_of(GaussianNoise(Fraction(1, 2)))
    pair = (_OTHERS, _OTHERS + handed_out(LATTICE.width))
    threat = "one row more, at the upper end of the clip"
    terms = {"epsilon": recorded([event], DELTA), "delta": DELTA}
    return _game("sums by cell, Gaussian", threat, pair, event, (pair, halved(event), "half the noise"), **terms)


def split() -> Game:
    """A row in the middle of the clip moves two numbers by half of it each; the twin has half the noise."""
    event = event_of(LaplaceNoise(Fraction(1)))
    pair = (_OTHERS, _OTHERS + handed_out(LATTICE.width // 2))
    threat = "one row more, in the middle of the clip"
    twin = (pair, halved(event), "half the noise")
    return _game("sums by cell, a value in the middle", threat, pair, event, twin)


def alone() -> Game:
    """A row at the far end of a clip that begins away from 0; the twin has the noise of the clip's length."""
    event = event_of(LaplaceNoise(Fraction(1)), addends=AGE)
    pair, threat = (np.array([900]), np.array([900 + AGE.reach])), "one row more, at the end of the clip far from 0"
    twin = (pair, event_of(LaplaceNoise(Fraction(1)), addends=AGE.lattice), "the sensitivity of the clip's length")
    return _game("a sum alone, add_remove", threat, pair, event, twin)


def alone_replaced() -> Game:
    """A row of one cell becomes one of another, far from 0; the twin is calibrated for one that comes or goes."""
    event = event_of(LaplaceNoise(Fraction(1)), "replace_one", addends=BALANCE)
    there = np.array([300 + BALANCE.reach, 500])
    pair, threat = (np.array([300, 500 + BALANCE.reach]), there), "one row moves from one cell to another"
    twin = (pair, event_of(LaplaceNoise(Fraction(1)), addends=BALANCE), "the sensitivity of add_remove")
    return _game("a sum alone, replace_one", threat, pair, event, twin)


def alone_turned() -> Game:
    """A row at the upper end becomes one at the lower end, Gaussian noise; the twin counts two cells and no turn."""
    event = event_of(GaussianNoise(Fraction(1, 2)), "replace_one", addends=BALANCE)
    pair, threat = (np.array([300]), np.array([300 + BALANCE.lattice.width])), "one row moves from end to end"
    one_sign = LoneSum(replace(BALANCE.lattice, low=BALANCE.lattice.step))
    terms = {"epsilon": recorded([event], DELTA), "delta": DELTA}
    two_cells = event_of(GaussianNoise(Fraction(1, 2)), "replace_one", addends=one_sign)
    twin = (pair, two_cells, "the sensitivity of values of one sign")
    return _game("a sum alone of both signs, Gaussian", threat, pair, event, twin, **terms)


def moments() -> Game:
    """A row far above the clip, by its moments; the twin squares it as it is."""
    event, width = event_of(LaplaceNoise(Fraction(1)), addends=MOMENTS), LATTICE.width
    others = 10 * moved(width // 3) + np.array([0, 0, 0, MOMENTS.whole])
    pair = (others, others + moved(offset_of(LATTICE, Decimal(FAR))))
    unclipped = (others, others + np.abs(moved(FAR // int(LATTICE.step))))
    threat = "one row more, its value three times the clip"
    return _game("moments by cell, add_remove", threat, pair, event, (unclipped, event, "the square is not clipped"))


def moments_between() -> Game:
    """A row in the middle of the clip moves three numbers; the twin has the sensitivity of one of them."""
    event = event_of(LaplaceNoise(Fraction(1)), addends=MOMENTS)
    others, middle = 10 * moved(LATTICE.width // 3), moved(LATTICE.width // 2)
    pair, largest = (others, others + middle), replace(MOMENTS, whole=int(middle.max()))
    twin = (pair, event_of(LaplaceNoise(Fraction(1)), addends=largest), "the sensitivity of the largest number")
    return _game("moments by cell, a value in the middle", "one row more, mid-clip", pair, event, twin)


GAMES: Final = {
    "cell_sums": clipped,
    "cell_sums_rows": rows_of_a_unit,
    "cell_sums_replace_one": replaced,
    "cell_sums_gaussian": gaussian,
    "cell_sums_middle": split,
    "cell_sums_alone": alone,
    "cell_sums_alone_replace_one": alone_replaced,
    "cell_sums_alone_gaussian": alone_turned,
    "cell_moments": moments,
    "cell_moments_middle": moments_between,
}
