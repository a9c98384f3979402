"""Games on quantiles: a median chosen by the exponential mechanism, and trees of counts.

Each trial is one output of one cell. Of a choice it is on which side of the rows the chosen value lies: few
candidates below, many above, so that one row more moves the odds of the rare side by nearly all that is claimed.
Choices are drawn one by one. Of a tree it is the noisy numbers of the nodes that a row is in.
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
from contracts.domains.quantile_choices import QuantileChoices
from contracts.domains.value_lattices import ValueLattice
from contracts.domains.value_trees import ValueTree
from privacy.accounting.events import CountNoise, DiscreteLaplace
from privacy.arrays import Floats
from privacy.grant.queries.cell_sums import noisy_cell_sums
from privacy.grant.queries.quantile_choice import base_rate
from privacy.grant.sampled_noise import SampledNoise
from privacy.marginals.cell_sums import cell_sum_event
from privacy.marginals.sensitivity import LaplaceNoise
from privacy.noise.random_bytes import SecureBytes
from privacy.statistics.quantile_runs import candidate, quantile_runs

CHOICES: Final = 100_000
TREES: Final = 400_000
INCOME: Final = ValueLattice("income", Decimal(0), Decimal(1000), Decimal(1), counts_missing=True)
MEDIAN: Final = QuantileChoices(INCOME, (Decimal("0.5"),))
TREE: Final = ValueTree(INCOME, Decimal(1))
VALUE: Final = 20
"""What all rows have but the one in question."""
_ROWS: Final = {VALUE: 4}


def below(there: bool, trials: int, *, pair: tuple[dict[int, int], dict[int, int]], base: Fraction) -> Floats:
    """Choose a median so often, as `chosen_quantiles` does; 1 where it lies below the rows, else 0."""
    offsets = np.array(sorted(pair[there]), dtype=np.int64)
    rows = np.array([pair[there][int(each)] for each in offsets], dtype=np.int64)
    runs, noise = quantile_runs(MEDIAN, 0, offsets, rows, (None, None)), SampledNoise(SecureBytes())
    rate, found = base * MEDIAN.rate_share(0) / runs.unit, np.empty(trials)
    for trial in range(trials):
        run, drawn = noise.weighted_choice(runs.distances, runs.weights, rate=rate)
        found[trial] = candidate(MEDIAN, int(runs.first[run]), int(runs.last[run]), drawn) < VALUE
    return found


def _choice(adjacency: Adjacency, threat: str, without: dict[int, int], canary: dict[int, int], broken: str) -> Game:
    """Play a median at an epsilon of 1; the twin's rate is twice as high."""
    base = base_rate(MEDIAN, Fraction(1), adjacency=adjacency, rows_per_unit=1)
    shipped, twin = (partial(below, pair=(without, canary), base=each) for each in (base, 2 * base))
    seen = f"{threat}; the chosen median is seen"
    return Game(f"median by choice, {adjacency}", seen, 1.0, 0.0, CHOICES, shipped, twin, broken)


def median() -> Game:
    """One row more, at the lower end of the clip; the twin leaves the factor 2 of the rate out."""
    return _choice("add_remove", "one row more, at the lower end", _ROWS, {**_ROWS, 0: 1}, "twice the rate")


def replaced() -> Game:
    """A row moves from the upper to the lower end; the twin is calibrated for one that comes or goes."""
    without, canary = {**_ROWS, INCOME.width: 1}, {**_ROWS, 0: 1}
    return _choice("replace_one", "one row moves from end to end", without, canary, "the rate of add_remove")


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
