"""Statistics, as a release of them is planned: what is drawn for each table, with its share of the charge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from contracts.contract.contract import Contract
from contracts.domains.trees import ValueTree
from contracts.errors import SpecRefused
from contracts.reading.scalars import Problem, spelled
from contracts.release.spec import ReleaseSpec
from contracts.release.statistics import statistics_product
from privacy.accounting.amounts import AmountRefused
from privacy.accounting.key_law import CHANCES
from privacy.statistics.plan import StatisticsPlan, plan_statistics, rehearse
from tasks.products.product_kind import Needs, Payers

if TYPE_CHECKING:
    from tasks.records.outputs import Plan

_MEGABYTE: Final = 2**20
_BYTES_PER_NUMBER: Final = 120
"""In memory, of a number that is drawn, with what is published of it; on disk a fifth of it."""
_BYTES_PER_LEAF: Final = 1000
"""In memory, of the way to each boundary of the largest tree, for each of a few quantiles."""


class StatisticsPlanning:
    """Statistics."""

    def plan(
        self, spec: ReleaseSpec, contract: Contract, payers: Payers | None
    ) -> tuple[ReleaseSpec, StatisticsPlan]:
        """Plan the draws; what the accounts have left decides nothing of them."""
        charge, product = spec.charge, statistics_product(spec.product)
        try:
            plan = plan_statistics(product, contract, epsilon=charge.epsilon, delta=charge.delta)
        except AmountRefused as error:
            if error.what == CHANCES:
                remedy = "raise epsilon or delta, ask for fewer tables and columns, or bound the rows of a unit lower"
                problem = Problem(f"a selection of keys whose {error.what} are {error.found}", error.allowed, remedy)
                raise SpecRefused([spec.finding(("charge", "epsilon"), problem)]) from error
            draws = sum(max(1, len(table.columns)) for table in product.tables)
            found = f"{spelled(charge.epsilon)} for {draws} draw{'s' if draws > 1 else ''}"
            remedy = "raise epsilon, take a larger `step:`, or ask for fewer tables and columns"
            problem = Problem(
                found, "at least 1e-12 for each draw, and 1e-15 for each step that one unit moves it", remedy
            )
            raise SpecRefused([spec.finding(("charge", "epsilon"), problem)]) from error
        rehearse(product, plan)
        return spec, plan

    def planned_again(
        self, spec: ReleaseSpec, contract: Contract, plan: Plan, noise_epsilon: int | None
    ) -> tuple[ReleaseSpec, Plan]:
        """Return the plan as it is."""
        return spec, plan

    def needs(self, plan: StatisticsPlan) -> Needs:
        """Memory and disk of all numbers."""
        leaves = max((draw.addends.leaves for draw in plan.draws if isinstance(draw.addends, ValueTree)), default=0)
        megabytes = (plan.numbers * _BYTES_PER_NUMBER + leaves * _BYTES_PER_LEAF) / _MEGABYTE
        return Needs(megabytes, megabytes / 5, ("product", "tables"))

    def adapted_options(self, spec: ReleaseSpec, rows: int) -> tuple[dict[str, Any], list[str]] | None:
        """Statistics have no options."""
        return None
