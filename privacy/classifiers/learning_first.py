"""Learning first: train on the rows without noise, clamp every parameter, add noise to each, clamp again.

    TRAIN     by ordinary gradient descent; what comes out is private
    RELEASE   min(w_max, max(w_min, clamp(w) + Lap((w_max - w_min) / epsilon))) of every weight, and the same of every
              bias with b_min and b_max

Source: Sei, Ohsuga, section 4-2 (2), theorem 3. Its epsilon is of each parameter by itself; what is charged is the
loss of all of them. Lemma 1 swaps min and max: what is meant is the clamp above.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from contracts.message import message
from privacy.classifiers.classifier_model import ClassifierModel, ParameterRange, WeightsAndBias, layers_of
from privacy.classifiers.perturbation_options import (
    PerturbationOptions,
    checked_useful,
    events_of,
    noise_notes,
    noise_of,
    parameter_epsilon,
    perturbation_plan,
)
from privacy.classifiers.trainer import ClassificationTask
from privacy.generators.generator import (
    CannotGenerate,
    CountsSource,
    DrawSeed,
    FitProgress,
    Fitted,
    GeneratorPlan,
)
from privacy.grant.draws import Draws
from privacy.grant.queries.parameters import ParameterQuery
from privacy.learning.errors import CannotTrain
from privacy.learning.perturbed import STEPS, ParameterRelease

SAYS: Final = message(
    "learning first: trained without noise, every weight clamped, noise added to each, and clamped again; the "
    "epsilon of one parameter bounds that parameter alone"
)
KEY: Final = "parameters-0001"


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


class LearningFirst:
    """Trains first, and adds noise to every parameter."""

    name: ClassVar[str] = "learning_first"
    summary: ClassVar[str] = SAYS
    options = LearningFirstOptions

    def plan(self, task: ClassificationTask, options: LearningFirstOptions) -> GeneratorPlan:
        """Plan the one draw.

        Raises:
            CannotGenerate: an option that cannot be, too small a charge, or noise that drowns the parameters.
        """
        made = self.perturbation(task, options)
        checked_useful(task, options, made, self.name)
        return perturbation_plan(task, made, noise_of(task, options, made), "parameters")

    def fit(
        self,
        task: ClassificationTask,
        options: LearningFirstOptions,
        plan: GeneratorPlan,
        counts: CountsSource,
        grant: Draws,
        progress: FitProgress,
        seed: DrawSeed,
    ) -> Fitted[ClassifierModel]:
        """Train within the grant, and take the noisy parameters.

        Raises:
            GrantExceeded: more was planned than the grant holds; nothing was drawn.
        Privacy: exactly the planned event.
        """
        made = self.perturbation(task, options)
        noise = noise_of(task, options, made)
        progress(0.0, f"training for {options.epochs} epochs")
        drawn = grant.draw(ParameterQuery(task.rows(counts), made, noise), key=KEY)
        progress(1.0, "done")
        layers = _layers(task, options, drawn[-1].values)
        model = ClassifierModel(task.rows_layout, task.label, layers, self.bounds(options))
        return Fitted(model, tuple(drawn), noise_notes(task, options, made))

    def hidden(self, options: LearningFirstOptions) -> tuple[int, ...]:
        """Widths of the hidden layers."""
        return options.hidden

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

    def weights(
        self, task: ClassificationTask, options: LearningFirstOptions, drawn: Mapping[str, NDArray[np.int64]]
    ) -> tuple[WeightsAndBias, ...] | None:
        """Take the weights from the noisy steps of their ranges.

        Raises:
            ValueError: no such draw.
        """
        if len(drawn) != 1:
            raise ValueError("one draw must be published, that of the parameters")
        return _layers(task, options, next(iter(drawn.values())))

    def per_parameter(self, task: ClassificationTask, options: LearningFirstOptions) -> str | None:
        """Give the epsilon of each parameter by itself."""
        made = self.perturbation(task, options)
        (event,) = events_of(task, made, noise_of(task, options, made))
        # Each parameter is drawn once.
        return f"{parameter_epsilon(event, 1, 1, task.delta):.6g}"


def _layers(
    task: ClassificationTask, options: LearningFirstOptions, steps: NDArray[np.int64]
) -> tuple[WeightsAndBias, ...]:
    """Turn steps of the ranges into weights; each is one multiplication and one sum, rounded the same anywhere."""
    made = LearningFirst().perturbation(task, options)
    # The second clamp leaves only whole steps of the range.
    if steps.shape != (made.training.parameters,) or steps.min() < 0 or steps.max() > STEPS:
        raise ValueError(f"parameters that are no {made.training.parameters} steps from 0 to {STEPS}")
    low, high = made.ranges
    # Step 0 is the lowest value of the range, step STEPS the highest.
    values = low + (high - low) * (steps / STEPS)
    # Rounding to float32 may step over an end of the range by its last bit.
    return layers_of(np.clip(values.astype(np.float32), np.float32(low), np.float32(high)), made.training.widths)
