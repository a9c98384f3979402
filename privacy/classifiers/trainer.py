"""A trainer: a generator whose model is a classifier, with what a release of the classifier says of its weights."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar, Final, Generic, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from contracts.contract.contract import Contract
from contracts.release.classifier import ClassifierProduct
from privacy.accounting.amounts import AmountRefused
from privacy.accounting.calculus import PureCalculus
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplaceVector, PrivacyEvent
from privacy.accounting.renyi import best_epsilon, rho_for
from privacy.classifiers.classifier import DROWNED, ClassifierModel, ParameterRange, WeightsAndBias, classifier_layout
from privacy.generators.calibration import TRAINERS, FittedPlan, plan_fit, task_of
from privacy.generators.generator import (
    CannotGenerate,
    CountsSource,
    DrawSeed,
    FitProgress,
    Fitted,
    Fitter,
    GeneratorPlan,
    PlannedStep,
    SynthesisTask,
    too_small,
)
from privacy.grant.draws import Draws
from privacy.grant.queries.parameters import ParameterQuery
from privacy.learning.layout import PrivateRows, RowLayout
from privacy.learning.perturbed import STEPS, DeltaTraining, Perturbation, PlainTraining, VectorEvent
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise, Noise

OptionsT = TypeVar("OptionsT", bound=BaseModel)


@dataclass(frozen=True)
class ClassificationTask(SynthesisTask):
    """What a trainer is asked for; public, data-free.

    Args:
        label: the column that is told; the others are what it is told from.
        vectors: how rows lie in the vectors that the classifier reads; `layout` is how generators read them.
    """

    label: str = ""
    vectors: RowLayout | None = None

    @property
    def rows_layout(self) -> RowLayout:
        """How rows lie in vectors.

        Raises:
            CannotGenerate: it is not known.
        """
        if self.vectors is None:
            raise CannotGenerate("product.columns: no layout of rows; allowed: a contract's columns")
        return self.vectors

    @property
    def of_rows(self) -> SynthesisTask:
        """What a generator of rows is asked for instead."""
        return SynthesisTask(**{each.name: getattr(self, each.name) for each in fields(SynthesisTask)})

    @property
    def inputs(self) -> int:
        """Entries of a row's vector without the label's."""
        return self.rows_layout.width - self.rows_layout.column(self.label).width

    @property
    def classes(self) -> int:
        """Cells of the label."""
        return self.rows_layout.column(self.label).width

    def rows(self, counts: CountsSource) -> PrivateRows:
        """Return the handle on the rows, as they lie in vectors here; nothing is read before a grant opens it."""
        return counts.rows(self.domain.columns).with_layout(self.rows_layout)

    def widths(self, hidden: tuple[int, ...]) -> tuple[int, ...]:
        """Entries of the input, of the hidden layers, and of the output."""
        return (self.inputs, *hidden, self.classes)


class Trainer(Fitter[OptionsT, ClassificationTask, ClassifierModel], Protocol[OptionsT]):
    """A way to train a classifier. Others register theirs in the entry point group `sudare.trainers`.

    `says` is one line for people: where its noise comes in, and what its guarantee bounds.
    """

    summary: ClassVar[str]

    def hidden(self, options: OptionsT) -> tuple[int, ...]:
        """Widths of the hidden layers."""
        ...

    def bounds(self, options: OptionsT) -> ParameterRange | None:
        """Range to which weights and biases are clamped; None where they are not."""
        ...

    def per_parameter(self, task: ClassificationTask, options: OptionsT) -> str | None:
        """Give the epsilon of each parameter by itself, as text; None where it is the joint one."""
        ...

    def perturbation(self, task: ClassificationTask, options: OptionsT) -> Perturbation | None:
        """Give what noise is added to the parameters, or to their changes; None where it falls on something else.

        Raises:
            CannotGenerate: an option that cannot be.
        """
        ...

    def weights(
        self, task: ClassificationTask, options: OptionsT, drawn: Mapping[str, NDArray[np.int64]]
    ) -> tuple[WeightsAndBias, ...] | None:
        """Return the layers that follow from the published noisy values by arithmetic alone, the same anywhere.

        Args:
            task: what was asked for.
            options: the options.
            drawn: the published noisy values, by key of the draw.
        Returns:
            tuple: the layers; None where something has to be estimated from the values first.
        Raises:
            ValueError: values that are not this trainer's.
        """
        ...


def trainer(name: str) -> Trainer[Any]:
    """Return the trainer of that name; only its own module is loaded.

    Raises:
        CannotGenerate: there is none, with the nearest name, or a package that registers it cannot be loaded.
    """
    made: Trainer[Any] = TRAINERS.load(name)
    return made


def plan_classifier(
    product: ClassifierProduct,
    contract: Contract,
    options: BaseModel,
    *,
    epsilon: Decimal,
    delta: Decimal,
    **noise: Any,
) -> FittedPlan[ClassificationTask]:
    """Let the trainer of a product plan; `noise` as of `plan_fit`.

    Raises:
        CannotGenerate: no such trainer; or as of `plan_fit`.
    """
    asked = classification_task(product, contract, epsilon=epsilon, delta=delta)
    return plan_fit(product.trainer, trainer(product.trainer), asked, options, **noise)


def classification_task(
    product: ClassifierProduct, contract: Contract, *, epsilon: Decimal, delta: Decimal
) -> ClassificationTask:
    """Return what a trainer is asked for, from what is public alone."""
    asked = task_of(product, contract, epsilon=epsilon, delta=delta)
    return ClassificationTask(**vars(asked), label=product.label, vectors=classifier_layout(contract, product))


# --- Options of the trainers that add noise to parameters or to their changes, and the noise that follows from them.


_FINEST: Final = 10**9
"""Epsilons of one parameter that are found are multiples of 10^-9."""
_ROWS_ASSUMED: Final = 100_000
_SECONDS_PER_BATCH: Final = 2e-4
_SECONDS_PER_NOISE: Final = 1e-6
_NEARLY: Final = Fraction(999_999, 1_000_000)
"""Of the charge; the rest is room for what rounding the draws' losses up takes."""


