"""Counts by place, as a release of them is planned: every table at each of its levels, with its share."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final

from contracts.contract.contract import Contract
from contracts.errors import SpecRefused
from contracts.reading.scalars import Problem, spelled
from contracts.release.spec import ReleaseSpec
from contracts.release.spine.product import spine_product
from contracts.release.spine.rules import places_of, places_path
from privacy.accounting.amounts import AmountRefused
from privacy.table_plans.spine_plan import SpinePlan, plan_spine
from tasks.products.product_kind import Needs, Payers

if TYPE_CHECKING:
    from tasks.records.outputs import Plan

_MEGABYTE: Final = 2**20
_BYTES_PER_NUMBER: Final = 24
"""In memory, of a number that is drawn, with what is made of it; on disk a fourth of it."""
_BYTES_PER_SMALLEST: Final = 24
"""In memory, of a cell of a smallest place beside that: its exact count, its estimate and its count."""


class SpinePlanning:
    """Counts by place."""

    def plan(self, spec: ReleaseSpec, contract: Contract, payers: Payers | None) -> tuple[ReleaseSpec, SpinePlan]:
        """Plan the draws, and pin the digest of the places in the spec."""
        product, charge = spine_product(spec.product), spec.charge
        tree = places_of(places_path(spec), product, contract)
        pinned = product.model_copy(update={"spine": product.spine.model_copy(update={"sha256": tree.sha256})})
        terms: dict[str, Any] = {"epsilon": charge.epsilon, "delta": charge.delta, "tree": tree}
        try:
            plan = plan_spine(pinned, contract, sizes=tree.level_sizes, **terms)
        except AmountRefused as error:
            found = f"{spelled(charge.epsilon)} for {len(product.draws)} draws"
            remedy = "raise epsilon, or measure fewer tables at fewer levels"
            problem = Problem(found, "a rho of at least 1e-12 for each draw", remedy)
            raise SpecRefused([spec.finding(("charge", "epsilon"), problem)]) from error
        return spec.model_copy(update={"product": pinned}), plan

    def planned_again(
        self, spec: ReleaseSpec, contract: Contract, plan: Plan, noise_epsilon: int | None
    ) -> tuple[ReleaseSpec, Plan]:
        """Return the plan as it is."""
        return spec, plan

    def needs(self, plan: SpinePlan) -> Needs:
        """Memory and disk of all numbers."""
        smallest = prod((max(plan.sizes.values()), *plan.shape))
        megabytes = (plan.cells * _BYTES_PER_NUMBER + smallest * _BYTES_PER_SMALLEST) / _MEGABYTE
        return Needs(megabytes, megabytes / 4, ("product", "tables"))

    def adapted_options(self, spec: ReleaseSpec, rows: int) -> tuple[dict[str, Any], list[str]] | None:
        """Counts by place have no options."""
        return None
