"""Noisy counts of groups at their levels, as they are published: a tidy table each, a row a group and cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from contracts.message import message
from privacy.grant.queries.level_counts import LevelMeasurement
from tasks.records.draws.count_form import NOISY, BareCountForm, DrawnFields
from tasks.records.facts import RunFacts
from tasks.records.files.tidy_tables import Tidy, WrittenFile
from tasks.records.model.statement import Count, Hash
from tasks.records.model.version_statements import FittedDraw
from tasks.records.outputs import adaptive_made


class LevelCountDraw(FittedDraw):
    """Noisy counts of groups at their levels, in a file of their own."""

    kind: Literal["level_counts"]
    grouped_by: Count
    levels: Hash
    chosen: Hash


class LevelCountForm(BareCountForm[LevelMeasurement, LevelCountDraw]):
    """How noisy counts of groups at their levels are stated, written and told."""

    statement = LevelCountDraw
    summary = "Noisy counts of groups at their levels of detail, as they were drawn."
    cells = "one a group and cell of its level"
    noise_on = message("counts of groups at their levels")

    def stem(self, key: str) -> str:
        """Name the file of a draw after its table."""
        return f"{key.partition(':')[2]}.levels"

    def named(self, released: LevelMeasurement) -> dict[str, Any]:
        """Return nothing: a table has one such draw."""
        return {}

    def write(
        self, drawn: Sequence[LevelMeasurement], facts: RunFacts, folder: Path, *, marks: Mapping[str, str]
    ) -> Iterator[WrittenFile]:
        """Write each; all numbers have one noise, so that the count alone is written."""
        tables = {table.plan.counts.key: table for table in adaptive_made(facts.fit[1]).tables}
        for each in drawn:
            table = tables[each.key]
            cells = table.plan.cells
            tidy = Tidy(cells, cells.clique, {NOISY: each.values}, codes=cells.rows(table.chosen))
            yield replace(tidy.write(folder, self.path(each.key), draw=each.key, marks=marks), form="dense")

    def stated(self, released: LevelMeasurement, key: str) -> dict[str, Any]:
        """Return columns, how many numbers there are, and which cells they are of."""
        told = {"grouped_by": released.grouped_by, "levels": released.levels, "chosen": released.chosen}
        return {"clique": list(released.clique), "shape": list(released.values.shape), **told}

    def measurement(self, draw: LevelCountDraw, numbers: DrawnFields) -> LevelMeasurement:
        """Return what was drawn."""
        return LevelMeasurement(*numbers, draw.clique, draw.grouped_by, draw.levels, draw.chosen)
