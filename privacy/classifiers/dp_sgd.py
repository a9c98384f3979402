"""A classifier trained by DP-SGD: noise on the clipped gradients of Poisson samples, calibrated to the whole charge.

    TRAIN     one network, cross entropy of the label's cell
    RELEASE   its parameters, or their exponential average, as they stand in the last checkpoint

The guarantee is joint by construction: it bounds all parameters together, and every parameter by itself no less.

Source: Abadi et al. 2016, algorithm 1, with Poisson samples; the accounting is Mironov, Talwar, Zhang 2019.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import ceil
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from contracts.message import message
from privacy.classifiers.classifier import ClassifierModel, ParameterRange, WeightsAndBias, layers_of, parameters_in
from privacy.classifiers.trainer import ClassificationTask
from privacy.generators.generator import CountsSource, DrawSeed, FitProgress, Fitted, GeneratorPlan
from privacy.generators.latent import (
    LayerWidth,
    Timer,
    TrainingOptions,
    check_relation,
    generator_plan,
    plan_of,
    planned_training,
    train,
)
from privacy.grant.draws import Draws
from privacy.learning.learners import Classifier
from privacy.learning.network import Adam, perceptron
from privacy.learning.plan import MOST_BATCH, Schedule, check_batch
from privacy.learning.trained import unpacked

SAYS: Final = message(
    "DP-SGD: each step adds Gaussian noise to the sum of clipped gradients of a Poisson sample; epsilon and delta "
    "bound all weights together"
)


class DpSgdOptions(TrainingOptions):
    """Options of `dp_sgd`; those of every training by DP-SGD, and these.

    Args:
        averaging: decay of the exponential average of the parameters that is published; null for the last ones.
        seed: of the initial parameters; public.
    """

    hidden: tuple[LayerWidth, ...] = Field(default=(), min_length=0, max_length=8)
    epochs: float = Field(default=10, gt=0, le=10**6, allow_inf_nan=False)
    averaging: float | None = Field(default=0.9, gt=0, lt=1, allow_inf_nan=False)
    learning_rate: float = Field(default=0.05, gt=0, le=10, allow_inf_nan=False)
    seed: int = Field(default=1, ge=0, lt=2**63)

    @property
    def schedule(self) -> Schedule:
        """How rows are sampled, and for how long: a twentieth of the declared rows where no batch is given.

        Raises:
            CannotTrain: a batch of more than the declared rows, or than a step holds.
        """
        batch = self.batch or max(1, min(MOST_BATCH, self.rows_about, max(100, self.rows_about // 20)))
        epochs = Fraction(self.epochs).limit_denominator(10**6)
        schedule = Schedule(self.rows_about, batch, epochs, self.checkpoints, self.reserve)
        check_batch(batch)  # after the declared rows, which bound it too
        return schedule


class DpSgd:
    """Trains a classifier by DP-SGD."""

    name: ClassVar[str] = "dp_sgd"
    summary: ClassVar[str] = SAYS
    options = DpSgdOptions

    def plan(self, task: ClassificationTask, options: DpSgdOptions) -> GeneratorPlan:
        """Plan the training, calibrated to the charge.

        Raises:
            CannotGenerate: another relation than add_remove with one row a unit, delta 0, or noise that drowns all.
        """
        # The accounting of Poisson samples holds for add_remove and one row a unit only.
        check_relation(task, self.name, instead="the trainer anonymizing_first")
        parameters = parameters_in(task.widths(options.hidden))
        plan = planned_training(task, options, parameters=parameters, beside=(), what=self.name)
        width = task.rows_layout.width
        sizes = {"parameters": parameters, "width": width, "columns": 1}
        return generator_plan(options, [], [], plan, **sizes, what=self.name)

    def fit(
        self,
        task: ClassificationTask,
        options: DpSgdOptions,
        plan: GeneratorPlan,
        counts: CountsSource,
        grant: Draws,
        progress: FitProgress,
        seed: DrawSeed,
    ) -> Fitted[ClassifierModel]:
        """Train, and take the weights out of the last checkpoint.

        Raises:
            OutOfTime, TrainingDiverged, GrantExceeded: as of the generators that train.
        Privacy: exactly the planned events; those of the reserve only after a crash.
        """
        timer, rows = Timer(options, progress), task.rows(counts)
        learner = dp_sgd_learner(task, options)
        trained = train(grant, rows, learner, plan_of(options, plan.events), options, timer)
        progress(1.0, "done")
        model = ClassifierModel(task.rows_layout, task.label, _layers(task, options, trained.checkpoint))
        return Fitted(model, (trained,))

    def hidden(self, options: DpSgdOptions) -> tuple[int, ...]:
        """Widths of the hidden layers."""
        return options.hidden

    def bounds(self, options: DpSgdOptions) -> ParameterRange | None:
        """Nothing is clamped."""
        return None

    def per_parameter(self, task: ClassificationTask, options: DpSgdOptions) -> str | None:
        """The joint guarantee holds for each parameter too."""
        return None

    def perturbation(self, task: ClassificationTask, options: DpSgdOptions) -> None:
        """Noise falls on sums of gradients."""
        return None

    def weights(
        self, task: ClassificationTask, options: DpSgdOptions, drawn: Mapping[str, NDArray[np.int64]]
    ) -> tuple[WeightsAndBias, ...] | None:
        """Take the weights out of the last checkpoint, the only one that is published.

        Raises:
            ValueError: no checkpoint of such a training.
        """
        if len(drawn) != 1:
            raise ValueError("one checkpoint must be published, the last one")
        return _layers(task, options, next(iter(drawn.values())))


def _layers(
    task: ClassificationTask, options: DpSgdOptions, checkpoint: NDArray[np.int64]
) -> tuple[WeightsAndBias, ...]:
    """Take a checkpoint apart: parameters, Adam's two moments, and the parameters' average where one is kept."""
    widths = task.widths(options.hidden)
    size, kinds = parameters_in(widths), 3 + (options.averaging is not None)
    # A word holds two float32.
    if checkpoint.shape != (ceil(size * kinds / 2),):
        raise ValueError(f"a checkpoint of {2 * checkpoint.size} numbers; allowed: {kinds} times {size} parameters")
    numbers = unpacked(checkpoint, size * kinds)
    return layers_of(numbers[:size] if options.averaging is None else numbers[3 * size :], widths)


def dp_sgd_learner(task: ClassificationTask, options: DpSgdOptions) -> Classifier:
    """Return what is trained."""
    network = perceptron(task.inputs, *options.hidden, outputs=task.classes)
    optimizer = Adam(options.learning_rate, decay="cosine")
    return Classifier(network, task.label, optimizer, options.seed, options.averaging)
