"""Learning first: train on the rows without noise, clamp every parameter, add noise to each, clamp again.

    TRAIN     by ordinary gradient descent; what comes out is private
    RELEASE   min(w_max, max(w_min, clamp(w) + Lap((w_max - w_min) / epsilon))) of every weight, and the same of every
              bias with b_min and b_max

Source: Sei, Ohsuga, section 4-2 (2), theorem 3. Its epsilon is of each parameter by itself; what is charged is the
loss of all of them. Lemma 1 swaps min and max: what is meant is the clamp above.
"""

from __future__ import annotations

from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from contracts.message import message
from privacy.classifiers.classifier_model import ParameterRange, WeightsAndBias, layers_of
from privacy.classifiers.perturbation_options import PerturbationOptions, events_of, noise_of, parameter_epsilon
from privacy.classifiers.perturbed_training import PerturbedTraining
from privacy.classifiers.trainer import ClassificationTask
from privacy.generators.generator import CannotGenerate
from privacy.learning.errors import CannotTrain
from privacy.learning.perturbed import STEPS, ParameterRelease

SAYS: Final = message(
    "learning first: trained without noise, every weight clamped, noise added to each, and clamped again; the "
    "epsilon of one parameter bounds that parameter alone"
)


class LearningFirstOptions(PerturbationOptions):
    """Options of `learning_first`.

    Args:
        lowest, highest: range to which every weight is clamped: w_min and w_max.
        lowest_bias, highest_bias: the same of biases, b_min and b_max; as of weights when not given.
    """

    lowest: float = Field(default=-1.0, ge=-1000, le=1000, allow_inf_nan=False)
    highest: float = Field(default=1.0, ge=-1000, le=1000, allow_inf_nan=False)
    lowest_bias: float | None = Field(default=None, ge=-1000, le=1000, allow_inf_nan=False)
    highest_bias: float | None = Field(default=None, ge=-1000, le=1000, allow_inf_nan=False)

    @model_validator(mode="after")
    def _two_ranges(self) -> LearningFirstOptions:
        if not self.lowest < self.highest:
            raise ValueError("lowest must lie below highest")
        low, high = self.bias_range
        if not low < high:
            raise ValueError(f"lowest_bias below highest_bias; here biases would lie in {low:g} to {high:g}")
        return self

    @property
    def bias_range(self) -> tuple[float, float]:
        """The range of biases."""
        low = self.lowest if self.lowest_bias is None else self.lowest_bias
        return low, self.highest if self.highest_bias is None else self.highest_bias


class LearningFirst(PerturbedTraining[LearningFirstOptions]):
    """Trains first, and adds noise to every parameter, in one draw."""

    name: ClassVar[str] = "learning_first"
    summary: ClassVar[str] = SAYS
    drawn: ClassVar[str] = "parameters"
    options = LearningFirstOptions

    def bounds(self, options: LearningFirstOptions) -> ParameterRange | None:
        """The ranges of weights and biases, as float32 has them."""
        # Released weights are float32, and so must be the limits that they are checked against.
        limits = (options.lowest, options.highest, *options.bias_range)
        return ParameterRange(*(float(np.float32(limit)) for limit in limits))

    def perturbation(self, task: ClassificationTask, options: LearningFirstOptions) -> ParameterRelease:
        """Noise falls on the clamped parameters.

        Raises:
            CannotGenerate: an option that cannot be.
        """
        try:
            return ParameterRelease(options.training(task), options.lowest, options.highest, *options.bias_range)
        except CannotTrain as refused:
            raise CannotGenerate(f"learning_first: {refused}") from refused

    def layers(
        self, task: ClassificationTask, options: LearningFirstOptions, words: NDArray[np.int64]
    ) -> tuple[WeightsAndBias, ...]:
        """Turn steps of the ranges into weights; each is one multiplication and one sum, rounded the same anywhere.

        Raises:
            ValueError: another number of parameters, or what is no step.
        """
        made = self.perturbation(task, options)
        # The second clamp leaves only whole steps of the range.
        if words.shape != (made.training.parameters,) or words.min() < 0 or words.max() > STEPS:
            raise ValueError(f"parameters that are no {made.training.parameters} steps from 0 to {STEPS}")
        low, high = made.ranges
        # Step 0 is the lowest value of the range, step STEPS the highest.
        values = low + (high - low) * (words / STEPS)
        # Rounding to float32 may step over an end of the range by its last bit.
        return layers_of(np.clip(values.astype(np.float32), np.float32(low), np.float32(high)), made.training.widths)

    def per_parameter(self, task: ClassificationTask, options: LearningFirstOptions) -> str | None:
        """Give the epsilon of each parameter by itself."""
        made = self.perturbation(task, options)
        (event,) = events_of(task, made, noise_of(task, options, made))
        # Each parameter is drawn once.
        return f"{parameter_epsilon(event, 1, 1, task.delta):.6g}"
