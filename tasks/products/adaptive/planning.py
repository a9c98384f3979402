"""Adaptive tables, as a release of them is planned: two draws a table, and the thresholds between its levels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from contracts.contract.contract import Contract
from contracts.errors import SpecRefused
from contracts.reading.scalars import Problem, spelled
from contracts.release.adaptive.product import adaptive_product
from contracts.release.spec import ReleaseSpec
from privacy.accounting.amounts import AmountRefused
from privacy.table_plans.adaptive_plan import AdaptivePlan, plan_adaptive
from tasks.products.product_kind import Needs, Payers

if TYPE_CHECKING:
    from tasks.records.outputs import Plan

_MEGABYTE: Final = 2**20
_BYTES_PER_NUMBER: Final = 160
"""In memory, of a number where every group gets the most detail: its exact count, what is drawn and made of it."""


class AdaptivePlanning:
    """Adaptive tables."""

    def plan(self, spec: ReleaseSpec, contract: Contract, payers: Payers | None) -> tuple[ReleaseSpec, AdaptivePlan]:
        """Plan the draws."""
        product, charge = adaptive_product(spec.product), spec.charge
        try:
            return spec, plan_adaptive(product, contract, epsilon=charge.epsilon, delta=charge.delta)
        except AmountRefused as error:
            found = f"{spelled(charge.epsilon)} for {2 * len(product.tables)} draws"
            remedy = "raise epsilon, or publish fewer tables"
            problem = Problem(found, "a loss of at least 1e-12 for each draw", remedy)
            raise SpecRefused([spec.finding(("charge", "epsilon"), problem)]) from error

    def planned_again(
        self, spec: ReleaseSpec, contract: Contract, plan: Plan, noise_epsilon: int | None
    ) -> tuple[ReleaseSpec, Plan]:
        """Return the plan as it is."""
        return spec, plan

    def needs(self, plan: AdaptivePlan) -> Needs:
        """Memory and disk where every group gets the most detail: nobody knows beforehand."""
        megabytes = plan.most_cells * _BYTES_PER_NUMBER / _MEGABYTE
        return Needs(megabytes, megabytes / 4, ("product", "tables"))

    def adapted_options(self, spec: ReleaseSpec, rows: int) -> tuple[dict[str, Any], list[str]] | None:
        """Adaptive tables have no options."""
        return None
