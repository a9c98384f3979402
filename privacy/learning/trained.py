"""What a training has released: parameters, and where they came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from privacy.arrays import Singles
from privacy.learning.layout import RowLayout
from privacy.learning.learners import Learner, learner_slots
from privacy.learning.plan import TrainingPlan


@dataclass(frozen=True, eq=False)
class Trained:
    """What a training has released.

    Args:
        learner: what was trained.
        layout: of the rows.
        parameters: the flat vector, float32.
        draws: keys of its checkpoints, in order.
        sha256: digest of the last checkpoint.
        plan: sampling, clipping, noise and event.
        checkpoint: the last checkpoint as it was drawn, int64; two float32 a word.
    """

    learner: Learner
    layout: RowLayout
    parameters: Singles
    draws: tuple[str, ...]
    sha256: str
    plan: TrainingPlan
    checkpoint: NDArray[np.int64]
    kind: ClassVar[str] = "training"

    @property
    def key(self) -> str:
        """What the keys of its draws begin with."""
        return self.draws[-1].rpartition("/")[0]

    @cached_property
    def layers(self) -> Mapping[tuple[str, int], tuple[Singles, Singles]]:
        """Weights and biases of each layer, by (part, place in its network)."""
        return {
            (slot.part, slot.place): (
                self.parameters[slot.weights].reshape(slot.layer.weight_shape),
                self.parameters[slot.biases],
            )
            for slot in learner_slots(self.learner)
        }


def packed(vector: Singles) -> NDArray[np.int64]:
    """Lay float32 out in whole words, two a word, as a draw's file holds them."""
    # A word holds two float32: an odd number of them is padded with a 0.
    even = np.zeros(vector.size + vector.size % 2, "<f4")
    even[: vector.size] = vector
    return even.view("<i8").astype(np.int64)


def unpacked(words: NDArray[np.int64], size: int) -> Singles:
    """Take the first numbers out of whole words."""
    return words.astype("<i8").view("<f4")[:size].astype(np.float32)
