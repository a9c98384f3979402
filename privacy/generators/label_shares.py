"""A decoded label with given shares; post-processing.

Where a label is one of the decoded columns, what share of the rows gets which label follows from the components'
weights. They are moved, by expectation and maximisation with the components fixed, until the shares are as near to
the measured ones as they can be (in Kullback-Leibler divergence). Where there is one component only, the label's
biases are moved instead.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from privacy.arrays import Floats
from privacy.learning.layout import RowLayout
from privacy.learning.portable_normal import BITS
from privacy.learning.whole_network import ONE, LatentMixture, WholeLayer, WholeNetwork, to_steps, words_of
from privacy.marginals.seeds import PostProcessingSeed

_DRAWN: Final = 2048
_ROUNDS: Final = 200
_FARTHEST: Final = 100.0
_SEED: Final = PostProcessingSeed(0)


def shares_kept(
    latents: LatentMixture, network: WholeNetwork, layout: RowLayout, label: str, means: Floats
) -> LatentMixture:
    """Return the mixture with weights under which the label's shares are those that were measured.

    Args:
        latents: the mixture.
        network: from its latents to logits, in the layout's order.
        layout: of all columns.
        label: a category column.
        means: noisy mean vector of the rows, shape (width,).
    """
    start, stop = _entries(layout, label)
    # Noise may bring a share to 0 or below: every label keeps a little.
    wanted = np.maximum(means[start:stop], 1e-6)
    components = range(latents.weights.size)
    # The label's chances under each component, from rows of fixed public words.
    given = np.stack([_chances(_logits(latents, network, each)[:, start:stop]) for each in components])
    weights = latents.weights / latents.weights.sum()
    for _ in range(_ROUNDS):
        # A step of EM for the weights alone: each grows by how well its component explains the wanted shares.
        weights = weights * (given @ (wanted / wanted.sum() / (weights @ given)))
        weights = weights / weights.sum()
    total = float(latents.weights.sum())
    return replace(latents, weights=np.maximum(np.rint(weights * total), 1.0).astype(np.int64))


def biases_moved(
    latents: LatentMixture, network: WholeNetwork, layout: RowLayout, label: str, counts: Floats
) -> WholeNetwork:
    """Return the network with the label's biases moved so that its shares are those of the counts.

    Args:
        latents: of one component.
        network: from its latents to logits, in the layout's order.
        layout: of all columns.
        label: a category column.
        counts: noisy counts of its cells, shape (cells,) [rows].
    """
    start, stop = _entries(layout, label)
    wanted = np.maximum(counts, 1e-3 * max(float(counts.sum()), 1.0))
    logits, moved = _logits(latents, network, 0)[:, start:stop], np.zeros(stop - start)
    for _ in range(_ROUNDS):
        # Each bias moves by the logarithm of the wanted share over the present one.
        moved += np.log(wanted / wanted.sum() / _chances(logits + moved))
    last = network.layers[-1]
    biases = last.biases.copy()
    # A constant added to all logits changes no chance, so the mean is taken off.
    biases[start:stop] += to_steps(np.clip(moved - moved.mean(), -_FARTHEST, _FARTHEST), bits=2 * BITS)
    return WholeNetwork((*network.layers[:-1], WholeLayer(last.weights, biases)))


def _entries(layout: RowLayout, label: str) -> tuple[int, int]:
    head = next(head for head in layout.heads if head.column == label)
    return head.start, head.stop


def _logits(latents: LatentMixture, network: WholeNetwork, component: int) -> Floats:
    """Return logits of rows of one component."""
    allowed = np.arange(latents.weights.size) == component
    words = words_of(_SEED, component, (1 + latents.size, _DRAWN))
    return network(latents.sample(words, allowed)[1]) / ONE


def _chances(logits: Floats) -> Floats:
    """Return the label's mean chances."""
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    # Above 0: quotients and logarithms stay finite.
    return np.asarray((raised / raised.sum(axis=1, keepdims=True)).mean(axis=0)) + 1e-9