class NetworkOptions(BaseModel):
    """Options of an ordinary training; what is not written is the paper's (section 5).

    Args:
        hidden: widths of the hidden layers; three of them make the five layers, input and output included.
        epochs, batch, learning_rate, regulariser: E, B, alpha and lambda.
        seed: of the initial parameters; public.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    hidden: tuple[int, ...] = Field(default=(16, 16, 16), min_length=0, max_length=8)
    epochs: int = Field(default=500, ge=1, le=10**5)
    batch: int = Field(default=50, ge=1, le=10**6)
    learning_rate: float = Field(default=0.01, gt=0, le=100, allow_inf_nan=False)
    regulariser: float = Field(default=0.001, ge=0, le=100, allow_inf_nan=False)
    seed: int = Field(default=1, ge=0, lt=2**63)

    def training(self, task: ClassificationTask) -> PlainTraining:
        """Return the training of what is asked for."""
        widths = task.widths(self.hidden)
        return PlainTraining(
            task.label, widths, self.epochs, self.batch, self.learning_rate, self.regulariser, self.seed
        )


class PerturbationOptions(NetworkOptions):
    """Options of `learning_first` and `anonymized_learning`.

    Args:
        noise: laplace, as in the paper, or gaussian, whose joint loss grows with the root of the parameters; gaussian
            where delta is above 0 and `parameter_epsilon` is not given.
        parameter_epsilon: epsilon of each parameter by itself, with laplace. The charge must hold the joint loss of
            all of them. Without it the noise is the least that the charge allows: the jointly calibrated variant.
        publish_noise: publish parameters that their noise is expected to drown; the model card then says so first.
    """

    noise: Literal["laplace", "gaussian"] | None = None
    parameter_epsilon: float | None = Field(default=None, gt=0, le=1000, allow_inf_nan=False)
    publish_noise: bool = False


def signal_to_noise(task: ClassificationTask, options: PerturbationOptions, perturbation: Perturbation) -> float:
    """Say how far a parameter could go from the middle of its range, relative to how far noise alone takes it.

    sqrt(steps) * (range / 2) / deviation: once for parameters that are perturbed after training; for changes in every
    batch the noise adds up as a random walk, while at best all changes go one way. Below 1 the noise is the model.
    """
    event, training = events_of(task, perturbation, noise_of(task, options, perturbation))[0], perturbation.training
    # Laplace noise of scale b has the standard deviation sqrt(2) b.
    deviation = _deviation(event) * (1.0 if isinstance(event, DiscreteGaussian) else math.sqrt(2)) / STEPS
    batches = max(1, _rows_about(perturbation) // training.batch)
    steps = training.epochs * batches if isinstance(perturbation, DeltaTraining) else 1
    return math.sqrt(steps) / (2 * deviation)


def noise_notes(
    task: ClassificationTask, options: PerturbationOptions, perturbation: Perturbation
) -> tuple[str, ...]:
    """Say that the noise is expected to drown the parameters, where it is."""
    return (DROWNED,) if signal_to_noise(task, options, perturbation) < 1 else ()


def checked_useful(
    task: ClassificationTask, options: PerturbationOptions, perturbation: Perturbation, what: str
) -> None:
    """Refuse a training whose noise is expected to drown its parameters, unless that is what is wanted.

    Raises:
        CannotGenerate: with about the epsilon that would do.
    """
    ratio = signal_to_noise(task, options, perturbation)
    if ratio >= 1 or options.publish_noise:
        return
    name = "parameter_epsilon" if options.parameter_epsilon is not None else "epsilon"
    epsilon = options.parameter_epsilon or float(task.epsilon)
    raise CannotGenerate(
        f"{what}: noise that drowns its {perturbation.training.parameters:,} parameters, with a signal-to-noise "
        f"ratio of {ratio:.2g}; allowed: a ratio of at least 1, or publish_noise: true; do: take trainer dp_sgd, "
        f"fewer or narrower hidden layers, or an {name} of about {epsilon / ratio:.2g}"
    )


def noise_of(task: ClassificationTask, options: PerturbationOptions, perturbation: Perturbation) -> Noise:
    """Return the noise of a training: as it is asked for, or the least that the charge allows.

    Raises:
        CannotGenerate: gaussian noise with delta 0 or with an epsilon of each parameter, or too small a charge.
    """
    # Laplace, as in the paper, where delta is 0 or the epsilon of one parameter is asked for.
    laplace = options.noise == "laplace" or (options.noise is None and (not task.delta or options.parameter_epsilon))
    if options.parameter_epsilon is not None:
        if not laplace:
            raise CannotGenerate(
                "parameter_epsilon with noise: gaussian; allowed: laplace, whose epsilon of each parameter is pure; "
                "do: write noise: laplace, or leave parameter_epsilon to the charge"
            )
        return LaplaceNoise(Fraction(options.parameter_epsilon).limit_denominator(_FINEST))
    if not laplace and not task.delta:
        raise CannotGenerate("noise: gaussian needs a delta above 0; do: write noise: laplace, or give a delta")
    try:
        if not laplace:
            return GaussianNoise(rho_for(task.epsilon, task.delta) * _NEARLY)
        return LaplaceNoise(_largest(task, lambda epsilon: events_of(task, perturbation, LaplaceNoise(epsilon))))
    except AmountRefused as refused:
        raise too_small(refused) from refused


def events_of(task: ClassificationTask, perturbation: Perturbation, noise: Noise) -> tuple[VectorEvent, ...]:
    """Return the events of all draws of a training.

    Raises:
        CannotGenerate: noise so large that it cannot be drawn.
    """
    try:
        return (perturbation.event(noise, rows_per_unit=task.rows_per_unit),) * perturbation.draws
    except AmountRefused as refused:
        raise too_small(refused) from refused


def perturbation_plan(task: ClassificationTask, perturbation: Perturbation, noise: Noise, what: str) -> GeneratorPlan:
    """Say what a training will draw and take."""
    events, training = events_of(task, perturbation, noise), perturbation.training
    spread = _deviation(events[0])
    kind = "discrete Laplace, scale" if isinstance(noise, LaplaceNoise) else "discrete Gaussian, standard deviation"
    step = PlannedStep(what, perturbation.draws, 1.0, f"{kind} {spread / STEPS:.3g} times a parameter's range")
    batches = training.epochs * max(1, _rows_about(perturbation) // training.batch)
    seconds = 1 + batches * (_SECONDS_PER_BATCH + training.parameters * _seconds_a_parameter(perturbation))
    megabytes = 8 * training.widths[0] * _rows_about(perturbation) / 2**20
    return GeneratorPlan(events, (step,), megabytes, seconds, {})


def _deviation(event: VectorEvent) -> float:
    """Return the scale of Laplace noise, or the standard deviation of Gaussian noise [steps]."""
    if isinstance(event, DiscreteGaussian):
        return math.sqrt(float(event.sigma_squared))
    return 1 / float(event.inverse_scale)


def _rows_about(perturbation: Perturbation) -> int:
    return perturbation.rows_about if isinstance(perturbation, DeltaTraining) else _ROWS_ASSUMED


def _seconds_a_parameter(perturbation: Perturbation) -> float:
    return _SECONDS_PER_NOISE if isinstance(perturbation, DeltaTraining) else 0.0


def joint_epsilon(events: Sequence[PrivacyEvent], delta: Fraction) -> Fraction:
    """Return the joint epsilon of draws at delta."""
    if not delta:
        return Fraction(PureCalculus().cost(events), 10**12)
    return Fraction(best_epsilon(events, delta)[0])


def parameter_epsilon(event: VectorEvent, draws: int, steps: int, delta: Fraction) -> float:
    """Return the epsilon of one parameter by itself.

    Args:
        event: of one draw.
        draws: how many there are.
        steps: times that the parameter is drawn in one of them.
        delta: where it is stated, for Gaussian noise.
    """
    if isinstance(event, DiscreteLaplaceVector):
        # The pure losses of one number add up over its draws.
        return float(event.inverse_scale * event.move * steps * draws)
    alone = DiscreteGaussian(event.sigma_squared / (steps * draws), (STEPS,))  # their zCDP losses add up
    return float(best_epsilon([alone], delta)[0])


def _largest(task: ClassificationTask, events: Callable[[Fraction], Sequence[PrivacyEvent]]) -> Fraction:
    """Search the largest epsilon of one parameter whose joint loss the charge holds."""
    room, low, high = task.epsilon * _NEARLY, 0, math.floor(task.epsilon * _FINEST)
    # The joint loss rises with the epsilon of one parameter: bisect in steps of 10^-9.
    while high - low > 1:
        middle = (low + high) // 2
        fits = joint_epsilon(events(Fraction(middle, _FINEST)), task.delta) <= room
        low, high = (middle, high) if fits else (low, middle)
    if low == 0:
        raise AmountRefused("epsilon", task.epsilon, "enough for 10^-9 a parameter")
    return Fraction(low, _FINEST)


# --- What trainers have alike whose noise falls on parameters or on their changes (`learning_first` and its like).


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
