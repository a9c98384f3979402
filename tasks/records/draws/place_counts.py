"""Noisy counts by place, as they are published: each draw in a tidy table, a row a place and cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from contracts.message import message
from contracts.release.spine.place_cells import place_cells
from privacy.accounting.events import event_from_json
from privacy.grant.measurement import PlaceMeasurement
from privacy.marginals.uncertainty import variance
from privacy.table_plans.spine_plan import place_file
from tasks.records.draws.count_form import CountForm
from tasks.records.facts import RunFacts
from tasks.records.files.tidy_tables import MEASUREMENTS, Tidy, WrittenFile
from tasks.records.model.statement import Hash, StatedText
from tasks.records.model.version_statements import FittedDraw
from tasks.records.outputs import released_of

NOISY = "noisy"


class PlaceCountDraw(FittedDraw):
    """Noisy counts of the places of a level, in a file of their own."""

    kind: Literal["place_counts"]
    level: StatedText
    groups: Hash


class PlaceCountForm(CountForm[PlaceMeasurement, PlaceCountDraw]):
    """How noisy counts by place are stated, written and told."""

    statement = PlaceCountDraw
    role = "measurements"
    summary = "Noisy counts by place as they were drawn."
    cells = "one a place of the level and cell of the columns"
    columns: ClassVar[Mapping[str, str]] = {NOISY: "Noisy count, as it was drawn; its variance stands in the record."}
    noise_on = message("counts by place")

    def files(self, drawn: Sequence[PlaceMeasurement], numbers: Mapping[str, int]) -> dict[str, str]:
        """Name the file of each."""
        return {each.key: noisy_file(each.key) for each in drawn}

    def write(
        self, drawn: Sequence[PlaceMeasurement], facts: RunFacts, folder: Path, *, marks: Mapping[str, str]
    ) -> Iterator[WrittenFile]:
        """Write each; all cells have one noise, so that the count alone is written."""
        tree = released_of(facts.fit[1]).tree
        for each in drawn:
            cells = place_cells(facts.contract, each.clique[0], tree, each.level)
            tidy = Tidy(cells, each.clique, {NOISY: each.values})
            yield tidy.write(folder, noisy_file(each.key), draw=each.key, marks=marks)

    def stated(self, released: PlaceMeasurement, key: str) -> dict[str, Any]:
        """Return columns, shape, level, and which places were added up."""
        shape = list(released.values.shape)
        return {"clique": list(released.clique), "shape": shape, "level": released.level, "groups": released.groups}

    def described(self, released: PlaceMeasurement, key: str) -> dict[str, Any]:
        """Describe the draw: its level, its sensitivity, its noise."""
        return self.noise_of(released, message("counts by place"), {"level": released.level})

    def measured(self, released: PlaceMeasurement) -> dict[str, Any]:
        """Describe what is published."""
        return {
            "columns": " × ".join(released.clique),
            "level": released.level,
            "cells": released.values.size,
            "deviation": f"{released.variance**0.5:.6g}",
        }

    def published(self, draws: Sequence[PlaceCountDraw]) -> tuple[PlaceMeasurement, ...]:
        """Return the measurements without their values, of which only the shape is read."""
        return tuple(map(_measurement, draws))


def noisy_file(key: str) -> str:
    """Name the file of a draw after its table and its level."""
    table, _, level = key.removeprefix("table:").partition("/")
    return f"{MEASUREMENTS}/{place_file(table, level)}.parquet"


def _measurement(draw: PlaceCountDraw) -> PlaceMeasurement:
    event: Any = event_from_json(draw.event)
    values = np.broadcast_to(np.int64(0), draw.shape)  # only its shape is read
    terms = event, variance(event), draw.number, draw.sha256
    return PlaceMeasurement(draw.key, draw.clique, draw.level, draw.groups, values, *terms)
