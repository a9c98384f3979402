"""Anonymizing first: a generator measures the table privately, and an ordinary training sees its made-up rows alone.

    MEASURE   by the generator, through the grant; all that is drawn is drawn here
    SAMPLE    rows out of its model, by a public seed that is drawn after the last noise
    TRAIN     by ordinary gradient descent (equations 5 and 6)

The rest is post-processing, so that the generator's guarantee holds for all weights together, and for each by itself.

Source: Sei, Ohsuga, section 4-2 (1), which takes a private histogram; any generator may stand in its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, ValidationError, model_validator

from contracts.message import message
from privacy.arrays import Unsigned
from privacy.classifiers.classifier import ClassifierModel, ParameterRange, WeightsAndBias, layers_of
from privacy.classifiers.trainer import (
    ClassificationTask,
    NetworkOptions,
    PerturbationOptions,
    PerturbedTraining,
    events_of,
    noise_of,
    parameter_epsilon,
)
from privacy.generators.calibration import generator
from privacy.generators.generator import (
    CannotGenerate,
    CountsSource,
    DrawSeed,
    FitProgress,
    Fitted,
    Generator,
    GeneratorPlan,
    Model,
    effective_values,
    resolved_options,
)
from privacy.generators.rows import read_model
from privacy.grant.draws import Draws
from privacy.learning.feed_forward import initial_vector, train_plainly
from privacy.learning.layout import RowLayout
from privacy.learning.network import CannotTrain
from privacy.learning.perturbed import STEPS, DeltaTraining, ParameterRelease
from privacy.marginals.portable import PostProcessingSeed

SAYS: Final = message(
    "anonymizing first: a generator measures the table with noise, and an ordinary training sees its made-up rows "
    "alone; epsilon and delta bound all weights together"
)
MOST_ROWS: Final = 10**7
_MEASURED: Final = 0.5
"""Share of the progress that is told when the generator is done."""
_SECONDS_PER_BATCH: Final = 2e-4


class AnonymizingFirstOptions(NetworkOptions):
    """Options of `anonymizing_first`.

    Args:
        generator: what makes the rows.
        generator_options: its options, without a time limit.
        rows: how many rows are made; as many as are estimated, or public, when not given.
    """

    generator: str = "aim"
    generator_options: dict[str, Any] = Field(default_factory=dict)
    rows: int | None = Field(default=None, ge=1, le=MOST_ROWS)


class AnonymizingFirst:
    """Trains on made-up rows."""

    name: ClassVar[str] = "anonymizing_first"
    summary: ClassVar[str] = SAYS
    options = AnonymizingFirstOptions

    def resolved(self, options: AnonymizingFirstOptions) -> dict[str, Any]:
        """Return the options with those of the generator that nobody wrote."""
        made_by = generator(options.generator)
        theirs = resolved_options(made_by, made_by.options.model_validate(options.generator_options))
        return {**effective_values(options), "generator_options": theirs}

    def plan(self, task: ClassificationTask, options: AnonymizingFirstOptions) -> GeneratorPlan:
        """Let the generator plan.

        Raises:
            CannotGenerate: no such generator, or an option that it does not have or cannot follow.
        """
        made_by, theirs = _generator(task, options)
        made = made_by.plan(task.of_rows, theirs)
        rows = options.rows or task.public_total or 100_000
        seconds = made.seconds + options.epochs * (1 + rows // options.batch) * _SECONDS_PER_BATCH
        megabytes = made.megabytes + 8 * rows * task.rows_layout.width / 2**20
        return GeneratorPlan(made.events, made.steps, megabytes, seconds, made.expected_error)

    def fit(
        self,
        task: ClassificationTask,
        options: AnonymizingFirstOptions,
        plan: GeneratorPlan,
        counts: CountsSource,
        grant: Draws,
        progress: FitProgress,
        seed: DrawSeed,
    ) -> Fitted[ClassifierModel]:
        """Fit the generator through the grant, then sample and train.

        Raises:
            GrantExceeded: the generator drew more than it planned; nothing was drawn.
        Privacy: exactly what the generator draws; the rest is post-processing.
        """
        made_by, theirs = _generator(task, options)
        again = made_by.plan(task.of_rows, theirs)
        fitted = made_by.fit(
            task.of_rows, theirs, again, counts, grant, lambda share, what: progress(_MEASURED * share, what), seed
        )
        # The seed of post-processing is drawn after the last noise.
        drawn = seed()
        # The model in its published form, from which anybody samples the same rows.
        model = read_model(fitted.model.kind, *fitted.model.to_arrays())
        progress(_MEASURED, f"training on made-up rows for {options.epochs} epochs")
        trained = ClassifierModel(task.rows_layout, task.label, _trained(task, options, model, drawn))
        progress(1.0, "done")
        return Fitted(trained, fitted.draws, fitted.notes, drawn)

    def hidden(self, options: AnonymizingFirstOptions) -> tuple[int, ...]:
        """Widths of the hidden layers."""
        return options.hidden

    def bounds(self, options: AnonymizingFirstOptions) -> ParameterRange | None:
        """Nothing is clamped."""
        return None

    def per_parameter(self, task: ClassificationTask, options: AnonymizingFirstOptions) -> str | None:
        """The joint guarantee holds for each parameter too."""
        return None

    def perturbation(self, task: ClassificationTask, options: AnonymizingFirstOptions) -> None:
        """Noise falls on counts of rows."""
        return None

    def weights(
        self, task: ClassificationTask, options: AnonymizingFirstOptions, drawn: Mapping[str, NDArray[np.int64]]
    ) -> tuple[WeightsAndBias, ...] | None:
        """The model of the rows has to be estimated first."""
        return None


def _generator(task: ClassificationTask, options: AnonymizingFirstOptions) -> tuple[Generator[Any], BaseModel]:
    """Return the generator with its options.

    Raises:
        CannotGenerate: there is none, it does not take these columns, or its options are wrong.
    """
    made_by: Generator[Any] = generator(options.generator)
    if options.generator_options.get("time_limit") is not None:
        raise CannotGenerate("generator_options: time_limit; allowed: none here; do: drop it")
    pictures = [each.name for each in task.rows_layout.columns if each.kind == "array"]
    if pictures and not getattr(made_by, "takes_pictures", False):
        raise CannotGenerate(
            f"generator: {options.generator!r} makes no pictures, and {pictures[0]!r} holds some; allowed: one that "
            "learns from rows; do: choose class_pictures or p3gm, or leave the column out of `columns:`"
        )
    try:
        return made_by, made_by.options.model_validate(options.generator_options)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "generator_options"
        raise CannotGenerate(
            f"generator_options: {where}: {first['msg']}; allowed: the generator's options"
        ) from None


def _trained(
    task: ClassificationTask, options: AnonymizingFirstOptions, model: Model, seed: PostProcessingSeed
) -> tuple[WeightsAndBias, ...]:
    """Sample rows, and train on them."""
    wanted = min(options.rows or max(model.rows, 1), MOST_ROWS)
    # Each purpose has a seed of its own, so that no two read the same random words.
    codes = model.sample(wanted, seed=seed.derived("rows").value)
    rows, targets = _vectors(codes.astype(np.uint32), task.rows_layout, task.label)
    widths = task.widths(options.hidden)
    vector = train_plainly(
        initial_vector(widths, options.seed),
        widths,
        rows,
        targets,
        epochs=options.epochs,
        batch=options.batch,
        learning_rate=options.learning_rate,
        regulariser=options.regulariser,
        seed=seed.derived("training").value,
    )
    # A classifier holds finite numbers only, also where a training has diverged.
    return layers_of(np.nan_to_num(vector.astype(np.float32)), widths)


def _vectors(codes: Unsigned, layout: RowLayout, label: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return made-up rows without the label's entries, and the label's."""
    head = next(each for each in layout.heads if each.column == label)
    vectors = layout.vectors(codes).astype(np.float64)
    kept = np.r_[0 : head.start, head.stop : layout.width]
    return np.ascontiguousarray(vectors[:, kept]), np.ascontiguousarray(vectors[:, head.start : head.stop])


# --- Learning first.


LEARNING_FIRST_SAYS: Final = message(
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
    summary: ClassVar[str] = LEARNING_FIRST_SAYS
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


# --- Anonymized learning.


ANONYMIZED_LEARNING_SAYS: Final = message(
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
    summary: ClassVar[str] = ANONYMIZED_LEARNING_SAYS
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
