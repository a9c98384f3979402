"""Model inversion: what a released classifier says that the rows of a class look like.

Gradient ascent on the input: whoever holds the weights looks for the vector that the model takes most surely for the
class. What comes out is the input that is typical of the class, as far as the model knows it. Differential privacy
bounds what one record changes; so it does not hide what many records of a class have in common, and does hide the
record of a class that has no other.

Where (one letter each)
    x   the input: numbers in [0, 1], and the entries of a category, which add up to 1
    f   log of the class's chance at x, less pull/2 times the squared distance from where the ascent began

Source: Fredrikson, Jha, Ristenpart 2015, algorithm 1 (MI-Face); without its denoising, and projected after each step.
Post-processing: the weights alone are read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from privacy.arrays import Floats
from privacy.classifiers.classifier_model import ClassifierModel, WeightsAndBias
from privacy.learning.layout import Head

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
