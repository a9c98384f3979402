"""What the record of adaptive tables states: levels, thresholds, draws, and how many groups got which level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from privacy.table_plans.adaptive_plan import AdaptivePlan
from tasks.records.adaptive.adaptive_files import data_file
from tasks.records.model.statement import Count, StatedText, Statement, Tuple
from tasks.records.model.synthetic_statements import DrawsRecord, DrawsReplay


class DetailLevelStatement(Statement):
    """A level: its cells, from which noisy total on a group gets it (0 for the first), and how many groups did."""

    name: StatedText
    cells: Count
    least: Count
    groups: Count


class AdaptiveTableStatement(Statement):
    """A published table: its columns, its levels, its two draws, and its file."""

    name: StatedText
    columns: Tuple[StatedText]
    levels: Tuple[DetailLevelStatement]
    draws: Tuple[StatedText]
    data: StatedText


class AdaptiveReplay(DrawsReplay):
    """All that a stranger needs to check adaptive tables."""

    tables: Tuple[AdaptiveTableStatement]


class AdaptiveRecord(DrawsRecord):
    """record.json of a version of adaptive tables."""

    replay: AdaptiveReplay


def stated_tables(plan: AdaptivePlan, groups: Sequence[Sequence[int]]) -> list[dict[str, Any]]:
    """State each table.

    Args:
        plan: of the release.
        groups: of each table, how many groups have each level.
    """
    return [
        {
            "name": table.name,
            "columns": list(table.cells.clique),
            "levels": [
                {"name": level.name, "cells": level.cells, "least": least, "groups": int(number)}
                for level, least, number in zip(table.cells.levels, (0, *table.thresholds), own, strict=True)
            ],
            "draws": [table.totals.key, table.counts.key],
            "data": data_file(table.name),
        }
        for table, own in zip(plan.tables, groups, strict=True)
    ]
