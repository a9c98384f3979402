"""Classifiers: a trainer plans and draws, and weights, inputs, card and what was drawn are written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel

from contracts.contract.contract import Contract
from contracts.release.spec import ReleaseSpec
from privacy.classifiers.trainer import ClassificationTask, Trainer, plan_classifier, trainer
from privacy.generators.release_plan import FittedPlan
from tasks.products.classifier.classifier_training import train_classifier
from tasks.products.fitted_kind import FittedKind
from tasks.products.product_kind import Making, MakingStep
from tasks.records.facts import Outputs, RunFacts
from tasks.records.files.classifier_files import write_model_files
from tasks.records.files.tidy_tables import WrittenFile


def _trained(making: Making, _before: None) -> Outputs:
    terms = making.plan, making.table, making.contract, making.folder, making.run_key
    return Outputs(classifier=train_classifier(making.grant, *terms))


class ClassifierKind(FittedKind):
    """Classifiers."""

    steps: ClassVar[tuple[MakingStep, ...]] = (MakingStep("train", _trained),)

    def fitter(self, spec: ReleaseSpec) -> Trainer[Any]:
        """Return the trainer."""
        return trainer(spec.model_product.trainer)

    def fit_plan(
        self, spec: ReleaseSpec, contract: Contract, options: BaseModel, **terms: Any
    ) -> FittedPlan[ClassificationTask]:
        """Let the trainer plan."""
        return plan_classifier(spec.model_product, contract, options, **terms)

    def write_files(self, facts: RunFacts, folder: Path, *, marks: Mapping[str, str]) -> tuple[WrittenFile, ...]:
        """Write weights, inputs, card, and what was drawn."""
        return write_model_files(facts, folder, marks=marks)
