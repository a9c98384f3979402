"""What a training has released: parameters, and where they came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from privacy.learning.layout import RowLayout
from privacy.learning.learners import Learner, learner_slots

Vector = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Trained:
    """What a training has released.

    Args:
        learner: what was trained.
        layout: of the rows.
        parameters: the flat vector, float32.
        draws: keys of its checkpoints, in order.
        sha256: digest of the last checkpoint.
    """

    learner: Learner
    layout: RowLayout
    parameters: Vector
    draws: tuple[str, ...]
    sha256: str

    @cached_property
    def layers(self) -> Mapping[tuple[str, int], tuple[Vector, Vector]]:
        """Weights and biases of each layer, by (part, place in its network)."""
        return {
            (slot.part, slot.place): (
                self.parameters[slot.weights].reshape(slot.layer.weight_shape),
                self.parameters[slot.biases],
            )
            for slot in learner_slots(self.learner)
        }
