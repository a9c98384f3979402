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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from privacy.arrays import Floats, Unsigned

_LEAST_DEVIATION: Final = 1e-3
_LEAST_CHANCE: Final = 1e-12
_FALSE_RATE: Final = 0.01
"""At which the caught share is taken."""


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


def attack(scores: Floats, members: NDArray[np.bool_]) -> Attack:
    """Score an attack that says "member" where its score is large.

    Args:
        scores: one a row; equal ones are told apart by nothing.
        members: which rows were members; some were, and some were not.
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
    threshold = order[min(outside.size - 1, int(np.ceil((1 - _FALSE_RATE) * outside.size)))]
    return Attack(area, float((inside > threshold).mean()), _FALSE_RATE)


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


# --- Attribute inference.


PredictedShares = Callable[[Unsigned], Floats]
"""A model: rows of codes, shape (rows, codes), to the chances of the label's cells, shape (rows, cells)."""
CellNumbers = NDArray[np.int64]
WEIGHTS: Final = (0.0, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
"""From which an attacker chooses; 0 asks no model."""


@dataclass(frozen=True)
class Inferred:
    """How often the secret value was guessed right.

    Args:
        members: share of the people that the model was trained on.
        others: share of other people of the same population.
        people: how many of each.
    """

    members: float
    others: float
    people: tuple[int, int]

    @property
    def leaked(self) -> float:
        """What the model tells of its own rows: members less others."""
        return self.members - self.others

    @property
    def deviation(self) -> float:
        """Standard deviation of `leaked`, had both the same chance."""
        inside, outside = self.people
        pooled = (self.members * inside + self.others * outside) / (inside + outside)
        return sqrt(pooled * (1 - pooled) * (1 / inside + 1 / outside))


def evidence(predicted: PredictedShares, codes: Unsigned, labels: CellNumbers, *, place: int, values: int) -> Floats:
    """Return how sure a model is of each person's true label with each value of the secret, shape (rows, values).

    Args:
        predicted: the model.
        codes: rows, shape (rows, codes); what the secret's code says is not read.
        labels: the true cells of the label, shape (rows,).
        place: of the secret's code in a row.
        values: of the secret.
    """
    found = []
    for value in range(values):
        placed = codes.copy()
        placed[:, place] = value
        found.append(scaled_confidence(predicted(placed), labels))
    return np.stack(found, axis=1)


def beyond(observed: Floats, references: Sequence[Floats]) -> Floats:
    """Take off what models of other people say: their mean evidence, all of shape (rows, values)."""
    return np.asarray(observed - np.mean(np.stack(list(references)), axis=0))


def guessed(prior: Floats, found: Floats, *, weight: float) -> CellNumbers:
    """Return the likeliest value of the secret for each person.

    Args:
        prior: chances of the values from the population, shape (rows, values).
        found: evidence of the model, the same shape.
        weight: of the evidence; 0 guesses from the population alone.
    """
    scores = np.log(prior.clip(_LEAST_CHANCE, 1.0)) + weight * found
    return np.asarray(scores.argmax(axis=1), dtype=np.int64)


def chosen_weight(prior: Floats, found: Floats, truth: CellNumbers) -> float:
    """Return the weight that guesses best, the first of equal ones.

    Args:
        prior, found: as of `guessed`; of a model that the attacker made himself, and of the rows it was trained on.
        truth: the true values of the secret, shape (rows,).
    """
    shares = [float((guessed(prior, found, weight=weight) == truth).mean()) for weight in WEIGHTS]
    return WEIGHTS[int(np.argmax(shares))]


def inferred(guesses: CellNumbers, truth: CellNumbers, members: NDArray[np.bool_]) -> Inferred:
    """Score guesses of the secret.

    Args:
        guesses, truth: values of the secret, shape (rows,).
        members: which rows the model was trained on; some were, and some were not.
    Raises:
        ValueError: all rows, or none, were members.
    Privacy: private where the rows are; for auditors, and for public data.
    """
    inside = int(members.sum())
    if not 0 < inside < members.size:
        raise ValueError("some rows must have been members, and some not")
    right = guesses == truth
    return Inferred(float(right[members].mean()), float(right[~members].mean()), (inside, members.size - inside))


# --- How well a released model tells the label of confidential rows, and its members.


@dataclass(frozen=True, repr=False)
class PrivateModelScores:
    """Scores of a model on confidential rows (DESIGN law 5).

    Args:
        label: the column that is told.
        accuracy: share of the rows whose cell is told.
        f_measure: mean over the cells that occur of the F-measure of each.
        recalled: by cell that occurs, the share of its rows that are told.
        membership: the loss-threshold attack, where rows that were not trained on are at hand; else None.
        majority: share of the most frequent cell: the accuracy of a model that has learned nothing.
    """

    label: str
    accuracy: float
    f_measure: float
    recalled: Mapping[str, float]
    membership: Attack | None
    majority: float

    def __repr__(self) -> str:
        """Show no number."""
        return "PrivateModelScores(for the auditor alone)"

    def __reduce__(self) -> NoReturn:
        """Refuse pickling: scores on real rows must not land in a result store or a cache."""
        raise TypeError("PrivateModelScores cannot be pickled: scores on real rows stay with the auditor")

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as JSON, for the private folder."""
        attacked = None if self.membership is None else vars(self.membership)
        return {**vars(self), "recalled": dict(self.recalled), "membership": attacked}


def model_scores(
    chances: NDArray[np.float64],
    labels: NDArray[np.int64],
    *,
    column: str,
    cells: tuple[str, ...],
    others: tuple[NDArray[np.float64], NDArray[np.int64]] | None = None,
) -> PrivateModelScores:
    """Score a model on rows, and attack it with rows that it was not trained on.

    Args:
        chances: of the label's cells, shape (rows, cells); private, for the rows are.
        labels: the true cells, shape (rows,).
        column, cells: the label and its cells.
        others: chances and true cells of rows of the same population that were not trained on.
    Privacy: private; nothing is drawn or charged.
    """
    told = chances.argmax(axis=1)
    recalled, measures = {}, []
    for cell in np.unique(labels):
        hits = int(((told == cell) & (labels == cell)).sum())
        occurs, said = int((labels == cell).sum()), int((told == cell).sum())
        recalled[cells[int(cell)]] = hits / occurs
        measures.append(2 * hits / (occurs + said))
    accuracy, attacked = float((told == labels).mean()), _attacked(chances, labels, others)
    most = float(np.bincount(labels).max() / labels.size)
    return PrivateModelScores(column, accuracy, float(np.mean(measures)), recalled, attacked, most)


def _attacked(
    chances: NDArray[np.float64],
    labels: NDArray[np.int64],
    others: tuple[NDArray[np.float64], NDArray[np.int64]] | None,
) -> Attack | None:
    if others is None:
        return None
    inside, outside = scaled_confidence(chances, labels), scaled_confidence(*others)
    members = np.arange(inside.size + outside.size) < inside.size
    return attack(np.concatenate([inside, outside]), members)
