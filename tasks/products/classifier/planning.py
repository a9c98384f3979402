"""Classifiers, as a release of one is planned: its trainer plans."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from contracts.contract.contract import Contract
from contracts.release.spec import ReleaseSpec
from privacy.classifiers.trainer import ClassificationTask, Trainer, plan_classifier, trainer
from privacy.generators.calibration import FittedPlan
from tasks.products.fit import FittedPlanning


class ClassifierPlanning(FittedPlanning):
    """Classifiers."""

    def fitter(self, spec: ReleaseSpec) -> Trainer[Any]:
        """Return the trainer."""
        return trainer(spec.classifier_product.trainer)

    def fit_plan(
        self, spec: ReleaseSpec, contract: Contract, options: BaseModel, **terms: Any
    ) -> FittedPlan[ClassificationTask]:
        """Let the trainer plan."""
        return plan_classifier(spec.classifier_product, contract, options, **terms)
