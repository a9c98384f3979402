"""A plan as lines: of each table, statistic or step what it holds, its share, and how far the noise reaches."""

from __future__ import annotations

from math import ceil
from typing import Any, Final

Width = tuple[str, str, int]
"""What it is the width of (empty for a count), the half width, and of how many rows it depends (0 for none)."""

_COUNTS: Final = ("count", "units")


def lines_of(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a line for each table, statistic or step.

    Args:
        plan: as `sudare plan --json` has it.
    Returns:
        list: of dicts with `columns`, `step` (the name of a generator's step), `cells`, `share`, `within` (a `Width`
        each) and `below` (rows under which the average count is smaller than its noise).
    """
    if "statistics" in plan:
        return [_of_statistics(each) for each in plan["statistics"]]
    if "steps" in plan:
        return [_line([], None, each["share"], step=each["what"]) for each in plan["steps"]]
    return [_of_table(each) for each in plan.get("draws", ())]


def _line(columns: list[str], cells: int | None, share: float, **more: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {"within": [], "below": None, "step": ""}
    return {"columns": columns, "cells": cells, "share": share, **empty, **more}


def _of_table(draw: dict[str, Any]) -> dict[str, Any]:
    reach = draw["interval_95"]
    return _line(
        draw["columns"],
        draw["cells"],
        draw["share"],
        within=[("", f"{reach:,}", 0)],
        below=draw["noise_below_rows"] if draw["columns"] else None,
    )


def _of_statistics(table: dict[str, Any]) -> dict[str, Any]:
    return _line(
        table["columns"],
        table["cells"],
        table["share"],
        within=[(each["statistic"], _width(each), each.get("rows", 0)) for each in table["expected"]],
    )


def _number_text(value: float) -> str:
    """Write a whole or a large number without decimals, others with three digits."""
    text = f"{value:,.0f}" if abs(value) >= 1000 or float(value).is_integer() else f"{value:,.3g}"
    return text.replace("-", "−")


def _width(error: dict[str, Any]) -> str:
    """Write a half width; that of a count is a whole number, rounded up."""
    width = error["half_width_95"]
    return _number_text(ceil(width) if error["statistic"] in _COUNTS else width)
