"""Attribute inference: whether a model tells what a person's other value is, beyond what the population tells.

The attacker knows of a person all columns but one, the secret, and the true label. He puts in each value of the
secret, asks how sure the model is of the true label, and weighs that with what the population lets anybody guess.

    EVIDENCE   e(v) = log(p / (1 - p)) of the true label with value v in place
    BEYOND     e(v) less its mean over reference models, trained on other people: what this model says of these rows
    GUESS      the v with the largest log P(v | the other columns, label) + weight e(v); weight 0 asks no model
    LEAKED     share guessed right of the people that the model was trained on, less that of other people

A model that is right about the population helps with everybody; only what it leaks of its own rows makes a difference
between members and others. That it helps at all is no breach: who was not in the data is guessed as well.

Source: Fredrikson et al. 2014 (each value weighed by a prior); Yeom, Giacomelli, Fredrikson, Jha 2018 (the difference
between members and others); Watson, Guo, Cormode, Sablayrolles 2022 (what reference models say is taken off).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.arrays import Floats, Unsigned
from privacy.evaluation.membership import scaled_confidence

PredictedShares = Callable[[Unsigned], Floats]
"""A model: rows of codes, shape (rows, codes), to the chances of the label's cells, shape (rows, cells)."""
CellNumbers = NDArray[np.int64]
WEIGHTS: Final = (0.0, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
"""From which an attacker chooses; 0 asks no model."""
_LEAST_CHANCE: Final = 1e-12


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
