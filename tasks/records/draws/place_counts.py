"""Noisy counts by place, as they are published: each draw in a tidy table, a row a place and cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from contracts.message import message
from contracts.release.spine.rules import place_cells
from privacy.grant.measurement import PlaceMeasurement
from privacy.table_plans.spine_plan import place_file
from tasks.records.draws.marginal import NOISY, BareCountForm, DrawnFields
from tasks.records.facts import RunFacts
from tasks.records.files.tidy_tables import Tidy, WrittenFile
from tasks.records.model.statement import Hash, StatedText
from tasks.records.model.version_statements import FittedDraw
from tasks.records.outputs import released_of


class PlaceCountDraw(FittedDraw):
    """Noisy counts of the places of a level, in a file of their own."""

    kind: Literal["place_counts"]
    level: StatedText
    groups: Hash


class PlaceCountForm(BareCountForm[PlaceMeasurement, PlaceCountDraw]):
    """How noisy counts by place are stated, written and told."""

    statement = PlaceCountDraw
    summary = "Noisy counts by place as they were drawn."
    cells = "one a place of the level and cell of the columns"
    noise_on = message("counts by place")

    def stem(self, key: str) -> str:
        """Name the file of a draw after its table and its level."""
        table, _, level = key.removeprefix("table:").partition("/")
        return place_file(table, level)

    def named(self, released: PlaceMeasurement) -> dict[str, Any]:
        """Return the level."""
        return {"level": released.level}

    def write(
        self, drawn: Sequence[PlaceMeasurement], facts: RunFacts, folder: Path, *, marks: Mapping[str, str]
    ) -> Iterator[WrittenFile]:
        """Write each; all cells have one noise, so that the count alone is written."""
        tree = released_of(facts.fit[1]).tree
        for each in drawn:
            cells = place_cells(facts.contract, each.clique[0], tree, each.level)
            tidy = Tidy(cells, each.clique, {NOISY: each.values})
            yield tidy.write(folder, self.path(each.key), draw=each.key, marks=marks)

    def stated(self, released: PlaceMeasurement, key: str) -> dict[str, Any]:
        """Return columns, shape, level, and which places were added up."""
        shape = list(released.values.shape)
        return {"clique": list(released.clique), "shape": shape, "level": released.level, "groups": released.groups}

    def measurement(self, draw: PlaceCountDraw, numbers: DrawnFields) -> PlaceMeasurement:
        """Return what was drawn."""
        return PlaceMeasurement(*numbers, draw.clique, draw.level, draw.groups)
