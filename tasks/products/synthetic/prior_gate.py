"""The gate of a prior: its rows are not the confidential ones, in whatever order or format they lie.

A copy of the source, byte by byte, is refused before anything is read (`flows.request`). The same rows sorted, or
written as another file, have other bytes and the same counts.
"""

from __future__ import annotations

from typing import Final

from contracts.contract.contract import Contract
from contracts.errors import Finding, GateBroken
from privacy.generators.generator import SynthesisTask
from privacy.generators.release_plan import FittedPlan
from privacy.private_table import PrivateTable
from privacy.snapshots.snapshot_counts import SnapshotCounts
from tasks.products.synthetic.modifier_gate import ModifierGate

PRIOR_GATE: Final = "prior"
SHOWN: Final = 12
"""Columns that a refusal names."""


class PriorGate(ModifierGate):
    """The rows of a prior are those of other people."""

    def check(self, contract: Contract, plan: FittedPlan[SynthesisTask], table: PrivateTable) -> None:
        """Break the gate of a prior that has the counts of the rows, in all of its marginals."""
        prior = plan.task.prior
        if prior is None or not SnapshotCounts(table, contract).agrees_with(prior.counts):
            return
        names = [name for clique in prior.counts if len(clique) == 1 for name in clique]
        columns = ", ".join(names[:SHOWN]) + ", …" * (len(names) > SHOWN)
        found = f"{prior.file}, whose {prior.rows:,} rows have all the counts of the confidential rows, of {columns}"
        remedy = "name rows of other people, an older census or made-up ones; or drop `prior:`"
        raise GateBroken([Finding("product.prior", PRIOR_GATE, found, "rows that anybody may see", remedy)])
