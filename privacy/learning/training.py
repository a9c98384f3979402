"""One training in progress: parameters, the clipped sum of a sample's gradients, and the step after noise.

What this module is given of the rows it turns into clipped sums; sampling and noise are the grant's (law 1), and so
is the order of the two. A sum may be computed in pieces (`Execution.rows_at_once`): that is memory, not privacy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from privacy.arrays import Singles, Unsigned
from privacy.learning.clipping import Tape, add_clipped_sum, forward
from privacy.learning.execution import Execution
from privacy.learning.layout import RowLayout
from privacy.learning.learners import Learner, learner_slots, parameters_of
from privacy.learning.losses import apart, loss_of
from privacy.learning.network import Relu, Slot
from privacy.learning.optimizer import Adam, rate

RowNormals = Callable[[int, int], NDArray[np.float32]]
"""From a number of rows and of numbers a row to normals, shape (rows, numbers)."""
_ADAM_EPSILON: Final = 1e-8


@dataclass(frozen=True)
class TrainingState:
    """All that a training needs to go on; released with each checkpoint.

    Args:
        parameters: shape (parameters,).
        moments: the optimizer's, shape (kinds, parameters).
        average: the parameters' exponential average; shape (0,) where none is kept.
    """

    parameters: Singles
    moments: Singles
    average: Singles

    def to_vector(self) -> Singles:
        """Lay the state out as one vector."""
        return np.concatenate([self.parameters, self.moments.ravel(), self.average])

    @classmethod
    def of(cls, learner: Learner, vector: Singles) -> TrainingState:
        """Take a vector apart."""
        size, kinds = parameters_of(learner), moment_kinds(learner)
        moments = vector[size : size * (1 + kinds)].reshape(kinds, size)
        return cls(vector[:size], moments, vector[size * (1 + kinds) :])

    @property
    def trained(self) -> Singles:
        """The parameters that are handed out."""
        return self.average if self.average.size else self.parameters


def moment_kinds(learner: Learner) -> int:
    """How many vectors the optimizer keeps beside the parameters."""
    if isinstance(learner.optimizer, Adam):
        return 2
    return 1 if learner.optimizer.momentum else 0


def state_size(learner: Learner) -> int:
    """Entries of a checkpoint."""
    return parameters_of(learner) * (1 + moment_kinds(learner) + (learner.averaging is not None))


def initial_state(learner: Learner) -> TrainingState:
    """Draw initial parameters from the learner's public seed: He's variance before a ReLU, 1/inputs elsewhere."""
    generator = torch.Generator().manual_seed(learner.seed)
    parameters = torch.zeros(parameters_of(learner))
    networks = dict(learner.parts)
    for slot in learner_slots(learner):
        after = networks[slot.part].layers[slot.place + 1 : slot.place + 2]
        gain = 2.0 if any(isinstance(layer, Relu) for layer in after) else 1.0
        # Variance gain / inputs keeps the scale of activations from layer to layer.
        spread = (gain / prod(slot.layer.weight_shape[1:])) ** 0.5
        parameters[slot.weights] = torch.randn(prod(slot.layer.weight_shape), generator=generator) * spread
    values: Singles = parameters.numpy()
    average = values.copy() if learner.averaging is not None else np.empty(0, np.float32)
    return TrainingState(values, np.zeros((moment_kinds(learner), values.size), np.float32), average)


class Session:
    """A training on one device.

    Args:
        learner: what is trained; it fits the layout.
        layout: how rows lie in vectors.
        state: where to go on.
        step: steps done so far.
        steps: steps in all, for the rate's decay.
        execution: device and memory.
    """

    def __init__(
        self,
        learner: Learner,
        layout: RowLayout,
        state: TrainingState,
        *,
        step: int,
        steps: int,
        execution: Execution,
    ) -> None:
        self._learner, self._layout, self._step, self._steps = learner, layout, step, steps
        self._device = torch.device(execution.chosen_device())
        self._rows_at_once = execution.rows_at_once
        self._loss = loss_of(learner, layout, self._device)
        self._parameters = torch.tensor(state.parameters, device=self._device)
        self._moments = torch.tensor(state.moments, device=self._device)
        self._average = torch.tensor(state.average, device=self._device)
        self._total = torch.zeros_like(self._parameters)
        self._done = torch.tensor(float(step), device=self._device)
        self._networks = dict(learner.parts)
        self._placed: dict[str, dict[int, Slot]] = {name: {} for name in self._networks}
        for slot in learner_slots(learner):
            self._placed[slot.part][slot.place] = slot

    def clipped_sum(self, codes: Unsigned, *, bound: float, normals: RowNormals) -> Singles:
        """Sum the clipped gradients of rows, in pieces that memory holds.

        Args:
            codes: the sampled rows, shape (rows, codes); there may be none.
            bound: the largest norm that a row's gradient keeps.
            normals: draws latent vectors' normals, each row's independent of all others and secret: the guarantee
                needs both (`privacy.noise.row_normals`).
        Returns:
            float32, shape (parameters,), to be overwritten by whoever adds noise; private.
        """
        self._total.zero_()
        for start in range(0, codes.shape[0], self._rows_at_once):
            piece = self._layout.vectors(codes[start : start + self._rows_at_once])
            rows = torch.from_numpy(piece).to(self._device)
            # A row's gradient is clipped by itself, so that pieces and clusters change no row's share.
            for loss, own in apart(self._loss, rows):
                tape = Tape()
                losses = loss(own, partial(self._apply, tape=tape), partial(self._latents, normals))
                add_clipped_sum(losses, tape, bound=bound, total=self._total)
        summed: Singles = self._total.cpu().numpy()
        return summed

    def advance(self, noisy: Singles, *, expected_batch_size: float) -> None:
        """Make one step along a noisy sum of gradients."""
        # Divided by the declared batch size: that of the sample is private.
        gradient = torch.from_numpy(noisy).to(self._device).div_(expected_batch_size)
        learning_rate = rate(self._learner.optimizer, self._step, self._steps)
        self._step += 1
        if isinstance(self._learner.optimizer, Adam):
            self._adam(gradient, self._learner.optimizer, learning_rate)
        else:
            if self._learner.optimizer.momentum:
                # Momentum: v = momentum · v + gradient, and the parameters follow v.
                gradient = self._moments[0].mul_(self._learner.optimizer.momentum).add_(gradient)
            self._parameters.add_(gradient, alpha=-learning_rate)
        if self._learner.averaging is not None:
            # average = averaging · average + (1 - averaging) · parameters
            self._average.lerp_(self._parameters, 1 - self._learner.averaging)

    def state(self) -> TrainingState:
        """Return what a training can go on from, as arrays of its own."""
        tensors = (self._parameters, self._moments, self._average)
        return TrainingState(*(np.array(tensor.cpu().numpy()) for tensor in tensors))

    def diverged(self) -> bool:
        """Say whether the parameters, which are released, are lost: not finite, or no finite loss on a made-up row.

        Privacy: post-processing; no private row takes part.
        """
        if not bool(torch.isfinite(self._parameters).all()):
            return True
        # Code 0 in every column: whether a training is lost must not be read off a private row.
        made_up = torch.from_numpy(self._layout.vectors(np.zeros((1, self._layout.code_width), np.uint8)))
        with torch.no_grad():
            loss = self._loss(made_up.to(self._device), partial(self._apply, tape=None), self._no_latents)
        return not bool(torch.isfinite(loss).all())

    def _latents(self, normals: RowNormals, rows: int, size: int) -> Tensor:
        return torch.from_numpy(normals(rows, size)).to(self._device)

    def _no_latents(self, rows: int, size: int) -> Tensor:
        return torch.zeros(rows, size, device=self._device)

    def _apply(self, part: str, values: Tensor, tape: Tape | None) -> Tensor:
        return forward(self._networks[part], self._placed[part], self._parameters, values, tape)

    def _adam(self, gradient: Tensor, optimizer: Adam, learning_rate: float) -> None:
        """Make Adam's step; its kernel counts the steps itself, beforehand."""
        self._done += 1
        torch._fused_adam_(  # the kernel of torch.optim.Adam(fused=True)
            [self._parameters],
            [gradient],
            [self._moments[0]],
            [self._moments[1]],
            [],
            [self._done],
            lr=learning_rate,
            beta1=optimizer.first,
            beta2=optimizer.second,
            weight_decay=0.0,
            eps=_ADAM_EPSILON,
            amsgrad=False,
            maximize=False,
        )
