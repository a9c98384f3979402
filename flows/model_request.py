"""What a release of a model is asked for: the trainer's options are read, and the trainer plans without data."""

from __future__ import annotations

from pydantic import ValidationError

from contracts.contract import Contract
from contracts.errors import SpecRefused
from contracts.spec import ModelProduct, ReleaseSpec
from flows.synthetic_request import OPTIONS, read_message
from privacy.classifiers.model_plan import ModelPlan, plan_model
from privacy.classifiers.registry import trainer
from privacy.generators.generator import CannotGenerate


def read_model_request(spec: ReleaseSpec, product: ModelProduct, contract: Contract) -> tuple[ReleaseSpec, ModelPlan]:
    """Read the options by the trainer's own model, and plan.

    Args:
        spec: the release spec, held against its contract already.
        product: its product.
        contract: its contract.
    Returns:
        tuple: the spec with the options as they were understood, so that their spelling does not count, and the plan.
    Raises:
        SpecRefused: an option is unknown or out of its range, or the trainer sees already that it must fail.
    Privacy: reads no data.
    """
    try:
        model = trainer(product.trainer).options
        options = model.model_validate(product.options)
        known = options.model_dump(mode="json", by_alias=True, exclude_unset=True)
        plan = plan_model(product, contract, options, epsilon=spec.charge.epsilon, delta=spec.charge.delta)
    except ValidationError as error:
        raise SpecRefused(spec.misread(OPTIONS, error, model)) from None
    except CannotGenerate as error:
        raise SpecRefused([spec.finding(*read_message(str(error), product.options))]) from error
    return spec.with_options(known), plan
