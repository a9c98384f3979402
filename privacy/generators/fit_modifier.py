"""What modifiers of synthetic rows ask of a fit; the table is in `contracts.release.synthetic_modifiers`."""

from __future__ import annotations

from typing import Any, ClassVar

from contracts.contract.contract import Contract
from contracts.release.synthetic_modifiers import modifier_parts, named_parts
from privacy.generators.generator import Fitter, SynthesisTask


class FitModifier:
    """What a modifier asks of a fit: a change of the task, a stage around the generator, or both.

    `product` is a `SyntheticProduct` that asks for the modifier.
    """

    draws: ClassVar[bool] = True
    """Whether its stage changes what is drawn; post-processing does not."""

    def terms(self, product: Any, contract: Contract) -> dict[str, Any]:
        """Return the fields of the task that it sets, for a release's product and contract."""
        return {}

    def stage(self, generator: Fitter[Any, Any, Any], task: SynthesisTask) -> Fitter[Any, Any, Any]:
        """Return the generator with what is drawn before it, or made after it."""
        return generator


def modifier_terms(product: Any, contract: Contract) -> dict[str, Any]:
    """Return the fields of the task that the modifiers of a release's product set."""
    terms: dict[str, Any] = {}
    for _, modifier in modifier_parts(product, "fit"):
        terms |= modifier.terms(product, contract)
    return terms


def whole_fitter(
    generator: Fitter[Any, Any, Any], task: SynthesisTask, *, draws_only: bool = False
) -> Fitter[Any, Any, Any]:
    """Return the generator with the stages of all modifiers that the task has, the first of the table next to it.

    Args:
        generator: fits the model.
        task: what it is asked for.
        draws_only: whether stages of post-processing alone are left out.
    """
    for _, modifier in named_parts(task.modifiers, "fit"):
        generator = modifier.stage(generator, task) if modifier.draws or not draws_only else generator
    return generator
