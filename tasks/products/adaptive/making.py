"""Adaptive tables: noisy totals of groups choose levels, counts are measured at them, both become whole counts."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from privacy.generators.generator import Fitted
from privacy.grant.measurement import Measurement
from privacy.grant.queries.level_counts import LevelCountQuery, LevelMeasurement
from privacy.grant.queries.marginal import MarginalQuery
from privacy.snapshots.snapshot_counts import SnapshotCounts
from privacy.table_plans.adaptive_counts import detail_counts
from privacy.table_plans.adaptive_plan import AdaptivePlan
from tasks.products.product_kind import Making, MakingStep
from tasks.records.adaptive.adaptive_files import write_table
from tasks.records.draws.drawn import write_drawn
from tasks.records.facts import Outputs, RunFacts
from tasks.records.files.row_group_parts import write_parts
from tasks.records.files.tidy_tables import WrittenFile
from tasks.records.outputs import ReleasedAdaptive, adaptive_made
from tasks.storage.progress import step

logger = logging.getLogger(__name__)


def _measured(making: Making, _before: None) -> Fitted[None]:
    """Draw, or replay, the totals of each table's groups, then their counts at the levels that these choose."""
    plan: AdaptivePlan = making.plan
    held = max(table.cells.groups * table.cells.finest for table in plan.tables) * 16
    counts = SnapshotCounts(making.table, making.contract, remembered_bytes=held)
    drawn: list[Measurement | LevelMeasurement] = []
    with step("measure") as bar:
        for table in plan.tables:
            # MEASURE: totals of groups.
            query = MarginalQuery(counts.marginal(table.totals.clique), table.totals.noise)
            totals = making.grant.draw(query, key=table.totals.key)
            # SELECT: post-processing of what was drawn; the cost of the next draw does not depend on it.
            chosen = table.chosen(totals.values)
            # MEASURE: counts at the chosen levels.
            handle, by = counts.marginal(table.counts.clique), len(table.totals.clique)
            levels = LevelCountQuery(handle, by, table.sizes, table.cell_of, chosen, table.counts.noise)
            drawn += [totals, making.grant.draw(levels, key=table.counts.key)]
            bar.advance(len(drawn) / len(plan.draws))
    logger.info("measured %d draws of adaptive tables", len(drawn))
    return Fitted(None, tuple(drawn), ())


def _refined(making: Making, fitted: Fitted[None]) -> Outputs:
    """Make whole counts of both draws of each table."""
    plan: AdaptivePlan = making.plan
    drawn: Any = fitted.draws
    noisy = {each.key: each.values for each in drawn}
    with step("refine") as bar:
        made = [detail_counts(table, noisy[table.totals.key], noisy[table.counts.key]) for table in plan.tables]
        bar.advance(1.0)
    return Outputs(made=ReleasedAdaptive(fitted, tuple(made)))


class AdaptiveMaking:
    """Adaptive tables."""

    steps: ClassVar[tuple[MakingStep, ...]] = (MakingStep("measure", _measured), MakingStep("refine", _refined))

    def write_files(self, facts: RunFacts, folder: Path, *, marks: Mapping[str, str]) -> tuple[WrittenFile, ...]:
        """Write the tables, then what was drawn."""
        made, publish = adaptive_made(facts.fit[1]), facts.spec.publish
        files: list[WrittenFile] = []
        for table in made.tables:
            files += write_table(table, folder, marks=marks, publish=publish)
            if "parts" in publish.formats:
                files += write_parts(folder, next(file for file in files[::-1] if file.path.endswith(".parquet")))
        return (*files, *write_drawn(made.fitted, facts, folder, marks=marks))
