"""The plan of a release of a model: what its trainer will draw, and what that costs. Reads no data."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from pydantic import BaseModel

from contracts.contract.contract import Contract
from contracts.release.classifier import ModelProduct
from privacy.accounting.amounts import PICO, pico_to_text
from privacy.classifiers.inputs import model_layout
from privacy.classifiers.registry import trainer
from privacy.classifiers.trainer import ClassificationTask
from privacy.generators.calibration import MultiplierRange
from privacy.generators.generator import CannotGenerate
from privacy.generators.release_plan import FittedPlan, claim_of, noise_planned, task_of


class ModelPlan(FittedPlan[ClassificationTask]):
    """What a release of a model will ask its grant for."""


def plan_model(
    product: ModelProduct,
    contract: Contract,
    options: BaseModel,
    *,
    epsilon: Decimal,
    delta: Decimal,
    rooms: Sequence[MultiplierRange] = (),
    noise_epsilon: Fraction | None = None,
) -> ModelPlan:
    """Let the trainer plan a product under a charge; as `plan_synthetic`.

    Raises:
        CannotGenerate: no such trainer, it is known already that it must fail, or it would cost more than the charge.
    Privacy: reads no data; what is charged is the joint guarantee, whatever the trainer says of single parameters.
    """
    made_by, asked = trainer(product.trainer), asked_classifier(product, contract, epsilon=epsilon, delta=delta)
    made, asked = noise_planned(lambda asked: made_by.plan(asked, options), asked, rooms, noise_epsilon)
    cost = made.claim.epsilon
    if cost > Fraction(epsilon) * PICO:
        raise CannotGenerate(
            f"charge.epsilon: {product.trainer!r} would cost a joint epsilon of {pico_to_text(cost)}; allowed: "
            f"at most {epsilon}, the charge; do: raise epsilon, or ask for less"
        )
    return ModelPlan(product.trainer, options, asked, **claim_of(made, epsilon, delta))


def asked_classifier(
    product: ModelProduct, contract: Contract, *, epsilon: Decimal, delta: Decimal
) -> ClassificationTask:
    """Return what a trainer is asked for, from what is public alone."""
    asked = task_of(product, contract, epsilon=epsilon, delta=delta)
    return ClassificationTask(**vars(asked), label=product.label, vectors=model_layout(contract, product))
