"""Synthetic rows, as a release of them is planned: their generator plans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from contracts.contract.contract import Contract
from contracts.release.spec import ReleaseSpec
from privacy.generators.generator import Generator, SynthesisTask
from privacy.generators.registry import generator
from privacy.generators.release_plan import FittedPlan, plan_synthetic
from tasks.products.fitted_planning import FittedPlanning

if TYPE_CHECKING:
    from privacy.marginals.public_prior import PublicPrior


class SyntheticPlanning(FittedPlanning):
    """Synthetic rows.

    A plan with the least noise that the accounts allow plans twice; the prior is read once.
    """

    _read: tuple[ReleaseSpec, PublicPrior | None] | None = None

    def fitter(self, spec: ReleaseSpec) -> Generator[Any]:
        """Return the generator."""
        return generator(spec.synthetic_product.generator)

    def _planned(
        self, spec: ReleaseSpec, contract: Contract, **noise: Any
    ) -> tuple[ReleaseSpec, FittedPlan[SynthesisTask]]:
        """Read the prior, if there is one, pin its digests in the spec, and plan."""
        if spec.synthetic_product.prior is None:
            return super()._planned(spec, contract, **noise)
        if self._read is None:
            from tasks.products.synthetic.prior_rows import read_prior  # most products have none

            self._read = read_prior(spec, contract)
        pinned, prior = self._read
        return super()._planned(pinned, contract, prior=prior, **noise)

    def fit_plan(
        self, spec: ReleaseSpec, contract: Contract, options: BaseModel, **terms: Any
    ) -> FittedPlan[SynthesisTask]:
        """Let the generator plan."""
        return plan_synthetic(spec.synthetic_product, contract, options, **terms)
