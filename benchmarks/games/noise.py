"""Games on the noise of marginals: dense, suppressed, listed; one table or several; private choices.

Each trial is one output. Many independent outputs are drawn in one call: the counts of all trials stand in one array,
and noise is independent from cell to cell.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Final

import numpy as np

from benchmarks.games.attackers import Pair, Whole, claimed, halved, log_odds
from benchmarks.games.game import Game
from contracts.contract.cell_codes import ImpossibleCells
from contracts.contract.contract import Adjacency
from contracts.release.tables.tables import MinimumFrequency
from privacy.accounting.events import CountNoise, DiscreteLaplace
from privacy.arrays import Floats
from privacy.grant.queries.choice import choice
from privacy.grant.queries.marginal import noisy_counts
from privacy.grant.queries.sparse_marginal import draw_listed
from privacy.grant.sampled_noise import SampledNoise
from privacy.marginals.counts import PrivateCounts
from privacy.marginals.scores import Candidate, DistanceScore, score_of
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise, noise_event
from privacy.marginals.suppression import Threshold, threshold_for
from privacy.noise.random_bytes import RandomBytes, SecureBytes, SeededBytes
from privacy.refine.sparse_depth import Depth

TRIALS: Final = 400_000
CHOICES: Final = 60_000
DELTA: Final = 0.01
"""Of games on Gaussian noise: where so many trials see most of what is claimed."""
HALF: Final = "half the noise"
_BEFORE: Final = np.array([7, 3, 0, 12])


def _pair(changes: Mapping[int, int]) -> Pair:
    """Return a small marginal, and the one after some cells have changed."""
    after = _BEFORE.copy()
    for cell, change in changes.items():
        after[cell] += change
    return _BEFORE, after


def _outputs(
    there: bool,
    trials: int,
    *,
    pair: Pair,
    event: CountNoise,
    source: RandomBytes,
    threshold: Threshold | None = None,
) -> Whole:
    """Draw independent outputs of one of the two tables, shape (trials, cells)."""
    exact = np.tile(pair[there], (trials, 1))
    return noisy_counts(exact, event=event, threshold=threshold, noise=SampledNoise(source))


def _likelihood(there: bool, trials: int, *, pair: Pair, noise: CountNoise) -> Floats:
    """Play a marginal: the attacker weighs all cells by the noise that is drawn."""
    return log_odds(_outputs(there, trials, pair=pair, event=noise, source=SecureBytes()), pair, noise)


def _marginal(
    what: str,
    threat: str,
    pair: Pair,
    event: CountNoise,
    twin: CountNoise,
    broken: str,
    *,
    epsilon: float,
    delta: float,
) -> Game:
    plays = [partial(_likelihood, pair=pair, noise=noise) for noise in (event, twin)]
    return Game(what, threat, epsilon, delta, TRIALS, plays[0], plays[1], broken)


def laplace_add_remove() -> Game:
    """One row more, epsilon 1."""
    event = noise_event(LaplaceNoise(Fraction(1)), adjacency="add_remove", rows_per_unit=1)
    threat = "a marginal of 4 cells, one row more in one of them; all noisy cells are seen"
    what = "discrete Laplace marginal, add_remove"
    return _marginal(what, threat, _pair({2: 1}), event, halved(event), HALF, epsilon=1.0, delta=0.0)


def laplace_replace_one() -> Game:
    """One row moves to another cell; the twin is calibrated for one that comes or goes."""
    event, twin = (_event(LaplaceNoise(Fraction(1)), each) for each in ("replace_one", "add_remove"))
    threat = "a marginal of 4 cells, one row moved from one cell to another; all noisy cells are seen"
    what, broken = "discrete Laplace marginal, replace_one", "the sensitivity of add_remove"
    return _marginal(what, threat, _pair({0: -1, 2: 1}), event, twin, broken, epsilon=1.0, delta=0.0)


def laplace_three_rows() -> Game:
    """Three rows of one unit; the twin is calibrated for one."""
    event, twin = (_event(LaplaceNoise(Fraction(1)), "add_remove", rows) for rows in (3, 1))
    threat = "a marginal of 4 cells, three rows of one unit more in one of them; all noisy cells are seen"
    what, broken = "discrete Laplace marginal, add_remove, 3 rows a unit", "the bound on a unit's rows is ignored"
    return _marginal(what, threat, _pair({2: 3}), event, twin, broken, epsilon=1.0, delta=0.0)


def gaussian_add_remove() -> Game:
    """One row more, rho 1/2."""
    return _gaussian("add_remove", {2: 1}, "one row more in one of them")


def gaussian_replace_one() -> Game:
    """One row moves, rho 1/2."""
    return _gaussian("replace_one", {0: -1, 2: 1}, "one row moved from one cell to another")


def _gaussian(adjacency: Adjacency, changes: Mapping[int, int], moved: str) -> Game:
    event = _event(GaussianNoise(Fraction(1, 2)), adjacency)
    threat = f"a marginal of 4 cells, {moved}; all noisy cells are seen"
    what, epsilon = f"discrete Gaussian marginal, {adjacency}", claimed([event], DELTA)
    return _marginal(what, threat, _pair(changes), event, halved(event), HALF, epsilon=epsilon, delta=DELTA)


def _event(noise: LaplaceNoise | GaussianNoise, adjacency: Adjacency, rows: int = 1) -> CountNoise:
    return noise_event(noise, adjacency=adjacency, rows_per_unit=rows)


def several_tables() -> Game:
    """Three marginals of one release; the twin draws each from the same bytes again."""
    event = _event(LaplaceNoise(Fraction(1, 3)), "add_remove")
    pairs = [_pair({cell: 1}) for cell in (0, 1, 2)]

    def drawn(there: bool, trials: int, sources: Sequence[RandomBytes]) -> list[Whole]:
        each = zip(pairs, sources, strict=True)
        return [_outputs(there, trials, pair=pair, event=event, source=source) for pair, source in each]

    def shipped(there: bool, trials: int) -> Floats:
        source = SecureBytes()
        tables = drawn(there, trials, [source] * 3)
        return np.asarray(sum(log_odds(table, pair, event) for table, pair in zip(tables, pairs, strict=True)))

    def twin(there: bool, trials: int) -> Floats:
        seed = secrets.randbits(60)
        one, other, _ = drawn(there, trials, [SeededBytes(seed) for _ in pairs])
        return (one - other)[:, 0].astype(np.float64)

    threat = "three marginals of one release, one row more in all of them; all noisy cells are seen"
    return Game("three discrete Laplace marginals of one release", threat, 1.0, 0.0, TRIALS, shipped, twin, SEED)


SEED: Final = "the same random bytes for every table"


def minimum_frequency() -> Game:
    """Suppression of small noisy counts; the twin suppresses small exact ones."""
    event = _event(LaplaceNoise(Fraction(1)), "add_remove")
    threshold = threshold_for(MinimumFrequency.model_validate({"k": 10, "t": 0}), event)
    pair = (np.array([9]), np.array([10]))

    def shipped(there: bool, trials: int) -> Floats:
        source = SecureBytes()
        seen = _outputs(there, trials, pair=pair, event=event, source=source, threshold=threshold)
        return seen[:, 0].astype(np.float64)

    def twin(there: bool, trials: int) -> Floats:
        seen = _outputs(there, trials, pair=pair, event=event, source=SecureBytes())[:, 0]
        return np.full(trials, -1e6) if pair[there][0] < threshold.k else seen.astype(np.float64)

    threat = "a cell of k - 1 or k rows under a minimum-frequency rule; the noisy count, or that it is suppressed"
    broken = "cells are suppressed by their exact counts"
    return Game("minimum_frequency on discrete Laplace", threat, 1.0, 0.0, TRIALS, shipped, twin, broken)


def sparse_table() -> Game:
    """Listed cells: whether a cell of one row or of none is listed, and with which count."""
    event = _event(LaplaceNoise(Fraction(1)), "add_remove")
    assert isinstance(event, DiscreteLaplace)
    threshold = 3
    until = Depth(event.inverse_scale, threshold, threshold, None, ImpossibleCells(()))

    def listed(there: bool, trials: int, only_populated: bool) -> Floats:
        codes = np.arange(trials, dtype=np.int64) * 4
        counts = np.full(trials if there else 0, 1, dtype=np.int64)
        populated = (codes[: counts.size], counts)
        table = draw_listed(populated, cells=4 * trials, event=event, until=until, noise=SampledNoise(SecureBytes()))
        seen = np.full(4 * trials, threshold - 1.0)
        seen[table.codes] = table.values
        if only_populated:
            seen[np.setdiff1d(np.arange(4 * trials), populated[0])] = threshold - 1.0
        return seen[codes]

    shipped, twin = (partial(listed, only_populated=each) for each in (False, True))
    threat = "a cell of one row or of none in a table of which only the cells at or above a threshold are listed"
    broken = "noise on populated cells only"
    return Game("sparse table, discrete Laplace", threat, 1.0, 0.0, TRIALS, shipped, twin, broken)


def private_choice() -> Game:
    """The exponential mechanism between two marginals whose scores move in opposite directions."""
    epsilon, before, after = Fraction(2), np.array([5, 5]), np.array([6, 5])
    predictions = (np.array([1, 5]), np.array([12, 5]))
    scores = [DistanceScore(each, Fraction(1), Fraction(0)) for each in predictions]
    exact = [[score_of(score, table) for score in scores] for table in (before, after)]
    candidates = [
        Candidate(PrivateCounts((name,), (2,), "", "", lambda: before), score)
        for name, score in zip("ab", scores, strict=True)
    ]
    sensitivity = max(candidate.score.sensitivity("add_remove", 1) for candidate in candidates)

    def chosen(there: bool, trials: int, allowed: Fraction) -> Floats:
        source = SecureBytes()
        draw: Callable[[], Whole] = partial(
            choice, exact[there], epsilon=epsilon, sensitivity=allowed, noise=SampledNoise(source)
        )
        return np.array([1.0 - draw()[0] for _ in range(trials)])

    threat = (
        "a choice between two marginals, one row more raising one score and lowering the other; the choice is seen"
    )
    plays = [partial(chosen, allowed=each) for each in (sensitivity, sensitivity / 2)]
    broken = "half the sensitivity"
    return Game("exponential mechanism", threat, float(epsilon), 0.0, CHOICES, plays[0], plays[1], broken)


GAMES: Final[Mapping[str, Callable[[], Game]]] = {
    "laplace": laplace_add_remove,
    "laplace_replace_one": laplace_replace_one,
    "laplace_three_rows": laplace_three_rows,
    "gaussian": gaussian_add_remove,
    "gaussian_replace_one": gaussian_replace_one,
    "several_tables": several_tables,
    "minimum_frequency": minimum_frequency,
    "sparse": sparse_table,
    "choice": private_choice,
}
