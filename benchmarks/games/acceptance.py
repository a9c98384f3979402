"""Games on tests of candidates: a row that a model misses in every marginal, or a row that moves in every marginal.

Each trial is one released test: the noisy distance of a fixed model from the counts. The query's own code measures
the exact counts of both tables and draws. The twin decides by the exact distance, and releases the decision alone.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from itertools import combinations
from typing import Final

import numpy as np

from benchmarks.games.attackers import log_odds, recorded
from benchmarks.games.game import Game
from benchmarks.games.rows import DOMAIN, ONE, OTHER
from contracts.contract.contract import Adjacency
from privacy.arrays import Floats, Integers, Unsigned
from privacy.grant.queries.acceptance import AcceptanceQuery
from privacy.grant.queries.query import DrawStage, Relation, silent
from privacy.grant.sampled_noise import SampledNoise
from privacy.marginals.counts import PrivateCounts
from privacy.marginals.scores import Candidate, DistanceScore
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise
from privacy.noise.random_bytes import SecureBytes

TRIALS: Final = 20_000
DELTA: Final = 0.05
_PAIRS: Final = tuple(combinations(range(3), 2))
_OTHERS: Final = np.array([[1, 0, 1], [0, 1, 1], [1, 1, 0], [0, 0, 0]], np.uint8)
_PREDICTED: Final = np.array([[0, 0, 0], [0, 0, 0], [0, 0, 9]], np.int64)
"""A model with rows where the canary is, and none where the row is that stands in its place."""


def _counts(codes: Unsigned) -> tuple[Integers, ...]:
    """Count all pairs of columns."""
    counted = []
    for pair in _PAIRS:
        counts = np.zeros((3, 3), np.int64)
        np.add.at(counts, tuple(codes[:, list(pair)].T.astype(np.int64)), 1)
        counted.append(counts)
    return tuple(counted)


def _query(noise: LaplaceNoise | GaussianNoise) -> AcceptanceQuery:
    """Return the test of the mean distance of all pairs, whose bound lies between the two tables' distances."""
    marginals = tuple(
        Candidate(
            PrivateCounts.of_nobody(tuple(DOMAIN.columns[place] for place in pair), (3, 3)),
            DistanceScore(_PREDICTED, Fraction(1), Fraction(0)),
        )
        for pair in _PAIRS
    )
    return AcceptanceQuery("mean_marginal", marginals, (), 0, 0, 0, noise)


def _tables(adjacency: Adjacency) -> tuple[Unsigned, Unsigned]:
    """Return the rows without and with the canary; under replace_one another row stands in its place."""
    without = _OTHERS if adjacency == "add_remove" else np.concatenate([_OTHERS, OTHER])
    return without, np.concatenate([_OTHERS, ONE])


def weighed(there: bool, trials: int, *, noise: LaplaceNoise | GaussianNoise, adjacency: Adjacency) -> Floats:
    """Play the noisy distance, weighed by its noise."""
    query, relation = _query(noise), Relation(adjacency, 1)
    event, source = query.event(relation), SampledNoise(SecureBytes())
    stage = DrawStage(relation, 0, None, silent)
    exact = [_counts(table) for table in _tables(adjacency)]
    pair = tuple(np.array([query.measured(counts)], np.int64) for counts in exact)
    drawn = [query.sample(exact[there], event=event, noise=source, stage=stage) for _ in range(trials)]
    return log_odds(np.stack(drawn), (pair[0], pair[1]), event)


def decided_exactly(there: bool, trials: int, *, adjacency: Adjacency) -> Floats:
    """Play the twin: whether the exact distance keeps a bound between those of the two tables."""
    query = _query(LaplaceNoise(Fraction(1)))
    without, canary = (query.measured(_counts(table)) for table in _tables(adjacency))
    bound = (without + canary) / 2
    met = (canary if there else without) <= bound
    return np.full(trials, float(met == (canary <= bound)))


def _game(name: str, threat: str, noise: LaplaceNoise | GaussianNoise, adjacency: Adjacency) -> Game:
    event = _query(noise).event(Relation(adjacency, 1))
    delta = 0.0 if isinstance(noise, LaplaceNoise) else DELTA
    return Game(
        name=name,
        threat=f"{threat}; the noisy distance is seen",
        epsilon=1.0 if not delta else recorded([event], delta),
        delta=delta,
        trials=TRIALS,
        shipped=partial(weighed, noise=noise, adjacency=adjacency),
        twin=partial(decided_exactly, adjacency=adjacency),
        broken="a criterion that is decided by the exact distance",
        method="gaussian" if delta else "clopper_pearson",
        way="the query's own drawing",
    )


def laplace() -> Game:
    """A row more, which the model expects in all three pairs."""
    threat = "one row more, which comes nearer to the model in every marginal"
    return _game("acceptance test, mean of 3 marginals", threat, LaplaceNoise(Fraction(1)), "add_remove")


def replaced() -> Game:
    """A row leaves cells in which the model has nobody for cells in which it has rows, under Gaussian noise."""
    threat = "a row that moves from cells where the model has nobody to cells where it has rows"
    name = "acceptance test, mean of 3 marginals, replace_one, Gaussian"
    return _game(name, threat, GaussianNoise(Fraction(1, 2)), "replace_one")


GAMES: Final = {"acceptance": laplace, "acceptance_replace_one": replaced}
