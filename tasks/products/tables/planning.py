"""Tables of counts, as a release of them is planned: every marginal, with its share of the charge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from contracts.contract.contract import Contract
from contracts.release.product import AUTO
from contracts.release.spec import ReleaseSpec
from privacy.accounting.calculus import PureCalculus
from privacy.table_plans.plan import TablesPlan, plan_tables
from tasks.products.product_kind import Needs, Payers

if TYPE_CHECKING:
    from tasks.records.outputs import Plan

_MEGABYTE = 2**20
_BYTES_PER_CELL = 50
"""In memory; on disk a fifth of it."""


class TablesPlanning:
    """Tables of counts."""

    def plan(self, spec: ReleaseSpec, contract: Contract, payers: Payers | None) -> tuple[ReleaseSpec, TablesPlan]:
        """Plan the marginals; `mechanism: auto` takes Gaussian noise only where no pure account would pay."""
        plan = plan_tables(spec, contract)
        product = spec.tables_product
        if product.mechanism == AUTO and not product.noise_is_gaussian and plan.mechanism == "gaussian" and payers:
            accounts = payers(spec, plan_tables(spec, contract, pure_account=True))
            pure = any(isinstance(state.terms.calculus, PureCalculus) for state in accounts)
            plan = plan_tables(spec, contract, pure_account=pure)
        return spec, plan

    def planned_again(
        self, spec: ReleaseSpec, contract: Contract, plan: Plan, noise_epsilon: int | None
    ) -> tuple[ReleaseSpec, Plan]:
        """Return the plan as it is: what the accounts have left decides nothing of it."""
        return spec, plan

    def needs(self, plan: TablesPlan) -> Needs:
        """Memory and disk of all cells; a sparse table's are not known beforehand."""
        sparse = any(draw.sparse is not None for draw in plan.draws)
        megabytes = 0.0 if sparse else plan.cells * _BYTES_PER_CELL / _MEGABYTE
        return Needs(megabytes, megabytes / 5, ("product",))

    def adapted_options(self, spec: ReleaseSpec, rows: int) -> tuple[dict[str, Any], list[str]] | None:
        """Tables have no options."""
        return None
