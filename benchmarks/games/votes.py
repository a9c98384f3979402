"""Games on votes for candidates: two rounds, the second for candidates that follow from the noisy votes of the first.

Each trial is a whole run. The attacker sees all noisy votes, makes the candidates of the second round as anybody can,
and weighs both rounds together by the noise that is drawn. A unit has ten rows, so that the lattice of the noise is
fine. Each round moves one vote or two by as much, whatever its candidates are: the weight is normal.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any, Final

import numpy as np

from benchmarks.games.attackers import halved, log_odds, recorded
from benchmarks.games.game import Game
from contracts.contract.contract import Adjacency
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace
from privacy.arrays import Floats, Unsigned
from privacy.generators.private_evolution import ONE, Evolution
from privacy.grant.queries.query import DrawStage, Relation, silent
from privacy.grant.queries.votes import VoteQuery
from privacy.grant.sampled_noise import SampledNoise
from privacy.learning.candidates import Candidates, vote_event
from privacy.learning.layout import ColumnLayout, PrivateRows, RowLayout
from privacy.marginals.graph import CellDomain
from privacy.marginals.portable import PostProcessingSeed
from privacy.marginals.sensitivity import GaussianNoise
from privacy.noise.random_bytes import SecureBytes

TRIALS: Final = 4_000
DELTA: Final = 0.01
"""Where so many trials see most of what is claimed."""
NOISE: Final = GaussianNoise(Fraction(1, 8))
"""Of each round."""
ROUNDS: Final = 2
ROWS_PER_UNIT: Final = 10
MEMBERS: Final = 8
LEVELS: Final = np.linspace(0, 1, 9)[:, None]
LAYOUT: Final = RowLayout(
    (
        ColumnLayout("size", "number", LEVELS),
        ColumnLayout("age", "number", LEVELS),
        ColumnLayout("sex", "category", np.eye(2)),
    )
)
EVOLUTION: Final = Evolution(CellDomain(LAYOUT.names, (9, 9, 2)), LAYOUT, {}, "sex", PostProcessingSeed(1))
ROWS: Final = np.array([[1, 2, 0], [2, 2, 0], [1, 1, 0], [7, 5, 1], [6, 6, 1], [0, 8, 1]], dtype=np.uint8)


def played(
    there: bool,
    trials: int,
    *,
    tables: tuple[Unsigned, Unsigned],
    event: DiscreteGaussian | DiscreteLaplace,
    adjacency: Adjacency,
) -> Floats:
    """Run both rounds on one of two tables, as a grant draws them, and weigh all votes."""
    noise, relation = SampledNoise(SecureBytes()), Relation(adjacency, ROWS_PER_UNIT)
    stage, begun = DrawStage(relation, 0, None, silent), EVOLUTION.begin(MEMBERS)
    weighed = np.zeros(trials)
    for trial in range(trials):
        codes = begun
        for turn in range(ROUNDS):
            candidates = Candidates(LAYOUT.names, codes, "sex")
            query = VoteQuery(PrivateRows.of_nobody(LAYOUT), candidates, NOISE)
            noisy = query.sample((tables[there],), event=event, noise=noise, stage=stage)
            pair = candidates.votes(tables[0], LAYOUT), candidates.votes(tables[1], LAYOUT)
            weighed[trial] += log_odds(noisy[None], pair, event)[0]
            codes = EVOLUTION.changed(EVOLUTION.drawn(codes, noisy, len(begun), turn), ONE // 4, turn)
    return weighed


def _game(name: str, threat: str, tables: tuple[Unsigned, Unsigned], adjacency: Adjacency) -> Game:
    event = vote_event(NOISE, adjacency=adjacency, rows_per_unit=ROWS_PER_UNIT)
    quieter = halved(halved(event))
    play = partial(played, tables=tables, adjacency=adjacency)
    seen = (
        f"{threat}; all noisy votes of {ROUNDS} rounds are seen, the second for candidates that follow from the first"
    )
    epsilon, shipped, twin = (
        recorded([event] * ROUNDS, DELTA),
        partial(play, event=event),
        partial(play, event=quieter),
    )
    normal: dict[str, Any] = {"method": "gaussian", "twin_method": "gaussian"}
    return Game(name, seen, epsilon, DELTA, TRIALS, shipped, twin, "a quarter of the noise", **normal)


def one_more() -> Game:
    """A unit more."""
    more = np.concatenate([ROWS, np.array([[8, 0, 0]] * ROWS_PER_UNIT, dtype=np.uint8)])
    return _game("votes, add_remove", "ten rows of one unit more", (ROWS, more), "add_remove")


def replaced() -> Game:
    """A unit of one label in the place of one of the other, so that labels' shares move too."""
    pair = [np.concatenate([ROWS, np.array([row] * ROWS_PER_UNIT, dtype=np.uint8)]) for row in ((1, 1, 0), (8, 0, 1))]
    return _game("votes, replace_one", "ten rows of another label", (pair[0], pair[1]), "replace_one")


GAMES: Final = {"votes": one_more, "votes_replace_one": replaced}
