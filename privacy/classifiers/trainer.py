"""A trainer: a generator whose model is a classifier, with what a release of the classifier says of its weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from contracts.contract.contract import Contract
from contracts.release.classifier import ClassifierProduct
from privacy.classifiers.classifier_model import ClassifierModel, ParameterRange, WeightsAndBias
from privacy.classifiers.inputs import classifier_layout
from privacy.generators.generator import CannotGenerate, CountsSource, Fitter, SynthesisTask
from privacy.generators.registry import TRAINERS
from privacy.generators.release_plan import FittedPlan, plan_fit, task_of
from privacy.learning.layout import RowLayout
from privacy.learning.rows import PrivateRows

if TYPE_CHECKING:
    from privacy.learning.perturbed import Perturbation

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
