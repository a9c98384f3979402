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
from pydantic import BaseModel, Field, ValidationError

from contracts.message import message
from privacy.arrays import Unsigned
from privacy.classifiers.classifier_model import ClassifierModel, ParameterRange, WeightsAndBias, layers_of
from privacy.classifiers.perturbation_options import NetworkOptions
from privacy.classifiers.trainer import ClassificationTask
from privacy.generators.generator import (
    CannotGenerate,
    CountsSource,
    DrawSeed,
    FitProgress,
    Fitted,
    Generator,
    GeneratorPlan,
    Model,
)
from privacy.generators.models import read_model
from privacy.generators.registry import generator
from privacy.generators.resolved_options import effective_values, resolved_options
from privacy.grant.draws import Draws
from privacy.learning.feed_forward import initial_vector, train_plainly
from privacy.learning.layout import RowLayout
from privacy.marginals.seeds import PostProcessingSeed

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
