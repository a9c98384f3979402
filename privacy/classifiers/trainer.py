"""What every trainer is: a name, an options model, a data-free plan, and a fit through a grant.

A trainer never sees rows: it hands handles to the grant, and gets noisy values back; what it does with these is
post-processing. Its plan and its terms are those of generators; what it makes is a classifier.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from privacy.classifiers.classifier_model import ClassifierModel, ParameterRange, WeightsAndBias
from privacy.generators.generator import CannotGenerate, CountsSource, FitProgress, GeneratorPlan, SynthesisTask
from privacy.grant.draws import Draws
from privacy.grant.measurement import Measurement, ParameterMeasurement, Selection, SumMeasurement
from privacy.learning.layout import RowLayout
from privacy.learning.rows import PrivateRows
from privacy.learning.trained import Trained
from privacy.marginals.seeds import PostProcessingSeed

OptionsT = TypeVar("OptionsT", bound=BaseModel)
DrawSeed = Callable[[], PostProcessingSeed]
"""Draws the public seed of post-processing; asked after the last noise, if at all."""


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
        return replace(counts.rows(self.domain.columns), layout=self.rows_layout)

    def widths(self, hidden: tuple[int, ...]) -> tuple[int, ...]:
        """Entries of the input, of the hidden layers, and of the output."""
        return (self.inputs, *hidden, self.classes)


@dataclass(frozen=True)
class FittedClassifier:
    """What a training gives.

    Args:
        model: the classifier.
        measurements, selections, sums, trainings, parameters: what was drawn, in order, by kind.
        notes: what a reader of the record should know.
        seed: of post-processing; None where there is none.
    """

    model: ClassifierModel
    measurements: tuple[Measurement, ...] = ()
    selections: tuple[Selection, ...] = ()
    notes: tuple[str, ...] = ()
    sums: tuple[SumMeasurement, ...] = ()
    trainings: tuple[Trained, ...] = ()
    parameters: tuple[ParameterMeasurement, ...] = ()
    seed: PostProcessingSeed | None = None


class Trainer(Protocol, Generic[OptionsT]):
    """A way to train a classifier."""

    name: ClassVar[str]
    options: type[OptionsT]
    says: ClassVar[str]

    def plan(self, asked: ClassificationTask, options: OptionsT) -> GeneratorPlan:
        """Plan without data.

        Raises:
            CannotGenerate: it is known already that the training must fail; nothing is charged.
        """
        ...

    def fit(
        self,
        asked: ClassificationTask,
        options: OptionsT,
        plan: GeneratorPlan,
        counts: CountsSource,
        grant: Draws,
        progress: FitProgress,
        seed: DrawSeed,
    ) -> FittedClassifier:
        """Train through the grant.

        Raises:
            OutOfTime: the options' time limit has passed before there was a model.
            GrantExceeded: it drew more than it planned; nothing was drawn.
        Privacy: exactly what the grant admits.
        """
        ...

    def hidden(self, options: OptionsT) -> tuple[int, ...]:
        """Widths of the hidden layers."""
        ...

    def bounds(self, options: OptionsT) -> ParameterRange | None:
        """Range to which weights and biases are clamped; None where they are not."""
        ...

    def per_parameter(self, asked: ClassificationTask, options: OptionsT) -> str | None:
        """Give the epsilon of each parameter by itself, as text; None where it is the joint one."""
        ...

    def weights(
        self, asked: ClassificationTask, options: OptionsT, drawn: Mapping[str, NDArray[np.int64]]
    ) -> tuple[WeightsAndBias, ...] | None:
        """Return the layers that follow from the published noisy values by arithmetic alone, the same anywhere.

        Args:
            asked: what was asked for.
            options: the options.
            drawn: the published noisy values, by key of the draw.
        Returns:
            tuple: the layers; None where something has to be estimated from the values first.
        Raises:
            ValueError: values that are not this trainer's.
        """
        ...


AnyTrainer = Trainer[Any]
