"""Synthetic rows, as a release of them is planned: their generator plans."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from contracts.contract.contract import Contract
from contracts.release.spec import ReleaseSpec
from privacy.generators.generator import Generator, SynthesisTask
from privacy.generators.registry import generator
from privacy.generators.release_plan import FittedPlan, plan_synthetic
from tasks.products.fitted_planning import FittedPlanning


class SyntheticPlanning(FittedPlanning):
    """Synthetic rows."""

    def fitter(self, spec: ReleaseSpec) -> Generator[Any]:
        """Return the generator."""
        return generator(spec.synthetic_product.generator)

    def fit_plan(
        self, spec: ReleaseSpec, contract: Contract, options: BaseModel, **terms: Any
    ) -> FittedPlan[SynthesisTask]:
        """Let the generator plan."""
        return plan_synthetic(spec.synthetic_product, contract, options, **terms)
