"""Games on quantiles: a median chosen by the exponential mechanism, and trees of counts.

Each trial is one output of one cell. Of a choice it is the chosen value, weighed by its odds under the two tables.
The other rows are such that values whose odds move are rare: then one row more hardly moves the sum of all weights,
and the odds of these values by nearly all that is claimed. With an epsilon of 3 so many trials see most of it. A twin
at twice the rate makes them rarer still, and is found out beside one other row. Choices are drawn one by one. Of a
tree it is the noisy numbers of the nodes that a row is in.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Final

import numpy as np

from benchmarks.games.attackers import Pair, Whole, log_odds
from benchmarks.games.game import Game
from contracts.contract.contract import Adjacency
from contracts.domains.lattice import ValueLattice
from contracts.domains.trees import QuantileChoices, ValueTree
from privacy.accounting.events import CountNoise, DiscreteLaplace
from privacy.arrays import Floats
from privacy.grant.queries.cell_sums import noisy_cell_sums
from privacy.grant.queries.quantile_choice import base_rate
from privacy.grant.sampled_noise import SampledNoise
from privacy.marginals.cell_sums import cell_sum_event
from privacy.marginals.sensitivity import LaplaceNoise
from privacy.noise.random_bytes import SecureBytes
from privacy.statistics.quantile_runs import QuantileRuns, candidate, quantile_runs

CHOICES: Final = 300_000
EPSILON: Final = Fraction(3)
"""Of a choice."""
TREES: Final = 400_000
INCOME: Final = ValueLattice("income", Decimal(0), Decimal(1000), Decimal(1), counts_missing=True)
MEDIAN: Final = QuantileChoices(INCOME, (Decimal("0.5"),))
TREE: Final = ValueTree(INCOME, Decimal(1))
Rows = dict[int, int]
"""How many rows have each value."""
OTHERS: Final[dict[Adjacency, Rows]] = {
    "add_remove": {30: 1, 300: 1, 999: 2, INCOME.width: 4},
    "replace_one": {30: 1, 300: 1, 999: 4},
}
"""What both tables have beside the row in question; found by trying thousands of such tables."""
ONE: Final[Rows] = {6: 1}
"""What both tables of a twin have."""


def weighed_choice(there: bool, trials: int, *, pair: tuple[Rows, Rows], base: Fraction, claimed: Fraction) -> Floats:
    """Choose a median so often, as `chosen_quantiles` does, and weigh it by the rate that is claimed."""
    runs, rate = _runs(pair[there], base)
    starts, odds = choice_odds(pair, claimed)
    noise, found = SampledNoise(SecureBytes()), np.empty(trials)
    for trial in range(trials):
        run, drawn = noise.weighted_choice(runs.distances, runs.weights, rate=rate)
        found[trial] = candidate(MEDIAN, int(runs.first[run]), int(runs.last[run]), drawn)
    return odds[np.searchsorted(starts, found, side="right") - 1]


def choice_odds(pair: tuple[Rows, Rows], base: Fraction) -> tuple[Floats, Floats]:
    """Return from which values on the log odds of a choice, with the canary over without, are which."""
    laws = []
    for rows in pair:
        runs, rate = _runs({value: rows.get(value, 0) for value in pair[0].keys() | pair[1].keys()}, base)
        weights = np.array([float(each) for each in runs.weights])
        weights *= np.exp(-float(rate) * np.array([float(each) for each in runs.distances]))
        laws.append(weights / weights.sum())
    return np.array([float(each) for each in runs.first]), np.log(laws[1]) - np.log(laws[0])


def _runs(rows: Rows, base: Fraction) -> tuple[QuantileRuns, Fraction]:
    """Return the runs of values that are chosen alike, and the rate of a unit of their distance."""
    offsets = np.array(sorted(rows), dtype=np.int64)
    numbers = np.array([rows[int(each)] for each in offsets], dtype=np.int64)
    runs = quantile_runs(MEDIAN, 0, offsets, numbers, (None, None))
    return runs, base * MEDIAN.rate_share(0) / runs.unit


def _choice(adjacency: Adjacency, threat: str, without: Rows, canary: Rows, broken: str) -> Game:
    """Play a median; the twin's rate is twice as high."""
    base = base_rate(MEDIAN, EPSILON, adjacency=adjacency, rows_per_unit=1)
    shipped, twin = (
        partial(weighed_choice, pair=(_with(others, without), _with(others, canary)), base=rate, claimed=base)
        for others, rate in ((OTHERS[adjacency], base), (ONE, 2 * base))
    )
    seen = f"{threat}; the chosen median is seen"
    return Game(f"median by choice, {adjacency}", seen, float(EPSILON), 0.0, CHOICES, shipped, twin, broken)


def _with(others: Rows, more: Rows) -> Rows:
    return {value: others.get(value, 0) + more.get(value, 0) for value in others.keys() | more.keys()}


def median() -> Game:
    """One row more, at the lower end of the clip; the twin leaves the factor 2 of the rate out."""
    return _choice("add_remove", "one row more, at the lower end", {}, {0: 1}, "twice the rate")


def replaced() -> Game:
    """A row moves from the upper to the lower end; the twin is calibrated for one that comes or goes."""
    return _choice(
        "replace_one", "one row moves from end to end", {INCOME.width: 1}, {0: 1}, "the rate of add_remove"
    )


def weighed_tree(there: bool, trials: int, *, pair: Pair, event: CountNoise) -> Floats:
    """Draw the numbers of a tree that a row moves, weighed by the noise that is drawn."""
    exact: Whole = np.tile(pair[there], (trials, 1))
    return log_odds(noisy_cell_sums(exact, event=event, noise=SampledNoise(SecureBytes())), pair, event)


def tree() -> Game:
    """One row more; the twin pays for one level of the tree only."""
    event = cell_sum_event(LaplaceNoise(Fraction(1)), TREE, adjacency="add_remove", rows_per_unit=1)
    if not isinstance(event, DiscreteLaplace):
        raise TypeError("Laplace noise was asked for")
    cheap = DiscreteLaplace(event.inverse_scale * TREE.levels, event.moves)
    # The nodes above one leaf: the others are alike in both tables.
    pair = np.array([7] * TREE.levels), np.array([8] * TREE.levels)
    shipped, twin = (partial(weighed_tree, pair=pair, event=each) for each in (event, cheap))
    threat = "one row more; the noisy numbers of its node in each level are seen"
    return Game("tree of counts, add_remove", threat, 1.0, 0.0, TREES, shipped, twin, "one level is paid for")


GAMES: Final = {"quantile_median": median, "quantile_replace_one": replaced, "quantile_tree": tree}
