"""Tables with suppressed cells on the page: drawn as empty, and written as "below the threshold"."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from privacy.marginals.suppression import published_below
from privacy.refine.intervals import Intervals
from tasks.records.outputs import DenseTable


def drawn_empty(table: DenseTable) -> DenseTable:
    """Return a table for drawing: suppressed cells have the count 0 and no interval; others stay as they are."""
    gone = table.refined.suppressed
    if gone is None:
        return table
    ends = Intervals(
        *(np.where(gone, 0, side) for side in (table.refined.intervals.lower, table.refined.intervals.upper))
    )
    refined = replace(table.refined, values=np.where(gone, 0, table.refined.values), intervals=ends)
    return replace(table, refined=refined)


def below(table: DenseTable) -> str:
    """Write what is known of a suppressed cell."""
    threshold = table.measurement.threshold
    return "" if threshold is None else f"below {threshold.value:,}"


def suppression_facts(table: DenseTable) -> list[tuple[str, str]]:
    """Say how many cells are suppressed, and how often the rule errs."""
    threshold, gone = table.measurement.threshold, table.refined.suppressed
    if threshold is None or gone is None:
        return []
    chance = published_below(threshold, table.measurement.event)
    return [
        (f"cells suppressed, {below(table)}", f"{int(gone.sum()):,}"),
        (f"probability that a cell whose exact count is below {threshold.k} is published", f"at most {chance}"),
    ]


def is_suppressed(table: DenseTable, cell: int) -> bool:
    """Say whether a cell, by its row-major number, is suppressed."""
    gone = table.refined.suppressed
    return gone is not None and bool(gone.reshape(-1)[cell])
