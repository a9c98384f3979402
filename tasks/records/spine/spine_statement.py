"""What the record of counts by place states: levels, tables, draws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from privacy.table_plans.spine_plan import SpinePlan, place_file
from tasks.records.files.tidy_tables import DATA
from tasks.records.model.statement import Count, StatedText, Statement, Tuple
from tasks.records.model.synthetic_statements import DrawsRecord, DrawsReplay


class PlaceLevelStatement(Statement):
    """A level of the tree: how many places it has, and whether their totals are public."""

    name: StatedText
    places: Count
    invariant: bool


class PlaceTableStatement(Statement):
    """A published table at a level: its columns, the draw of the same cells, and its file."""

    name: StatedText
    level: StatedText
    columns: Tuple[StatedText]
    draws: Tuple[StatedText]
    data: StatedText


class SpineReplay(DrawsReplay):
    """All that a stranger needs to check counts by place."""

    levels: Tuple[PlaceLevelStatement]
    places: StatedText
    tables: Tuple[PlaceTableStatement]

    @property
    def sizes(self) -> Mapping[str, int]:
        """Places of each level."""
        return {level.name: level.places for level in self.levels}


class SpineRecord(DrawsRecord):
    """record.json of a version of counts by place."""

    replay: SpineReplay


def stated_tables(plan: SpinePlan) -> list[dict[str, Any]]:
    """State each table at each of its levels."""
    return [
        {
            "name": place_file(draw.table, draw.level),
            "level": draw.level,
            "columns": list(draw.clique),
            "draws": [draw.key],
            "data": f"{DATA}/{place_file(draw.table, draw.level)}.parquet",
        }
        for draw in plan.draws
    ]


def stated_levels(plan: SpinePlan, invariants: Mapping[str, Any]) -> list[dict[str, Any]]:
    """State the levels."""
    return [{"name": name, "places": size, "invariant": name in invariants} for name, size in plan.sizes.items()]
