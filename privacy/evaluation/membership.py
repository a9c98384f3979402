"""Membership inference: whether a model tells who was in its training, by its losses alone and by shadow models.

    loss threshold     a row counts as a member if the model's loss on it is small
    shadow models      the row's loss is held against those of models that were trained with and without it: a
                       likelihood ratio of normal distributions of the scaled confidence log(p / (1 - p))

An area under the ROC curve of 1/2 is guessing. Both need rows of which it is known whether they were members, so the
scores are private: for auditors, and for benchmarks on public data.

Source: Yeom, Giacomelli, Fredrikson, Jha 2018 (loss threshold); Shokri et al. 2017 (shadow models); Carlini et al.
2022, algorithm 1 (the likelihood ratio).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.arrays import Floats

_LEAST_DEVIATION: Final = 1e-3
_LEAST_CHANCE: Final = 1e-12


@dataclass(frozen=True)
class Attack:
    """How well an attack tells members.

    Args:
        area: under the ROC curve, 0 to 1; one half is guessing.
        caught_at_low_rate: share of the members that are told at the false-positive rate.
        false_rate: that rate.
    """

    area: float
    caught_at_low_rate: float
    false_rate: float


def scaled_confidence(chances: Floats, labels: NDArray[np.int64]) -> Floats:
    """Return log(p / (1 - p)) of the true cell's chance, one number a row: large where the loss is small.

    Args:
        chances: of the cells, shape (rows, cells).
        labels: the true cells, shape (rows,).
    """
    true = chances[np.arange(labels.size), labels].clip(_LEAST_CHANCE, 1 - _LEAST_CHANCE)
    return np.asarray(np.log(true) - np.log1p(-true))


def attack(scores: Floats, members: NDArray[np.bool_], *, false_rate: float = 0.01) -> Attack:
    """Score an attack that says "member" where its score is large.

    Args:
        scores: one a row; equal ones are told apart by nothing.
        members: which rows were members; some were, and some were not.
        false_rate: at which the caught share is taken, 0 to 1.
    Raises:
        ValueError: all rows, or none, were members.
    """
    inside, outside = scores[members], scores[~members]
    if not inside.size or not outside.size:
        raise ValueError("some rows must have been members, and some not")
    order = np.sort(outside)
    below = np.searchsorted(order, inside, side="left")
    up_to = np.searchsorted(order, inside, side="right")
    area = float((below + up_to).mean() / (2 * outside.size))
    threshold = order[min(outside.size - 1, int(np.ceil((1 - false_rate) * outside.size)))]
    return Attack(area, float((inside > threshold).mean()), false_rate)


def likelihood_ratios(observed: Floats, shadows: Floats, trained_on: NDArray[np.bool_]) -> Floats:
    """Return how much better "member" explains what was observed than "no member", one number a row.

    Args:
        observed: scaled confidences of the attacked model, shape (rows,).
        shadows: of the shadow models, shape (models, rows).
        trained_on: which model was trained on which row, same shape; each row is in some, and not in others.
    """
    scores = np.zeros(observed.size)
    for sign, inside in ((1.0, trained_on), (-1.0, ~trained_on)):
        count = np.maximum(inside.sum(axis=0), 1)
        mean = (shadows * inside).sum(axis=0) / count
        spread = float((((shadows - mean) ** 2) * inside).sum() / max(1, int(inside.sum())))  # one for all rows
        deviation = max(np.sqrt(spread), _LEAST_DEVIATION)
        scores += sign * (-0.5 * ((observed - mean) / deviation) ** 2 - np.log(deviation))
    return scores
