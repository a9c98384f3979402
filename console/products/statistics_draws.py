"""What a plan of statistics says of each draw: the clip of its values, and its share of the charge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from rich.console import Console

from console.render import table

MOST_LINES: Final = 30
"""So many draws are shown a line each."""
_NUMBERS: Final = ("share",)
_FORMS: Final = (
    ("quantiles", "quantiles, chosen"),
    ("resolution", "quantiles, counts in a tree"),
    ("magnitudes", "clip, counts of magnitudes"),
    ("counts_rows", "count"),
    ("per_unit", "sum within a quota"),
    ("alone", "sum alone"),
    ("whole", "sums up to squares"),
)
"""What each form of adding up is called, by the key that only this form has."""

_COUNTED: Final = {"units": "units", "values": "different values"}
"""What each distinct count is called."""


def print_shares(console: Console, payload: dict[str, Any]) -> None:
    """Print each draw with its clip and its share, in the order in which they are drawn; the last ones are left out.

    Args:
        console: where to.
        payload: of `StatisticsProductView.plan_object`.
    """
    lines = list(_lines(payload))
    console.print()
    console.print(table(("draw", "of", "clip", *_NUMBERS), lines[:MOST_LINES], numbers=_NUMBERS))
    if len(lines) > MOST_LINES:
        console.print(f"and {len(lines) - MOST_LINES} more draws: see --json")


def _lines(payload: dict[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """Yield the name of each draw, what is drawn, its clip, and its share."""
    for each in payload["selections"]:
        how = "keys, by coins" if each["counts"] == "units" else "keys with their counts"
        yield each["key"].removeprefix("table:"), how, "", f"{each['share']:.1%}"
    for draw in (*payload["draws"], *payload["choices"]):
        own = draw["of"]
        form = next((words for key, words in _FORMS if own and own.get(key)), "sums" if own else "count")
        form = _COUNTED[own["counts"]] if own and "counts" in own else form
        yield draw["key"].removeprefix("table:"), form, _clip(own, "clip_found_by" in draw), f"{draw['share']:.1%}"


def _clip(own: dict[str, Any] | None, found: bool) -> str:
    """Write the ends of a clip, and a quota of a unit; of one that the run finds, the bounds around it."""
    if own is None or "low" not in own:
        return ""
    ends = f"[{own['low']}, {own['high']}]"
    if found:
        return f"found within {ends}"
    if "per_unit" in own:
        return f"{ends}, {own['per_unit']} per unit"
    weight = own.get("weight")
    return ends if weight is None else f"{ends}, weight to {weight['high']}"
