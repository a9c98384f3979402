"""Synthetic rows, as a release of them is planned: their generator plans."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from contracts.contract.contract import Contract
from contracts.release.spec import ReleaseSpec
from privacy.generators.calibration import FittedPlan, generator, plan_synthetic
from privacy.generators.generator import Generator, SynthesisTask
from tasks.products.fit import FittedPlanning


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
