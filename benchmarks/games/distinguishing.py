"""The distinguishing game: two neighbouring tables, many outputs of each, one guess an output.

    1. LEARN    where an output is several numbers, how they are weighed into one (first quarter of the trials)
    2. CHOOSE   the threshold from which on the attacker says "it was there" (up to half of the trials)
    3. BOUND    epsilon from how often the guess is right in the other half, which had no part in 1 and 2

So the confidence of 3 needs no correction for having searched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from benchmarks.games.lower_bound import BoundMethod, gaussian_epsilon, largest_certifiable, proven
from privacy.arrays import Floats

_CANDIDATES: Final = 400
_RIDGE: Final = 1e-3


@dataclass(frozen=True)
class LossBound:
    """What a game proves.

    Args:
        epsilon: with the confidence, the mechanism's epsilon at delta is at least so much.
        delta: of the statement.
        confidence: chance that the statement is right.
        trials: calls of the mechanism in all, both tables together.
        largest_certifiable: what an attacker who is never wrong would have proven with so many.
        true_rate: share of trials with the canary that were told, in the second half.
        false_rate: share of trials without it that were taken for such.
    """

    epsilon: float
    delta: float
    confidence: float
    trials: int
    largest_certifiable: float
    true_rate: float
    false_rate: float


def distinguish(
    there: Floats, not_there: Floats, *, delta: float, confidence: float, method: BoundMethod = "clopper_pearson"
) -> LossBound:
    """Bound epsilon from below by telling two tables apart.

    Args:
        there: a number for each output of the table with the canary, larger where that is likelier, shape (trials,);
            or several numbers an output, shape (trials, numbers).
        not_there: the same of the neighbouring table.
        delta: of the claim that is tested; above 0 for method "gaussian".
        confidence: of the bound, below 1.
        method: of `lower_bound`.
    Raises:
        ValueError: fewer than eight trials of a table, or scores that are no numbers.
    """
    if min(len(there), len(not_there)) < 8 or not (np.isfinite(there).all() and np.isfinite(not_there).all()):
        raise ValueError("a game needs at least eight trials of each table, and scores that are finite numbers")
    unsure = 1 - confidence
    if there.ndim == 2:
        direction = learned_direction(there[: len(there) // 4], not_there[: len(not_there) // 4])
        there, not_there = there @ direction, not_there @ direction
        first, second = _split(there[len(there) // 4 :], 1 / 3), _split(not_there[len(not_there) // 4 :], 1 / 3)
    else:
        first, second = _split(there, 1 / 2), _split(not_there, 1 / 2)
    trials = (len(first[1]), len(second[1]))
    threshold = _threshold(first[0], second[0], trials, delta=delta, unsure=unsure, method=method)
    found, wrongly = (np.array([float((part >= threshold).sum())]) for part in (first[1], second[1]))
    value = float(proven(found, wrongly, trials, delta=delta, unsure=unsure, method=method)[0])
    return LossBound(
        epsilon=gaussian_epsilon(value, delta) if method == "gaussian" else value,
        delta=delta,
        confidence=confidence,
        trials=len(there) + len(not_there),
        largest_certifiable=largest_certifiable(trials, delta=delta, unsure=unsure, method=method),
        true_rate=float(found[0]) / trials[0],
        false_rate=float(wrongly[0]) / trials[1],
    )


def learned_direction(there: Floats, not_there: Floats) -> Floats:
    """Return the weights by which several numbers an output tell best: Fisher's linear discriminant, with a ridge.

    Args:
        there, not_there: shape (trials, numbers).
    """
    spread = np.concatenate([there, not_there]).std(axis=0)
    scale = np.where(spread > 0, spread, 1.0)
    one, other = there / scale, not_there / scale
    within = (np.cov(one.T) + np.cov(other.T)) / 2
    within = np.atleast_2d(within) + _RIDGE * np.eye(one.shape[1])
    weights: Floats = np.linalg.solve(within, one.mean(axis=0) - other.mean(axis=0)) / scale
    return weights


def _split(scores: Floats, share: float) -> tuple[Floats, Floats]:
    """Split the trials: some to choose by, the others to bound by."""
    place = round(len(scores) * share)
    return scores[:place], scores[place:]


def _threshold(
    there: Floats, not_there: Floats, trials: tuple[int, int], *, delta: float, unsure: float, method: BoundMethod
) -> float:
    """Choose the threshold that would prove most if its rates came again in so many trials."""
    one, other = np.sort(there), np.sort(not_there)
    candidates = _candidates(one, other)
    rates = [1 - np.searchsorted(each, candidates) / len(each) for each in (one, other)]
    counts = [np.floor(rate * size) for rate, size in zip(rates, trials, strict=True)]
    counts[1] = np.minimum(np.ceil(rates[1] * trials[1]), trials[1])
    values = proven(counts[0], counts[1], trials, delta=delta, unsure=unsure, method=method)
    return float(candidates[int(np.argmax(values))])


def _candidates(one: Floats, other: Floats) -> Floats:
    """Return thresholds at many ranks, closest together in the tails, and the middles between neighbours."""
    pooled = np.unique(np.concatenate([one, other]))
    if len(pooled) > _CANDIDATES:
        tail = np.unique(np.rint(np.geomspace(1, len(pooled) / 2, _CANDIDATES // 2)).astype(np.int64)) - 1
        pooled = pooled[np.unique(np.concatenate([tail, len(pooled) - 1 - tail]))]
    return np.unique(np.concatenate([pooled, (pooled[1:] + pooled[:-1]) / 2]))
