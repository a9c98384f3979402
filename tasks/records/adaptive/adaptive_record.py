"""What a record says of adaptive tables: the statement, the run as far as it states it, the section for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, ClassVar

from contracts.contract.contract import Contract
from contracts.message import message
from contracts.release.adaptive.product import LEVEL
from privacy.generators.generator import Fitted
from privacy.table_plans.adaptive_plan import plan_adaptive
from tasks.records.adaptive.adaptive_fields import CHANGED
from tasks.records.adaptive.adaptive_statement import AdaptiveRecord, stated_tables
from tasks.records.draws.drawn import drawn_files, published_draws, stated_draws
from tasks.records.groups.field import FieldGroup, Run
from tasks.records.model.record_kinds import COUNT_COLUMNS, DataColumn, ProductWords, ShownFile
from tasks.records.outputs import adaptive_made
from tasks.records.unpublished import Published
from tasks.records.values import Values


class AdaptiveRecordPart:
    """The record of adaptive tables."""

    model: ClassVar = AdaptiveRecord
    notice: ClassVar[str] = message("noisy counts of groups by these items; no record of a person")
    words: ClassVar = ProductWords(
        label="counts of groups in adaptive detail",
        registered="Summary statistics",
        made="Noisy counts of groups",
        remark="Larger groups have more detail. Counts of a group add up, and have 95 % intervals.",
        data="Counts of groups, each at a level of detail of its own, with 95 % intervals.",
        value="Label of the cell; (all) where the level of the row adds the column up.",
    )

    def groups(self, groups: tuple[FieldGroup, ...]) -> tuple[FieldGroup, ...]:
        """Return the sections, some of them filled in another way."""
        changed = {group.name: group for group in CHANGED}
        return tuple(changed.get(group.name, group) for group in groups)

    def columns(self, run: Run) -> set[str]:
        """Name the columns that are counted by."""
        return set(run.facts.spec.product.names(run.facts.contract))

    def stated(self, run: Run) -> dict[str, Any]:
        """Return what was drawn, and the tables that follow from it."""
        plan, made = run.facts.fit
        return {"draws": stated_draws(run.facts), "tables": stated_tables(plan, adaptive_made(made).groups)}

    def published(
        self, record: AdaptiveRecord, contract: Contract, product: Any, accounts: Any, reserved: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return plan and draws; a plan whose events are not those that were charged is not the run's."""
        replay = record.replay
        terms: dict[str, Any] = {"epsilon": Decimal(replay.charge.epsilon), "delta": Decimal(replay.charge.delta)}
        plan: Any = plan_adaptive(product, contract, **terms)
        if [event.to_json() for event in plan.events] != list(reserved["events"]):
            plan = Published()
        groups = tuple(tuple(level.groups for level in table.levels) for table in replay.tables)
        made = Published(fitted=Fitted(Published(), published_draws(replay.draws), ()), groups=groups)
        known = {"fit": (plan, made), "made": made, "plan": plan}
        return {**known, "statistics": None, "synthesis": None, "classifier": None, "tables": ()}

    def files(self, record: AdaptiveRecord) -> Iterator[tuple[str, ShownFile]]:
        """Yield the tables, and the files of what was drawn."""
        for table in record.replay.tables:
            yield table.data, (table.draws[1], "data", "dense")
        yield from drawn_files(record.replay.draws)

    def data_columns(self, values: Values, path: str) -> Mapping[str, DataColumn]:
        """Return the level, and counts with their intervals."""
        level = DataColumn("The level of detail of the row: total, or the columns that it is counted by.")
        return {LEVEL: level, **COUNT_COLUMNS}
