"""What trainers have alike whose noise falls on parameters or on their changes (`learning_first` and its like).

All draws of such a training are one query of the grant. The weights follow from the last of them by arithmetic.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from privacy.classifiers.classifier_model import ClassifierModel, ParameterRange, WeightsAndBias
from privacy.classifiers.perturbation_options import (
    PerturbationOptions,
    checked_useful,
    noise_notes,
    noise_of,
    perturbation_plan,
)
from privacy.classifiers.trainer import ClassificationTask
from privacy.generators.generator import CountsSource, DrawSeed, FitProgress, Fitted, GeneratorPlan
from privacy.grant.draws import Draws
from privacy.grant.queries.parameters import ParameterQuery
from privacy.learning.perturbed import Perturbation

KEY: Final = "parameters-0001"
PerturbedT = TypeVar("PerturbedT", bound=PerturbationOptions)


class PerturbedTraining(ABC, Generic[PerturbedT]):
    """A training with noise on its parameters or their changes.

    Class attributes:
        name: of the trainer.
        drawn: what is drawn, in the plural, for the plan.
    """

    name: ClassVar[str]
    drawn: ClassVar[str]

    def plan(self, task: ClassificationTask, options: PerturbedT) -> GeneratorPlan:
        """Plan the draws.

        Raises:
            CannotGenerate: an option that cannot be, too small a charge, or noise that drowns the parameters.
        """
        made = self.perturbation(task, options)
        checked_useful(task, options, made, self.name)
        return perturbation_plan(task, made, noise_of(task, options, made), self.drawn)

    def fit(
        self,
        task: ClassificationTask,
        options: PerturbedT,
        plan: GeneratorPlan,
        counts: CountsSource,
        grant: Draws,
        progress: FitProgress,
        seed: DrawSeed,
    ) -> Fitted[ClassifierModel]:
        """Train within the grant, and take the noisy parameters of the last draw.

        Raises:
            GrantExceeded: more was planned than the grant holds; nothing was drawn.
        Privacy: exactly the planned events.
        """
        made = self.perturbation(task, options)
        noise = noise_of(task, options, made)
        progress(0.0, f"training for {options.epochs} epochs")

        def report_step(done: int, draws: int) -> None:
            progress(0.99 * done / draws, f"training, checkpoint {done} of {draws}")

        # Batches, clamping and noise are the grant's; what comes back is released.
        drawn = grant.draw(ParameterQuery(task.rows(counts), made, noise), key=KEY, progress=report_step)
        progress(1.0, "done")
        layers = self.layers(task, options, drawn[-1].values)
        model = ClassifierModel(task.rows_layout, task.label, layers, self.bounds(options))
        return Fitted(model, tuple(drawn), noise_notes(task, options, made))

    def hidden(self, options: PerturbedT) -> tuple[int, ...]:
        """Widths of the hidden layers."""
        return options.hidden

    def weights(
        self, task: ClassificationTask, options: PerturbedT, drawn: Mapping[str, NDArray[np.int64]]
    ) -> tuple[WeightsAndBias, ...] | None:
        """Take the weights out of the last draw, the only one that is published.

        Raises:
            ValueError: no such draw.
        """
        if len(drawn) != 1:
            raise ValueError("one draw of the parameters must be published, the last one")
        return self.layers(task, options, next(iter(drawn.values())))

    @abstractmethod
    def bounds(self, options: PerturbedT) -> ParameterRange | None:
        """Range to which weights and biases are clamped; None where they are not."""

    @abstractmethod
    def perturbation(self, task: ClassificationTask, options: PerturbedT) -> Perturbation:
        """Return what the noise falls on.

        Raises:
            CannotGenerate: an option that cannot be.
        """

    @abstractmethod
    def layers(
        self, task: ClassificationTask, options: PerturbedT, words: NDArray[np.int64]
    ) -> tuple[WeightsAndBias, ...]:
        """Make weights and biases of what was drawn, by arithmetic that is the same anywhere.

        Raises:
            ValueError: values that are not this trainer's.
        """
