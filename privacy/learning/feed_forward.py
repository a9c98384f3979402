"""The three approaches' network: fully connected, ReLU between the layers, softmax and cross entropy; in float64.

Where (the paper's symbols)
    x(l), y(l)   input and output of layer l's nodes; y(0) is the row, in [0, 1]
    w, b         weights (here [to, from]) and biases
    delta(l)     error signal: y - t after the softmax (eq. 18), the back-propagated sum where x > 0 (eq. 19)
    dw, db       y(l-1) delta(l) and delta(l), summed over a batch (eq. 4)

Ranges over all rows that there can be, from the weights alone (eq. 20 to 26), bound what one row adds to dw and db.

Source: Sei, Ohsuga, "A construction method of privacy-preserving neural network models", sections 2-2 and 4-2.
Deviations: eq. 21's largest output is max(0, max x), for a layer whose largest input is negative gives 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from privacy.arrays import Floats
from privacy.marginals.portable import PostProcessingSeed

Layers = list[tuple[Floats, Floats]]
"""Weights (outputs, inputs) and biases (outputs,) of each layer."""


def count_of(widths: Sequence[int]) -> int:
    """How many weights and biases there are."""
    return sum((inputs + 1) * outputs for inputs, outputs in pairwise(widths))


def as_layers(vector: Floats, widths: Sequence[int]) -> Layers:
    """Take a flat vector apart; the layers are views of it."""
    layers, start = [], 0
    for inputs, outputs in pairwise(widths):
        stop = start + inputs * outputs
        layers.append((vector[start:stop].reshape(outputs, inputs), vector[stop : stop + outputs]))
        start = stop + outputs
    return layers


def as_vector(layers: Layers) -> Floats:
    """Lay weights and biases out one after the other."""
    return np.concatenate([part.ravel() for layer in layers for part in layer])


def by_part(widths: Sequence[int], *, weights: float, biases: float) -> Floats:
    """Return a flat vector that has one number at each weight's place and another at each bias's."""
    parts = (((inputs * outputs, weights), (outputs, biases)) for inputs, outputs in pairwise(widths))
    return np.concatenate([np.full(size, number) for layer in parts for size, number in layer])


def initial_vector(widths: Sequence[int], seed: int) -> Floats:
    """Draw initial weights from a public seed, the same anywhere: uniform with He's variance; biases are 0."""
    source, layers = PostProcessingSeed(seed), []
    for place, (inputs, outputs) in enumerate(pairwise(widths)):
        words = source.words(place, inputs * outputs)
        # The upper 53 bits of a word, as a number in [0, 1).
        uniform = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
        # A uniform number within ±sqrt(6 / inputs) has variance 2 / inputs, which is He's.
        layers.append(((2 * uniform - 1).reshape(outputs, inputs) * sqrt(6 / inputs), np.zeros(outputs)))
    return as_vector(layers)


def batch_deltas(layers: Layers, rows: Floats, targets: Floats) -> Floats:
    """Sum dw and db over a batch (eq. 2 to 4, 18, 19), as a flat vector.

    Args:
        layers: the network.
        rows: shape (batch, inputs), in [0, 1].
        targets: one entry a cell, one of them 1; shape (batch, cells).
    """
    outputs = _forward(layers, rows)
    # eq. 18: softmax and cross entropy together leave y - t.
    signal, parts = outputs[-1] - targets, []
    for place in range(len(layers) - 1, -1, -1):
        # eq. 4, summed over the batch by one matrix product.
        parts.append((signal.T @ outputs[place], signal.sum(axis=0)))
        if place:
            # eq. 19: an error passes a ReLU only where its input was above 0.
            signal = (signal @ layers[place][0]) * (outputs[place] > 0)
    return as_vector(parts[::-1])


def delta_ranges(layers: Layers) -> tuple[Floats, Floats]:
    """Return the least and the largest dw and db that one row can make (eq. 20 to 26), as flat vectors.

    Privacy: of the weights alone.
    """
    # Rows lie in [0, 1]: the largest input of the first layer is 1.
    largest = [np.ones(layers[0][0].shape[1])]
    for weights, biases in layers[:-1]:
        largest.append(np.maximum(biases + np.maximum(weights, 0) @ largest[-1], 0))  # eq. 20, and 21 mended
    low, high = -np.ones(layers[-1][1].size), np.ones(layers[-1][1].size)  # eq. 22
    lows: Layers = []
    highs: Layers = []
    for place in range(len(layers) - 1, -1, -1):
        lows.append((np.outer(low, largest[place]), low))  # eq. 24 to 26
        highs.append((np.outer(high, largest[place]), high))
        weights = layers[place][0]
        negative, positive = np.minimum(weights, 0), np.maximum(weights, 0)
        low, high = high @ negative + low @ positive, high @ positive + low @ negative  # eq. 23
    return as_vector(lows[::-1]), as_vector(highs[::-1])


def shuffled_batches(rows: int, batch: int, words: NDArray[np.uint64]) -> Iterator[NDArray[np.intp]]:
    """Yield the rows of an ordinary epoch's batches, in an order that random words give; the last may be smaller."""
    order = np.argsort(words, kind="stable")
    for start in range(0, rows, batch):
        yield order[start : start + batch]


def train_plainly(
    vector: Floats,
    widths: Sequence[int],
    rows: Floats,
    targets: Floats,
    *,
    epochs: int,
    batch: int,
    learning_rate: float,
    regulariser: float,
    seed: int,
) -> Floats:
    """Train by ordinary gradient descent (eq. 5 and 6); nothing in it protects anybody.

    Args:
        vector: where to begin; not changed.
        widths: of the network.
        rows, targets: shape (rows, inputs) and (rows, cells).
        epochs, batch, learning_rate, regulariser: E, B, alpha and lambda of the paper.
        seed: of the order of rows; public.
    Returns:
        the weights and biases, as a flat vector; they may be no finite numbers.
    """
    vector = vector.copy()
    layers, source = as_layers(vector, widths), PostProcessingSeed(seed)
    # The regulariser shrinks weights by a constant factor a step; biases have none (eq. 5 and 6).
    shrunk = 1 - learning_rate * regulariser / batch
    with np.errstate(over="ignore", invalid="ignore"):
        for epoch in range(epochs):
            for chosen in shuffled_batches(rows.shape[0], batch, source.words(1000 + epoch, rows.shape[0])):
                step = as_layers(batch_deltas(layers, rows[chosen], targets[chosen]), widths)
                for (weights, biases), (dw, db) in zip(layers, step, strict=True):
                    weights *= shrunk
                    weights -= learning_rate / batch * dw
                    biases -= learning_rate / batch * db
    return vector


def _forward(layers: Layers, rows: Floats) -> list[Floats]:
    """Return the row and every layer's output; the last is the softmax's."""
    outputs = [rows]
    for weights, biases in layers[:-1]:
        outputs.append(np.maximum(outputs[-1] @ weights.T + biases, 0))
    weights, biases = layers[-1]
    logits = outputs[-1] @ weights.T + biases
    # Subtracting the largest logit leaves the softmax as it is and keeps exp from overflowing.
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    outputs.append(shifted / shifted.sum(axis=1, keepdims=True))
    return outputs
