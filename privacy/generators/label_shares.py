"""Weights of a mixture under which a decoded label has given shares; post-processing.

Where a label is one of the decoded columns, what share of the rows gets which label follows from the components'
weights. They are moved, by expectation and maximisation with the components fixed, until the shares are as near to
the measured ones as they can be (in Kullback-Leibler divergence).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from privacy.learning.lattice import Array
from privacy.learning.layout import RowLayout
from privacy.learning.whole_network import ONE, LatentMixture, WholeNetwork, words_of
from privacy.marginals.seeds import PostProcessingSeed

_DRAWN: Final = 2048
_ROUNDS: Final = 200
_SEED: Final = PostProcessingSeed(0)


def shares_kept(
    latents: LatentMixture, network: WholeNetwork, layout: RowLayout, label: str, means: Array
) -> LatentMixture:
    """Return the mixture with weights under which the label's shares are those that were measured.

    Args:
        latents: the mixture.
        network: from its latents to logits, in the layout's order.
        layout: of all columns.
        label: a category column.
        means: noisy mean vector of the rows, shape (width,).
    """
    head = next(head for head in layout.heads if head.column == label)
    wanted = np.maximum(means[head.start : head.stop], 1e-6)
    given = np.stack([_shares(latents, network, each, head.start, head.stop) for each in range(latents.weights.size)])
    weights = latents.weights / latents.weights.sum()
    for _ in range(_ROUNDS):
        weights = weights * (given @ (wanted / wanted.sum() / (weights @ given)))
        weights = weights / weights.sum()
    total = float(latents.weights.sum())
    return replace(latents, weights=np.maximum(np.rint(weights * total), 1.0).astype(np.int64))


def _shares(latents: LatentMixture, network: WholeNetwork, component: int, start: int, stop: int) -> Array:
    """Return the label's mean shares among rows of one component."""
    allowed = np.arange(latents.weights.size) == component
    words = words_of(_SEED, component, (1 + latents.size, _DRAWN))
    logits = network(latents.sample(words, allowed)[1])[:, start:stop] / ONE
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray((raised / raised.sum(axis=1, keepdims=True)).mean(axis=0)) + 1e-9
