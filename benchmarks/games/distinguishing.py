"""The distinguishing game: two neighbouring tables, many outputs of each, one guess an output.

    1. LEARN    where an output is several numbers, how they are weighed into one (first quarter of the trials)
    2. CHOOSE   the threshold from which on the attacker says "it was there" (up to half of the trials)
    3. BOUND    epsilon from how often the guess is right in the other half, which had no part in 1 and 2

So the confidence of 3 needs no correction for having searched. Method "gaussian_guesses" takes log-likelihood ratios:
0 is the threshold, nothing is learned or chosen, and all trials bound. Method "one_run" takes the scores of the
canaries of one run: the attacker guesses those that are highest and lowest, and keeps silent on the others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from benchmarks.games.lower_bound import BoundMethod, as_epsilon, gaussian_epsilon, largest_certifiable, proven
from privacy.arrays import Floats
from privacy.games.one_run import least_shift

_CANDIDATES: Final = 400
_RIDGE: Final = 1e-3
_GUESSED: Final = 0.03
"""Share of a run's canaries that are guessed: the surest ones."""
_USUAL: Final = 0.05
"""How unsure bounds of one run are in the literature; they are told beside the others."""


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
        shift: mu that is proven, where the method is a Gaussian one; epsilon follows from it.
        usual: the epsilon that is proven with a confidence of 95 %, where that is told too.
    """

    epsilon: float
    delta: float
    confidence: float
    trials: int
    largest_certifiable: float
    true_rate: float
    false_rate: float
    shift: float | None = None
    usual: float | None = None


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
    if method == "one_run":
        return _one_run(there, not_there, delta=delta, confidence=confidence)
    if method == "gaussian_guesses":
        return _bound(there, not_there, 0.0, delta=delta, confidence=confidence, method=method)
    if there.ndim == 2:
        direction = learned_direction(there[: len(there) // 4], not_there[: len(not_there) // 4])
        there, not_there = there @ direction, not_there @ direction
        first, second = _split(there[len(there) // 4 :], 1 / 3), _split(not_there[len(not_there) // 4 :], 1 / 3)
    else:
        first, second = _split(there, 1 / 2), _split(not_there, 1 / 2)
    sizes = (len(first[1]), len(second[1]))
    threshold = _threshold(first[0], second[0], sizes, delta=delta, unsure=unsure, method=method)
    bound = _bound(first[1], second[1], threshold, delta=delta, confidence=confidence, method=method)
    return replace(bound, trials=len(there) + len(not_there))


def _bound(
    there: Floats, not_there: Floats, threshold: float, *, delta: float, confidence: float, method: BoundMethod
) -> LossBound:
    """Bound by a threshold that was chosen without these scores; those that lie on it are taken for "there"."""
    trials, unsure = (len(there), len(not_there)), 1 - confidence
    found, wrongly = (np.array([float((part >= threshold).sum())]) for part in (there, not_there))
    value = float(proven(found, wrongly, trials, delta=delta, unsure=unsure, method=method)[0])
    return LossBound(
        epsilon=as_epsilon(value, delta=delta, method=method),
        delta=delta,
        confidence=confidence,
        trials=sum(trials),
        largest_certifiable=largest_certifiable(trials, delta=delta, unsure=unsure, method=method),
        true_rate=float(found[0]) / trials[0],
        false_rate=float(wrongly[0]) / trials[1],
        shift=None if method == "clopper_pearson" else value,
    )


def _one_run(there: Floats, not_there: Floats, *, delta: float, confidence: float) -> LossBound:
    """Bound by the canaries of one run: the highest scores are taken for "there", the lowest for "not there"."""
    coins, scores = len(there) + len(not_there), np.concatenate([there, not_there])
    each = max(1, round(coins * _GUESSED / 2))
    order = np.argsort(scores, kind="stable")
    found, kept = int((order[-each:] < len(there)).sum()), int((order[:each] >= len(there)).sum())
    shifts = [
        least_shift(right, 2 * each, coins=coins, unsure=unsure)
        for right, unsure in ((found + kept, 1 - confidence), (found + kept, _USUAL), (2 * each, 1 - confidence))
    ]
    proven_, usual, largest = (gaussian_epsilon(shift, delta) for shift in shifts)
    return LossBound(
        epsilon=proven_,
        delta=delta,
        confidence=confidence,
        trials=coins,
        largest_certifiable=largest,
        true_rate=found / each,
        false_rate=1 - kept / each,
        shift=shifts[0],
        usual=usual,
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
