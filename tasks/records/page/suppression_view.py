"""Tables with suppressed cells on the page: drawn as empty, and written as "below the threshold"."""

from __future__ import annotations

from typing import Any

from contracts.message import message
from tasks.records.page.published_tables import PublishedCounts


def below(table: PublishedCounts) -> str:
    """Write what is known of a suppressed cell; empty without a minimum-frequency rule."""
    return (
        "" if table.suppressed is None else message("below {threshold}", threshold=f"{_rule(table)['threshold']:,}")
    )


def suppression_facts(table: PublishedCounts) -> list[tuple[str, str]]:
    """Say how many cells are suppressed, and how often the rule errs."""
    if table.suppressed is None:
        return []
    rule = _rule(table)
    return [
        (message("Cells suppressed, {threshold}", threshold=below(table)), f"{int(table.suppressed.sum()):,}"),
        (
            message("Probability that a cell whose exact count is below {k} is published", k=rule["k"]),
            message("at most {chance}", chance=rule["published_although_below_k"]),
        ),
    ]


def is_suppressed(table: PublishedCounts, cell: int) -> bool:
    """Say whether a cell, by its row-major number, is suppressed."""
    return table.suppressed is not None and bool(table.suppressed.reshape(-1)[cell])


def _rule(table: PublishedCounts) -> dict[str, Any]:
    """Return the minimum-frequency rule, as the record tells it."""
    rule: dict[str, Any] = table.processed["minimum_frequency"]
    return rule
