"""What modifiers of synthetic rows ask of a fit; the table is in `contracts.release.synthetic_modifiers`."""

from __future__ import annotations

from collections.abc import Mapping
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

    def check_generator(self, generator: Fitter[Any, Any, Any], product: Any) -> None:
        """Refuse a generator that the modifier does not go with.

        Raises:
            CannotGenerate: with those that it goes with.
        """

    def terms(self, product: Any, contract: Contract, read: Any) -> dict[str, Any]:
        """Return the fields of the task that it sets.

        Args:
            product, contract: of the release.
            read: what was read for it (`input` of the table); None where nothing was.
        """
        return {}

    def stage(self, generator: Fitter[Any, Any, Any], task: SynthesisTask) -> Fitter[Any, Any, Any]:
        """Return the generator with what is drawn before it, or made after it."""
        return generator


def check_generator(generator: Fitter[Any, Any, Any], product: Any) -> None:
    """Refuse a generator that a modifier of the product does not go with.

    Raises:
        CannotGenerate: one does not; nothing is charged.
    """
    for _, modifier in modifier_parts(product, "fit"):
        modifier.check_generator(generator, product)


def modifier_terms(product: Any, contract: Contract, read: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the task that the modifiers of a product set.

    Args:
        product, contract: of the release.
        read: what was read for modifiers, by their name.
    """
    terms: dict[str, Any] = {}
    for name, modifier in modifier_parts(product, "fit"):
        terms |= modifier.terms(product, contract, read.get(name))
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
