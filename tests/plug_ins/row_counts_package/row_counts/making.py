"""Noisy counts of rows, as a release of them is checked, planned, drawn, written and shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

from rich.console import Console

from contracts.contract.contract import Contract
from contracts.errors import Finding
from contracts.reading.scalars import Problem, nearest, word_list
from contracts.release.spec import ReleaseSpec
from privacy.accounting.claim import release_claim
from privacy.accounting.events import PrivacyEvent
from privacy.grant.queries.marginal import MarginalQuery
from privacy.marginals.count_noise import half_width
from privacy.marginals.sensitivity import LaplaceNoise, noise_event
from privacy.snapshots.snapshot import SnapshotCounts
from tasks.products.product_kind import Making, MakingStep, Needs, Payers
from tasks.records.facts import Outputs, RunFacts
from tasks.records.files.tidy_tables import WrittenFile, write_measurement
from tasks.records.outputs import Plan


def findings(spec: ReleaseSpec, contract: Contract) -> list[Finding]:
    """Refuse a column that the contract lacks."""
    names, by = [column.name for column in contract.columns], spec.product.by
    if by in names:
        return []
    return [spec.finding(("product", "by"), Problem(f"the column {by!r}", word_list(names), nearest(by, names)))]


@dataclass(frozen=True)
class RowCountsPlan:
    """The one draw."""

    column: str
    noise: LaplaceNoise
    events: tuple[PrivacyEvent, ...]
    epsilon: int
    delta: int = 0
    noise_epsilon: int | None = None
    public_total: int | None = None


def _drawn(making: Making, _before: None) -> Outputs:
    plan: RowCountsPlan = making.plan
    handle = SnapshotCounts(making.table, making.contract).marginal((plan.column,))
    return Outputs((making.grant.draw(MarginalQuery(handle, plan.noise), key="rows"),))


class RowCountsKind:
    """Planned, drawn and written."""

    steps: ClassVar[tuple[MakingStep, ...]] = (MakingStep("count", _drawn),)

    def plan(self, spec: ReleaseSpec, contract: Contract, payers: Payers | None) -> tuple[ReleaseSpec, RowCountsPlan]:
        """Plan one marginal with Laplace noise; a millionth of the charge is room for rounding up."""
        epsilon: Decimal = spec.charge.epsilon
        noise = LaplaceNoise(Fraction(epsilon) * Fraction(999_999, 1_000_000))
        rows_per_unit = contract.unit.max_rows_per_unit
        events = (noise_event(noise, adjacency=contract.adjacency, rows_per_unit=rows_per_unit),)
        return spec, RowCountsPlan(spec.product.by, noise, events, release_claim(events, 0).epsilon)

    def planned_again(
        self, spec: ReleaseSpec, contract: Contract, plan: Plan, noise_epsilon: int | None
    ) -> tuple[ReleaseSpec, Plan]:
        return spec, plan

    def needs(self, plan: RowCountsPlan) -> Needs:
        return Needs(1.0, 1.0, ("product",))

    def write_files(self, facts: RunFacts, folder: Path, *, marks: Mapping[str, str]) -> tuple[WrittenFile, ...]:
        (drawn,) = facts.measurements
        width = half_width(drawn.event, 0.95)
        return (write_measurement(drawn, "rows", width, facts.contract, folder, marks=marks),)

    def adapted_options(self, spec: ReleaseSpec, rows: int) -> tuple[dict[str, Any], list[str]] | None:
        """It has no options."""
        return None


class RowCountsView:
    """What the console shows of it."""

    def plan_object(self, spec: ReleaseSpec, plan: RowCountsPlan) -> dict[str, Any]:
        return {"column": plan.column, "megabytes": 450, "seconds": 6.0}

    def noise_words(self, payload: dict[str, Any]) -> str:
        return " (laplace noise)"

    def plan_facts(self, payload: dict[str, Any]) -> list[tuple[str, str]]:
        return [("counts", f"of rows by {payload['column']}")]

    def print_draws(self, console: Console, payload: dict[str, Any]) -> None:
        console.print(f"1 draw: {payload['column']}")
