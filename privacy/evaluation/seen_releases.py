"""What an attacker sees of a release, and what each kind of it tells of a row: presence, a value, likeness.

Each kind scores rows of codes in the order of its columns. It reads what is published, and the rows that are
attacked; of which rows the release was made it knows nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from privacy.arrays import Floats, Integers
from privacy.classifiers.classifier import ClassifierModel, WeightsAndBias
from privacy.evaluation.membership import evidence, scaled_confidence
from privacy.games.inference import closeness, nearness, value_shares
from privacy.learning.layout import Head

# --- Model inversion.


STEPS: Final = 300
RATE: Final = 0.1
PULL: Final = 0.05


@dataclass(frozen=True, eq=False)
class Inverted:
    """What was found for a class.

    Args:
        vector: the input without the label's entries, shape (inputs,).
        start: where the ascent began, the same shape.
        chance: of the class at the vector, as the model says.
    """

    vector: Floats
    start: Floats
    chance: float

    @property
    def moved(self) -> Floats:
        """How the class differs from where the ascent began."""
        return self.vector - self.start


def inverted(model: ClassifierModel, cell: int) -> Inverted:
    """Look for the input that a model takes most surely for a class.

    Args:
        model: the released classifier.
        cell: of its label.
    Privacy: post-processing.
    """
    heads = _input_heads(model)
    start = _middle(heads, model.widths[0])
    vector = start.copy()
    for _ in range(STEPS):
        _, gradient = _ascent(model.layers, vector, cell)
        vector = _projected(vector + RATE * (gradient - PULL * (vector - start)), heads)
    chance, _ = _ascent(model.layers, vector, cell)
    return Inverted(vector, start, chance)


def likeness(found: Floats, target: Floats) -> float:
    """Return the correlation of two vectors, -1 to 1; 0 where one of them does not vary."""
    return float(likenesses(found, target[None])[0])


def likenesses(found: Floats, rows: Floats) -> Floats:
    """Return the correlation of a vector with each row of others, as `likeness`."""
    one, others = found - found.mean(), rows - rows.mean(axis=1, keepdims=True)
    lengths = np.linalg.norm(one) * np.linalg.norm(others, axis=1)
    return np.asarray(np.divide(others @ one, lengths, out=np.zeros(len(rows)), where=lengths > 0))


def _ascent(layers: tuple[WeightsAndBias, ...], vector: Floats, cell: int) -> tuple[float, Floats]:
    """Return the class's chance, and the gradient of its logarithm with respect to the input."""
    values = [vector]
    for weights, biases in layers[:-1]:
        values.append(np.maximum(weights.astype(np.float64) @ values[-1] + biases, 0.0))
    weights, biases = layers[-1]
    last = weights.astype(np.float64) @ values[-1] + biases
    chances = np.exp(last - last.max())
    chances /= chances.sum()
    error = (np.arange(last.size) == cell) - chances
    for place in range(len(layers) - 1, 0, -1):
        error = (error @ layers[place][0].astype(np.float64)) * (values[place] > 0)
    return float(chances[cell]), np.asarray(error @ layers[0][0].astype(np.float64))


def _input_heads(model: ClassifierModel) -> tuple[Head, ...]:
    """Return the stretches of the input: those of a row's vector, with the label's taken out."""
    label = next(head for head in model.layout.heads if head.column == model.label)
    width = label.stop - label.start
    kept = [head for head in model.layout.heads if head.column != model.label]
    moved = [width if head.start >= label.stop else 0 for head in kept]
    return tuple(
        Head(head.column, head.kind, head.start - less, head.stop - less)
        for head, less in zip(kept, moved, strict=True)
    )


def _middle(heads: tuple[Head, ...], width: int) -> Floats:
    """Return the input that says nothing: 1/2 for numbers, equal chances for categories, no nulls."""
    vector = np.full(width, 0.5)
    for head in heads:
        if head.kind != "unit":
            vector[head.start : head.stop] = 0.0 if head.kind == "flag" else 1 / (head.stop - head.start)
    return vector


def _projected(vector: Floats, heads: tuple[Head, ...]) -> Floats:
    """Return the nearest input: entries in [0, 1], those of a category adding up to 1."""
    found = vector.clip(0.0, 1.0)
    for head in heads:
        if head.kind == "choice":
            found[head.start : head.stop] = _onto_simplex(vector[head.start : head.stop])
    return found


def _onto_simplex(values: Floats) -> Floats:
    """Project onto the numbers of at least 0 that add up to 1 (Held, Wolfe, Crowder 1974)."""
    order = np.sort(values)[::-1]
    above = (np.cumsum(order) - 1) / np.arange(1, order.size + 1)
    return np.asarray(np.maximum(values - above[np.flatnonzero(order > above)[-1]], 0.0))


