"""What a synthetic release is asked for: the generator's options are read, and the generator plans without data."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ValidationError

from contracts.contract import Contract
from contracts.errors import SpecRefused
from contracts.spec import ReleaseSpec, SyntheticProduct
from contracts.written import Problem
from privacy.generators.generator import CannotGenerate
from privacy.generators.registry import generator
from privacy.generators.release_plan import SyntheticPlan, plan_synthetic
from privacy.generators.spending import TOO_SMALL

_AT = ("product", "options")


def read_synthetic(
    spec: ReleaseSpec, product: SyntheticProduct, contract: Contract
) -> tuple[ReleaseSpec, SyntheticPlan]:
    """Read the options by the generator's own model, and plan.

    Args:
        spec: the release spec, held against its contract already.
        product: its product.
        contract: its contract.
    Returns:
        tuple: the spec with the options as they were understood, so that their spelling does not count, and the plan.
    Raises:
        SpecRefused: an option is unknown or out of its range, or the generator sees already that it must fail.
    Privacy: reads no data.
    """
    try:
        model = generator(product.generator).options
        options = model.model_validate(product.options)
        known = options.model_dump(mode="json", by_alias=True, exclude_unset=True)
        plan = plan_synthetic(product, contract, options, epsilon=spec.charge.epsilon, delta=spec.charge.delta)
    except ValidationError as error:
        raise SpecRefused(spec.misread(_AT, error, model)) from None
    except CannotGenerate as error:
        raise SpecRefused([spec.finding(*_read(str(error), product.options))]) from error
    return spec.with_options(known), plan


def _read(message: str, options: Mapping[str, object]) -> tuple[tuple[str, ...], Problem]:
    """Take a generator's message apart: `found; allowed: what; do: what`, as far as it has these parts.

    Its place is the option that it names, where that is written.
    """
    rest, _, remedy = message.partition("; do: ")
    found, _, allowed = rest.partition("; allowed: ")
    problem = Problem(found.removeprefix("product.generator: "), allowed or "what the generator can do", remedy)
    if problem.found != found:
        return ("product", "generator"), problem
    named = [word.strip(":") for text in (found, allowed) for word in text.split()]
    option = next((word for word in named if word in options), None)
    if option is not None:
        return (*_AT, option), problem
    return ("charge", "epsilon") if found.startswith(TOO_SMALL) else ("product",), problem
