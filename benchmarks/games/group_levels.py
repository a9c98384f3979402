"""Games on adaptive tables: a row more in a group at a threshold, and a row that moves to another group.

Each trial is one output of both draws: the noisy total of every group, which chooses the level, and the noisy counts
at that level. The attacker weighs all of them by the noise that is drawn. Many worlds are drawn in one call, as the
groups of one query.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import partial
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.games.attackers import halved, log_odds, recorded
from benchmarks.games.game import Game
from contracts.contract.contract import Adjacency
from privacy.arrays import Floats
from privacy.grant.queries.level_counts import LevelCountQuery
from privacy.grant.queries.marginal import MarginalQuery
from privacy.grant.queries.query import DrawStage, Relation, silent
from privacy.grant.sampled_noise import SampledNoise
from privacy.marginals.counts import PrivateCounts
from privacy.marginals.group_levels import level_starts
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise, Noise
from privacy.noise.random_bytes import SecureBytes

Noises = tuple[Noise, Noise]
"""Of the totals, and of the counts at the levels that they choose."""
TRIALS: Final = 40_000
DELTA: Final = 0.01
"""Where so many trials see most of what is claimed."""
GAUSSIAN: Final[Noises] = GaussianNoise(Fraction(1, 20)), GaussianNoise(Fraction(9, 20))
LAPLACE: Final[Noises] = LaplaceNoise(Fraction(1, 5)), LaplaceNoise(Fraction(4, 5))
THRESHOLD: Final = 30
CELLS: Final = (1, 2, 6)
CELL_OF: Final = (np.zeros(6, np.int64), np.repeat(np.arange(2), 3), np.arange(6))
Worlds = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Two tables, shape (groups, 2, 3)."""


def played(there: bool, trials: int, *, tables: Worlds, relation: Relation, noises: Noises, quieter: bool) -> Floats:
    """Draw both stages of one of two tables, as a grant does, and weigh all numbers.

    Args:
        there: whether it is the second table.
        trials: how many worlds.
        tables: both.
        relation: which tables are neighbours.
        noises: of both draws.
        quieter: of the twin: counts have half the noise.
    """
    exact, noise = np.tile(tables[there], (trials, 1, 1)), SampledNoise(SecureBytes())
    stage, groups = DrawStage(relation, 0, None, silent), len(exact)
    totals = MarginalQuery(PrivateCounts.of_nobody(("group",), (groups,)), noises[0])
    first = totals.event(relation)
    noisy = totals.sample((exact.sum(axis=(1, 2)),), event=first, noise=noise, stage=stage)
    chosen = np.searchsorted([THRESHOLD, 2 * THRESHOLD], noisy, side="right")
    handle = PrivateCounts.of_nobody(("group", "sex", "age"), exact.shape)
    counts = LevelCountQuery(handle, 1, CELLS, CELL_OF, chosen, noises[1])
    counts.check(relation)
    second = counts.event(relation)
    drawn = halved(second) if quieter else second
    values = counts.sample((exact,), event=drawn, noise=noise, stage=stage)
    pair = tables[0].sum(axis=(1, 2)), tables[1].sum(axis=(1, 2))
    weighed = log_odds(noisy.reshape(trials, -1), pair, first)
    starts = level_starts(CELLS, chosen)
    for level, size in enumerate(CELLS):
        own = np.flatnonzero(chosen == level)
        for group in range(len(tables[0])):
            worlds = own[own % len(tables[0]) == group]
            seen = values[starts[worlds][:, None] + np.arange(size)]
            sums = [np.bincount(CELL_OF[level], each[group].reshape(-1), size).astype(np.int64) for each in tables]
            weighed[worlds // len(tables[0])] += log_odds(seen, (sums[0], sums[1]), drawn)  # type: ignore[arg-type]
    return weighed


def _game(name: str, threat: str, tables: Worlds, adjacency: Adjacency, noises: Noises = GAUSSIAN) -> Game:
    relation = Relation(adjacency, 1)
    events = [noise_of.event(relation) for noise_of in _queries(tables, noises)]
    pure = noises is LAPLACE
    epsilon, delta = (1.0, 0.0) if pure else (recorded(events, DELTA), DELTA)
    play = partial(played, tables=tables, relation=relation, noises=noises)
    seen = f"{threat}; all noisy numbers of both draws are seen"
    shipped, twin = partial(play, quieter=False), partial(play, quieter=True)
    broken = "half the noise at the level that was chosen"
    game = Game(name, seen, epsilon, delta, TRIALS, shipped, twin, broken)
    return replace(game, method="clopper_pearson") if pure else game


def _queries(tables: Worlds, noises: Noises) -> tuple[MarginalQuery, LevelCountQuery]:
    groups, chosen = len(tables[0]), np.zeros(len(tables[0]), np.int64)
    clique, shape = ("group", "sex", "age"), tables[0].shape
    totals = MarginalQuery(PrivateCounts.of_nobody(clique[:1], (groups,)), noises[0])
    assert prod(shape[1:]) == CELLS[-1]
    return totals, LevelCountQuery(PrivateCounts.of_nobody(clique, shape), 1, CELLS, CELL_OF, chosen, noises[1])


def more() -> Game:
    """A row more in a group whose total is at the threshold."""
    rows = np.array([[[6, 5, 5], [4, 6, 4]]])
    there = rows + np.array([[[1, 0, 0], [0, 0, 0]]])
    return _game("adaptive tables, add_remove", "one row more in a group at a threshold", (rows, there), "add_remove")


def moved() -> Game:
    """A row goes from one group to another, each at a threshold."""
    rows = np.array([[[6, 5, 5], [4, 6, 4]], [[10, 10, 11], [9, 10, 10]]])
    there = rows + np.array([[[-1, 0, 0], [0, 0, 0]], [[0, 0, 0], [0, 0, 1]]])
    threat = "one row moves between two groups, each at a threshold"
    return _game("adaptive tables, replace_one", threat, (rows, there), "replace_one")


def laplace() -> Game:
    """A row more in a group at the threshold, under Laplace noise: both draws lose what their epsilons add up to."""
    rows = np.array([[[6, 5, 5], [4, 6, 4]]])
    there = rows + np.array([[[1, 0, 0], [0, 0, 0]]])
    threat = "one row more in a group at a threshold"
    return _game("adaptive tables, Laplace", threat, (rows, there), "add_remove", LAPLACE)


GAMES: Final = {
    "adaptive_tables": more,
    "adaptive_tables_replace_one": moved,
    "adaptive_tables_laplace": laplace,
}
