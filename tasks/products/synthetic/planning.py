"""Synthetic rows, as a release of them is planned: their generator plans."""

from __future__ import annotations

from typing import Any, Protocol

from pydantic import BaseModel

from contracts.contract.contract import Contract
from contracts.release.spec import ReleaseSpec
from contracts.release.synthetic_modifiers import modifier_parts
from privacy.generators.generator import Generator, SynthesisTask
from privacy.generators.registry import generator
from privacy.generators.release_plan import FittedPlan, plan_synthetic
from tasks.products.fitted_planning import FittedPlanning


class ModifierInput(Protocol):
    """What a modifier reads before a release is planned; all of it is public."""

    def read(self, spec: ReleaseSpec, contract: Contract) -> tuple[ReleaseSpec, Any]:
        """Return the spec with digests of what was read, and what was read.

        Raises:
            SpecRefused: it cannot be used; nothing is charged.
        """
        ...


class SyntheticPlanning(FittedPlanning):
    """Synthetic rows.

    A plan with the least noise that the accounts allow plans twice; what modifiers read is read once.
    """

    _read: tuple[ReleaseSpec, dict[str, Any]] | None = None

    def fitter(self, spec: ReleaseSpec) -> Generator[Any]:
        """Return the generator."""
        return generator(spec.synthetic_product.generator)

    def _planned(
        self, spec: ReleaseSpec, contract: Contract, **noise: Any
    ) -> tuple[ReleaseSpec, FittedPlan[SynthesisTask]]:
        """Read what modifiers read, pin its digests in the spec, and plan."""
        if self._read is None:
            pinned, read = spec, dict[str, Any]()
            for name, modifier in modifier_parts(spec.synthetic_product, "input"):
                pinned, read[name] = modifier.read(pinned, contract)
            self._read = pinned, read
        pinned, read = self._read
        return super()._planned(pinned if read else spec, contract, read=read, **noise)

    def fit_plan(
        self, spec: ReleaseSpec, contract: Contract, options: BaseModel, **terms: Any
    ) -> FittedPlan[SynthesisTask]:
        """Let the generator plan."""
        return plan_synthetic(spec.synthetic_product, contract, options, **terms)