_LEAST_SHARE: Final = 0.01
_LEAST_COUNT: Final = 0.5


class Seen(Protocol):
    """A release as an attacker sees it."""

    def presence(self, rows: Integers) -> Floats:
        """Score each row in one way or several: larger where it looks as if it were in; shape (ways, rows)."""
        ...

    def evidence(self, rows: Integers, secret: int, values: int) -> Floats:
        """Return for each value of a secret column how well it fits the row, log scale, shape (rows, values)."""
        ...


@dataclass(frozen=True, eq=False)
class SeenRows:
    """Synthetic rows.

    Args:
        rows: shape (rows, columns).
    """

    rows: Integers

    def presence(self, rows: Integers) -> Floats:
        """Score by how close all synthetic rows are, and the nearest one."""
        return np.stack([closeness(self.rows, rows), nearness(self.rows, rows)])

    def evidence(self, rows: Integers, secret: int, values: int) -> Floats:
        """Ask the synthetic rows that are nearest in all other columns."""
        shares = value_shares(self.rows, rows, secret=secret, values=values)
        return np.asarray(np.log(shares + _LEAST_SHARE) - np.log1p(_LEAST_SHARE))


@dataclass(frozen=True, eq=False)
class SeenTable:
    """A published table.

    Args:
        places: of its columns among those of the rows.
        counts: refined counts, its shape [rows].
        variance: of the noise of a cell, before refinement [rows squared].
    """

    places: tuple[int, ...]
    counts: Floats
    variance: float

    def cells(self, rows: Integers) -> NDArray[np.intp]:
        """Return the number of each row's cell."""
        return np.ravel_multi_index(tuple(rows[:, place] for place in self.places), self.counts.shape)


@dataclass(frozen=True, eq=False)
class SeenTables:
    """Published tables."""

    tables: tuple[SeenTable, ...]

    def presence(self, rows: Integers) -> Floats:
        """Score by how far the counts of a row's cells lie above what the toss of coins leads to expect.

        The attacker knows all rows that may be in the release. Of n rows of a cell about half are in it, so that its
        count has the variance n / 4 and that of the noise; the sum over the tables weighs each by it. The second way
        does not believe in the noise.
        """
        score = np.zeros((2, len(rows)))
        for table in self.tables:
            cells = table.cells(rows)
            _, places, number = np.unique(cells, return_inverse=True, return_counts=True)
            there = number[places]
            above = table.counts.ravel()[cells] - there / 2
            score += above / np.stack([there / 4 + table.variance, there**2 / 4])
        return score

    def evidence(self, rows: Integers, secret: int, values: int) -> Floats:
        """Compare the counts of the cells that a row would be in."""
        found = np.zeros((len(rows), values))
        for table in self.tables:
            if secret in table.places:
                for value in range(values):
                    placed = rows.copy()
                    placed[:, secret] = value
                    counts = table.counts.ravel()[table.cells(placed)]
                    found[:, value] += np.log(np.maximum(counts, _LEAST_COUNT))
        return found


@dataclass(frozen=True, eq=False)
class SeenModel:
    """A published classifier.

    Args:
        model: with its weights.
        label: place of the label among the columns of the rows.
    """

    model: ClassifierModel
    label: int

    def presence(self, rows: Integers) -> Floats:
        """Score by how sure the model is of the true label."""
        labels = rows[:, self.label].astype(np.int64)
        return scaled_confidence(self.model.probabilities(rows.astype(np.uint32)), labels)[None]

    def evidence(self, rows: Integers, secret: int, values: int) -> Floats:
        """Ask how sure the model is of the true label with each value in place."""
        labels = rows[:, self.label].astype(np.int64)
        return evidence(self.model.probabilities, rows.astype(np.uint32), labels, place=secret, values=values)

    def likeness(self, rows: Integers) -> Floats:
        """Score by the correlation of a row with what the model takes for typical of its class."""
        vectors = self.model.layout.vectors(rows.astype(np.uint32))[:, self.model.features].astype(np.float64)
        score = np.zeros(len(rows))
        for cell in np.unique(rows[:, self.label]):
            found, start = self._typical(int(cell))
            ours = rows[:, self.label] == cell
            score[ours] = likenesses(found, vectors[ours] - start)
        return score

    def _typical(self, cell: int) -> tuple[Floats, Floats]:
        found = self._inverted.setdefault(cell, inverted(self.model, cell))
        return found.moved, found.start

    @cached_property
    def _inverted(self) -> dict[int, Any]:
        return {}
