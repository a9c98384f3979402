"""Games on ranges of an ordered column: a row that comes where it moves most, and a row that moves to another label.

Each trial is one output: all noisy numbers of the strategies of a small release, weighed by the noise that is drawn.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Final

import numpy as np

from benchmarks.games.attackers import Pair, Whole, log_odds, recorded
from benchmarks.games.game import Game
from contracts.contract.contract import Adjacency
from privacy.accounting.calibrate import gaussian_sigma_squared
from privacy.accounting.events import DiscreteGaussian
from privacy.arrays import Floats
from privacy.grant.queries.query import Relation
from privacy.grant.queries.strategies import StrategyQuery, noisy_strategies
from privacy.grant.sampled_noise import SampledNoise
from privacy.marginals.counts import PrivateCounts
from privacy.marginals.ordered.strategies import measured_numbers, strategy_moves
from privacy.marginals.sensitivity import GaussianNoise
from privacy.noise.random_bytes import SecureBytes

TRIALS: Final = 40_000
DELTA: Final = 0.01
"""Where so many trials see most of what is claimed."""
NOISE: Final = GaussianNoise(Fraction(1, 2))
SIZES: Final = {"sex": 2, "job": 3, "age": 4}
"""Of which age is ordered."""
PREFIXES: Final = np.array([[9, 6, 5, 4], [0, 7, 5, 4], [0, 0, 6, 4], [0, 0, 0, 5]], np.int64)
ROWS: Final = np.arange(24, dtype=np.int64).reshape(2, 3, 4) % 5 + 1


def query_of(plain: tuple[tuple[str, ...], ...], matrices: tuple[Whole, ...]) -> StrategyQuery:
    """Return the query of strategies over sets of plain columns and the ordered one."""
    cliques = [(*columns, "age") for columns in plain]
    handles = tuple(PrivateCounts.of_nobody(each, tuple(SIZES[name] for name in each)) for each in cliques)
    return StrategyQuery(handles, tuple(map(len, plain)), matrices, NOISE)


TOGETHER: Final = query_of(((), ("sex",), ("job",)), (2 * PREFIXES, PREFIXES, PREFIXES))
ALONE: Final = query_of((("sex",),), (PREFIXES,))


def counts_of(rows: Whole, query: StrategyQuery) -> tuple[Whole, ...]:
    """Return the marginals of a table of sex by job by age, one for each strategy."""
    axes = [tuple(axis for axis, name in enumerate(SIZES) if name not in each.clique) for each in query.counts]
    return tuple(np.asarray(rows.sum(axis=each)) for each in axes)


def played(
    there: bool, trials: int, *, tables: Pair, query: StrategyQuery, relation: Relation, event: DiscreteGaussian
) -> Floats:
    """Draw the strategies of one of two tables, as a grant does, and weigh all numbers."""
    query.check(relation)
    noise, measured, counts = SampledNoise(SecureBytes()), query.strategies, counts_of(tables[there], query)
    # All worlds in one call: the noise of each number is independent of all others.
    drawn = noisy_strategies(counts * trials, measured * trials, event=event, noise=noise)
    without, canary = (_exact(table, query) for table in tables)
    return log_odds(drawn.reshape(trials, -1), (without, canary), event)


def _exact(rows: Whole, query: StrategyQuery) -> Whole:
    paired = zip(query.strategies, counts_of(rows, query), strict=True)
    return np.concatenate([measured_numbers(each, counts) for each, counts in paired])


def _game(
    name: str,
    threat: str,
    there: Whole,
    query: StrategyQuery,
    adjacency: Adjacency,
    twin: tuple[tuple[int, ...], str],
) -> Game:
    relation = Relation(adjacency, 1)
    event, (moves, broken) = query.event(relation), twin
    quieter = DiscreteGaussian(gaussian_sigma_squared(NOISE.rho, moves), event.moves)
    play = partial(played, tables=(ROWS, there), query=query, relation=relation)
    seen = f"{threat}; all noisy numbers are seen"
    epsilon = recorded([event], DELTA)
    return Game(name, seen, epsilon, DELTA, TRIALS, partial(play, event=event), partial(play, event=quieter), broken)


def together() -> Game:
    """A row more in the cell that moves three strategies most; the twin has the sensitivity of one of them."""
    there = ROWS.copy()
    there[0, 0, 2] += 1  # 6² + 5² + 5² = 86 is the largest column of the matrix
    twin = (strategy_moves(ALONE.strategies, "add_remove", 1), "the sensitivity of one strategy of three")
    return _game("ranges, add_remove", "one row more", there, TOGETHER, "add_remove", twin)


def replaced() -> Game:
    """A row gets another label of the plain column; the twin counts a row that comes or goes."""
    there = ROWS.copy()
    there[0, 0, 2] -= 1
    there[1, 0, 2] += 1
    twin = (strategy_moves(ALONE.strategies, "add_remove", 1), "the sensitivity of add_remove")
    return _game("ranges, replace_one", "one row moves", there, ALONE, "replace_one", twin)


GAMES: Final = {"strategies": together, "strategies_replace_one": replaced}
