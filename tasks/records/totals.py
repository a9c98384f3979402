"""The totals that the tables of a release add up to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from contracts.contract.contract import Contract
from contracts.release.spec import TablesProduct
from contracts.release.tables.levels import levels_of, table_cells
from contracts.release.tables.tables import tables_of
from privacy.grant.measurement import Measurement
from privacy.refine.tables import NoisySum, estimate_total, table_sum, total_kind
from privacy.table_plans.plan import TOTAL_KEY, TablesPlan, table_key
from tasks.records.outputs import DrawnTables


@dataclass(frozen=True)
class Totals:
    """The totals of a release.

    Args:
        kept: what tables with a count for every cell add up to, if they keep it (`kept_total`); None where they keep
            no total [units].
        of_sparse_tables: what sparse tables add up to: the drawn total or the declared one; None without one [units].
        estimated: the average of all sums where `kept` is that, with the variance of its noise.
    """

    kept: int | None
    of_sparse_tables: int | None
    estimated: NoisySum | None


def totals_of(
    product: TablesProduct, plan: TablesPlan, contract: Contract, measurements: Sequence[DrawnTables]
) -> Totals:
    """Return what the tables of a release must add up to.

    Args:
        product: the tables product of the spec.
        plan: the plan; gives the public total where one is declared.
        contract: gives the structural zeros.
        measurements: what the grant drew.
    Privacy: post-processing of what was drawn, or declared public.
    """
    dense = [each for each in measurements if isinstance(each, Measurement)]
    listed = next((int(each.values) for each in dense if each.key == TOTAL_KEY), plan.public_total)
    if total_kind(product, contract) != "estimated":
        return Totals(listed, listed, None)
    specified = tables_of(product, contract)
    zeros = {
        table_key(table.name, level.name): level.impossible(table.columns)
        for table in specified
        for level in levels_of(table, contract)
    }
    zeros |= {
        table_key(each.name): table_cells(each, contract).impossible(each.columns) for each in specified if each.bins
    }
    sums = [
        table_sum(each.values, zeros[each.key] if each.key in zeros else contract.impossible(each.clique), each.event)
        for each in dense
    ]
    estimated = estimate_total(sums)
    return Totals(estimated.value, listed, estimated)
