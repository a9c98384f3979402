"""What the record of counts by place states: levels, tables, draws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from privacy.table_plans.spine_plan import SpinePlan
from tasks.records.model.statement import Count, StatedText, Statement, Tuple
from tasks.records.model.synthetic_statements import DrawsReplay
from tasks.records.model.version_statements import RecordTerms


class PlaceLevelStatement(Statement):
    """A level of the tree: how many places it has, and whether their totals are public."""

    name: StatedText
    places: Count
    invariant: bool


class PlaceTableStatement(Statement):
    """A published table at a level: the draw of the same cells, and its file."""

    table: StatedText
    level: StatedText
    draw: StatedText
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


class SpineRecord(RecordTerms):
    """record.json of a version of counts by place."""

    replay: SpineReplay


def stated_levels(plan: SpinePlan, invariants: Mapping[str, Any]) -> list[dict[str, Any]]:
    """State the levels."""
    return [{"name": name, "places": size, "invariant": name in invariants} for name, size in plan.sizes.items()]
