"""What a release of a model is asked for: the trainer's options are read, and the trainer plans without data."""

from __future__ import annotations

from typing import Any

from contracts.contract.contract import Contract
from contracts.release.spec import ModelProduct, ReleaseSpec
from privacy.classifiers.trainer import ClassificationTask, plan_classifier, trainer
from privacy.generators.release_plan import FittedPlan
from tasks.products.planning import planned


def read_model_request(
    spec: ReleaseSpec, product: ModelProduct, contract: Contract, **noise: Any
) -> tuple[ReleaseSpec, FittedPlan[ClassificationTask]]:
    """Read the options by the trainer's own model, and plan.

    Args:
        spec: the release spec, held against its contract already.
        product: its product.
        contract: its contract.
        noise: what it is calibrated to, as of `plan_fit`.
    Returns:
        tuple: the spec with the options as they were understood, so that their spelling does not count, and the plan.
    Raises:
        SpecRefused: an option is unknown or out of its range, or the trainer sees already that it must fail.
    Privacy: reads no data.
    """
    return planned(spec, product, contract, lambda: trainer(product.trainer).options, plan_classifier, **noise)
