"""What a record says of counts by place: the statement, the run as far as it states it, the section for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, ClassVar

from contracts.contract.contract import Contract
from contracts.message import message
from contracts.release.spine.place_faults import NEEDED
from contracts.release.spine.product import INVARIANTS, PLACES, SpineProduct, spine_product
from privacy.generators.generator import Fitted
from privacy.table_plans.spine_plan import plan_spine
from tasks.records.draws.drawn import drawn_files, published_draws, stated_draws
from tasks.records.files.tidy_tables import DATA
from tasks.records.groups.field import FieldGroup, Run, with_sections
from tasks.records.model.record_kinds import COUNT_COLUMNS, DataColumn, ProductWords, ShownFile
from tasks.records.spine.spine_fields import CHANGED
from tasks.records.spine.spine_files import PLACES_FILE, TOTAL, invariant_files, places_files
from tasks.records.spine.spine_statement import SpineRecord, stated_levels, stated_tables
from tasks.records.unpublished import Published
from tasks.records.values import Values


class SpineRecordPart:
    """The record of counts by place."""

    model: ClassVar = SpineRecord
    notice: ClassVar[str] = message("noisy counts by place and these items; no record of a person")
    words: ClassVar = ProductWords(
        label="counts by place",
        registered="Summary statistics",
        made="Noisy counts by place",
        remark="Counts of all levels add up, and have 95 % intervals; record.html explains them.",
        data="Counts by place, with 95 % intervals.",
    )

    def groups(self, groups: tuple[FieldGroup, ...]) -> tuple[FieldGroup, ...]:
        """Return the sections, some of them filled in another way."""
        return with_sections(groups, CHANGED)

    def columns(self, run: Run) -> set[str]:
        """Name the columns that are counted by."""
        return set(run.facts.spec.product.names(run.facts.contract))

    def stated(self, run: Run) -> dict[str, Any]:
        """Return the levels, what was drawn, and the tables that follow from it."""
        plan, product = run.facts.fit[0], spine_product(run.facts.spec.product)
        return {
            "draws": stated_draws(run.facts),
            "levels": stated_levels(plan, product.invariants),
            "places": PLACES_FILE,
            "tables": stated_tables(plan),
        }

    def published(
        self, record: SpineRecord, contract: Contract, product: Any, accounts: Any, reserved: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return plan and draws; a plan whose events are not those that were charged is not the run's."""
        replay = record.replay
        terms: dict[str, Any] = {"epsilon": Decimal(replay.charge.epsilon), "delta": Decimal(replay.charge.delta)}
        plan: Any = plan_spine(product, contract, sizes=replay.sizes, **terms)
        if [event.to_json() for event in plan.events] != list(reserved["events"]):
            plan = Published()
        made = Published(fitted=Fitted(Published(), published_draws(replay.draws), ()))
        known = {"fit": (plan, made), "made": made, "plan": plan}
        return {**known, "statistics": None, "synthesis": None, "classifier": None, "tables": ()}

    def files(self, record: SpineRecord) -> Iterator[tuple[str, ShownFile]]:
        """Yield the places, the tables, and the files of what was drawn."""
        product = SpineProduct.model_validate(record.replay.product)
        for path in (*places_files(1 + len(product.other_spines)), *invariant_files(product).values()):
            yield path, ("", "data", "dense")
        for table in record.replay.tables:
            yield table.data, (table.draws[0], "data", "dense")
        yield from drawn_files(record.replay.draws)

    def data_columns(self, values: Values, path: str) -> Mapping[str, DataColumn]:
        """Return counts with their intervals; of the places their links and public totals."""
        if path.startswith(f"{DATA}/{PLACES}."):
            means = ("A place.", "The place that it is part of; itself where a level is skipped.", "Its level.")
            links = {name: DataColumn(text) for name, text in zip(NEEDED, means, strict=True)}
            return {**links, TOTAL: DataColumn("Its public total, where its level has such.")}
        return {TOTAL: DataColumn("Its public total, published exactly.")} if _is_exact(path) else COUNT_COLUMNS


def _is_exact(path: str) -> bool:
    """Say whether a file is one of public counts by columns."""
    return path.startswith(f"{DATA}/{INVARIANTS}.")
