"""Noisy counts of groups at their levels, as they are published: a tidy table each, a row a group and cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import numpy as np

from contracts.message import message
from privacy.accounting.events import event_from_json
from privacy.grant.queries.level_counts import LevelMeasurement
from privacy.marginals.uncertainty import half_width, variance
from privacy.table_plans.adaptive_plan import CONFIDENCE
from tasks.records.draws.draw_form import DrawForm
from tasks.records.facts import RunFacts
from tasks.records.files.tidy_tables import MEASUREMENTS, Tidy, WrittenFile
from tasks.records.groups.account import noise_words
from tasks.records.model.statement import Count, Hash
from tasks.records.model.version_statements import FittedDraw
from tasks.records.outputs import adaptive_made

NOISY: Final = "noisy"


class LevelCountDraw(FittedDraw):
    """Noisy counts of groups at their levels, in a file of their own."""

    kind: Literal["level_counts"]
    grouped_by: Count
    levels: Hash
    chosen: Hash


class LevelCountForm(DrawForm[LevelMeasurement, LevelCountDraw]):
    """How noisy counts of groups at their levels are stated, written and told."""

    statement = LevelCountDraw
    role = "measurements"
    summary = "Noisy counts of groups at their levels of detail, as they were drawn."
    cells = "one a group and cell of its level"
    columns: ClassVar[Mapping[str, str]] = {NOISY: "Noisy count, as it was drawn; its variance stands in the record."}
    noise_on = message("counts of groups at their levels")

    def files(self, drawn: Sequence[LevelMeasurement], numbers: Mapping[str, int]) -> dict[str, str]:
        """Name the file of each."""
        return {each.key: noisy_file(each.key) for each in drawn}

    def write(
        self, drawn: Sequence[LevelMeasurement], facts: RunFacts, folder: Path, *, marks: Mapping[str, str]
    ) -> Iterator[WrittenFile]:
        """Write each; all numbers have one noise, so that the count alone is written."""
        tables = {table.plan.counts.key: table for table in adaptive_made(facts.fit[1]).tables}
        for each in drawn:
            table = tables[each.key]
            cells = table.plan.cells
            tidy = Tidy(cells, cells.clique, {NOISY: each.values}, codes=cells.rows(table.chosen))
            yield replace(tidy.write(folder, noisy_file(each.key), draw=each.key, marks=marks), form="dense")

    def stated(self, released: LevelMeasurement, key: str) -> dict[str, Any]:
        """Return columns, how many numbers there are, and which cells they are of."""
        told = {"grouped_by": released.grouped_by, "levels": released.levels, "chosen": released.chosen}
        return {"clique": list(released.clique), "shape": list(released.values.shape), **told}

    def described(self, released: LevelMeasurement, key: str) -> dict[str, Any]:
        """Describe the draw: its sensitivity, its noise."""
        moves = released.event.moves
        return {
            "what": message("counts of groups at their levels"),
            "columns": list(released.clique),
            "cells": released.values.size,
            "l1_sensitivity": sum(map(abs, moves)),
            "l2_sensitivity_squared": sum(move * move for move in moves),
            "noise": noise_words(released.event),
            "variance": released.variance,
            "half_width_95": half_width(released.event, CONFIDENCE),
        }

    def measured(self, released: LevelMeasurement) -> dict[str, Any]:
        """Describe what is published."""
        return {
            "columns": " × ".join(released.clique),
            "cells": released.values.size,
            "deviation": f"{released.variance**0.5:.6g}",
        }

    def sensitivities(self, drawn: Sequence[LevelMeasurement]) -> list[dict[str, Any]]:
        """Give the norms of the worst neighbour's change."""
        moves = sorted({each.event.moves for each in drawn})
        return [{"l1": sum(map(abs, move)), "l2_squared": sum(part * part for part in move)} for move in moves]

    def published(self, draws: Sequence[LevelCountDraw]) -> tuple[LevelMeasurement, ...]:
        """Return the measurements without their values, of which only the shape is read."""
        return tuple(map(_measurement, draws))


def noisy_file(key: str) -> str:
    """Name the file of a draw after its table."""
    return f"{MEASUREMENTS}/{key.partition(':')[2]}.levels.parquet"


def _measurement(draw: LevelCountDraw) -> LevelMeasurement:
    event: Any = event_from_json(draw.event)
    values = np.broadcast_to(np.int64(0), draw.shape)  # only its shape is read
    of, entered = (draw.grouped_by, draw.levels, draw.chosen), (draw.number, draw.sha256)
    return LevelMeasurement(draw.key, draw.clique, *of, values, event, variance(event), *entered)
