"""How a product with options is planned: their own model reads them, and what does not fit names its place."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from contracts.contract.contract import Contract
from contracts.errors import SpecRefused
from contracts.reading.scalars import Problem
from contracts.release.spec import ModelProduct, ReleaseSpec, SyntheticProduct
from privacy.generators.generator import CannotGenerate
from privacy.generators.spending import TOO_SMALL

ProductT = TypeVar("ProductT", SyntheticProduct, ModelProduct)
PlanT = TypeVar("PlanT")

OPTIONS = ("product", "options")
_OF_THE_CHARGE = re.compile(r"\b(epsilon|noise_multiplier) is ")
_PLACES = ("product.generator", "product.trainer", "charge.epsilon", "charge.delta")


def planned(
    spec: ReleaseSpec,
    product: ProductT,
    contract: Contract,
    options_of: Callable[[], type[BaseModel]],
    plan: Callable[..., PlanT],
    **noise: Any,
) -> tuple[ReleaseSpec, PlanT]:
    """Read a product's options by their own model, and plan.

    Args:
        spec: the release spec, held against its contract already.
        product: its product.
        contract: its contract.
        options_of: finds the model of the options.
        plan: plans product, contract and options under a charge.
        noise: what it is calibrated to.
    Returns:
        tuple: the spec with the options as they were understood, so that their spelling does not count, and the plan.
    Raises:
        SpecRefused: an option is unknown or out of its range, or the plan must fail under this charge.
    Privacy: reads no data.
    """
    model: type[BaseModel] | None = None
    try:
        model = options_of()
        options = model.model_validate(product.options)
        known = options.model_dump(mode="json", by_alias=True, exclude_unset=True)
        made = plan(product, contract, options, epsilon=spec.charge.epsilon, delta=spec.charge.delta, **noise)
    except ValidationError as error:
        raise SpecRefused(spec.misread(OPTIONS, error, model)) from None
    except CannotGenerate as error:
        raise SpecRefused([spec.finding(*read_message(str(error), product.options))]) from error
    return spec.with_options(known), made


def read_message(message: str, options: Mapping[str, object]) -> tuple[tuple[str, ...], Problem]:
    """Take the message of a generator or trainer apart: `found; allowed: what; do: what`, as far as it has these.

    Its place is the part of the spec with which it begins, or the option that it names, where that is written.
    """
    rest, _, remedy = message.partition("; do: ")
    found, _, allowed = rest.partition("; allowed: ")
    place = next((each for each in _PLACES if found.startswith(f"{each}: ")), None)
    if place is not None:
        problem = Problem(found.removeprefix(f"{place}: "), allowed or "what the generator can do", remedy)
        return tuple(place.split(".")), problem
    problem = Problem(found, allowed or "what the generator can do", remedy)
    named = [word.strip(":") for text in (found, allowed) for word in text.split()]
    option = next((word for word in named if word in options), None)
    if option is not None:
        return (*OPTIONS, option), problem
    of_the_charge = found.startswith(TOO_SMALL) or _OF_THE_CHARGE.search(found) is not None
    return ("charge", "epsilon") if of_the_charge else ("product",), problem
