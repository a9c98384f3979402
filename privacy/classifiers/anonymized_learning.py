"""Anonymized learning: noise on the clamped change of every parameter in every batch, clamped again.

    RANGES    what one row can change, from the released weights alone (equations 20 to 26), within [-limit, limit] of
              a weight and [-bias_limit, bias_limit] of a bias
    STEP      min(high, max(low, clamp(dw) + Lap((high - low) E / epsilon))), then equations 5 and 6

Batches of an epoch are disjoint, and each row's is drawn for it alone; a change is divided by the declared size.

Source: Sei, Ohsuga, section 4-2 (3), theorem 4, which adds the noise to w where dw is meant. Its epsilon is of
each parameter by itself; what is charged is the loss of all of them.
"""

from __future__ import annotations

from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from contracts.message import message
from privacy.classifiers.classifier_model import ParameterRange, WeightsAndBias, layers_of
from privacy.classifiers.perturbation_options import PerturbationOptions, events_of, noise_of, parameter_epsilon
from privacy.classifiers.perturbed_training import PerturbedTraining
from privacy.classifiers.trainer import ClassificationTask
from privacy.generators.generator import CannotGenerate
from privacy.learning.errors import CannotTrain
from privacy.learning.perturbed import DeltaTraining

SAYS: Final = message(
    "anonymized learning: noise on the clamped change of every weight in every batch; the epsilon of one parameter "
    "bounds that parameter alone"
)


class AnonymizedLearningOptions(PerturbationOptions):
    """Options of `anonymized_learning`.

    Args:
        rows_about: about how many rows there are; declared [rows].
        limit: no change of a weight leaves [-limit, limit], whatever the equations allow.
        bias_limit: the same of biases; as `limit` when not given.
        checkpoints: how often the training is made durable; the epochs are a multiple of them.
    """

    rows_about: int = Field(ge=1, le=10**12)
    limit: float = Field(default=1.0, ge=1e-9, le=1e9, allow_inf_nan=False)
    bias_limit: float | None = Field(default=None, ge=1e-9, le=1e9, allow_inf_nan=False)
    checkpoints: int = Field(default=1, ge=1, le=5000)


class AnonymizedLearning(PerturbedTraining[AnonymizedLearningOptions]):
    """Trains on noisy changes, from checkpoint to checkpoint."""

    name: ClassVar[str] = "anonymized_learning"
    summary: ClassVar[str] = SAYS
    drawn: ClassVar[str] = "changes of parameters"
    options = AnonymizedLearningOptions

    def bounds(self, options: AnonymizedLearningOptions) -> ParameterRange | None:
        """Changes are clamped; weights are not."""
        return None

    def perturbation(self, task: ClassificationTask, options: AnonymizedLearningOptions) -> DeltaTraining:
        """Noise falls on clamped changes of the parameters.

        Raises:
            CannotGenerate: an option that cannot be.
        """
        try:
            biases = options.limit if options.bias_limit is None else options.bias_limit
            return DeltaTraining(
                options.training(task), options.rows_about, options.limit, biases, options.checkpoints
            )
        except CannotTrain as refused:
            raise CannotGenerate(f"anonymized_learning: {refused}") from refused

    def layers(
        self, task: ClassificationTask, options: AnonymizedLearningOptions, words: NDArray[np.int64]
    ) -> tuple[WeightsAndBias, ...]:
        """Round a checkpoint's parameters to float32.

        Raises:
            ValueError: another number of parameters.
        """
        parameters = options.training(task).parameters
        if words.shape != (parameters,):
            raise ValueError(f"a checkpoint that holds no {parameters} parameters")
        # The words of a checkpoint are the bits of float64 numbers.
        return layers_of(np.ascontiguousarray(words).view(np.float64).astype(np.float32), task.widths(options.hidden))

    def per_parameter(self, task: ClassificationTask, options: AnonymizedLearningOptions) -> str | None:
        """Give the epsilon of each parameter by itself, over all epochs."""
        made = self.perturbation(task, options)
        events = events_of(task, made, noise_of(task, options, made))
        # A row is in one batch an epoch: one parameter moves once an epoch for each row of the unit.
        steps = made.epochs_per_draw * task.rows_per_unit
        return f"{parameter_epsilon(events[0], len(events), steps, task.delta):.6g}"
