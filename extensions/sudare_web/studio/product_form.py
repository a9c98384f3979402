"""What the form shows of a product that is no plain table: statistics with their clips, and synthetic rows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from sudare_web.studio.outlook import Width
from sudare_web.studio.yaml_text import flow

WHATS: Final = ("count", "sum", "mean", "variance", "sd", "quantiles", "units", "distinct")
"""Statistics that can be chosen. A ratio or an effective size is written in the YAML."""
GENERATORS: Final = ("aim", "mst", "privbayes", "independent")
"""Generators that can be chosen: they fit marginals, and need no training."""
CLIPPED: Final = ("sum", "mean", "variance", "sd", "quantiles")
OF_ROWS: Final = ("count", "units")
WITH_DEGREE: Final = ("aim", "privbayes")
ALL_COLUMNS: Final = "all"


@dataclass(frozen=True)
class StatisticChoice:
    """One statistic of a table as choices.

    Args:
        place: in the table's list.
        what: which, one of `WHATS`; empty for one that is edited in the YAML.
        column: of which column; empty for rows.
        low, high: ends of its clip; empty where the contract's bounds are it.
        shares: of quantiles, separated by commas.
        clipped: whether a clip can be chosen for it.
        written: its YAML.
    """

    place: int
    what: str
    column: str
    low: str
    high: str
    shares: str
    clipped: bool
    written: str

    def widths(self, line: dict[str, Any] | None) -> list[Width]:
        """Return how far the noise reaches in it.

        Args:
            line: of the outlook, for its table; None without a plan.
        Returns:
            list: of its own widths; what a width is of stands there for quantiles alone, which are several.
        """
        own = [each for each in (() if line is None else line["within"]) if self._is_of(each[0])]
        return [(what if self.what == "quantiles" else "", width, rows) for what, width, rows in own]

    def _is_of(self, statistic: str) -> bool:
        if self.what == "quantiles":
            return re.fullmatch(rf"q[0-9.]+_{re.escape(self.column)}", statistic) is not None
        return bool(self.what) and statistic == (f"{self.what}_{self.column}" if self.column else self.what)


def statistics_of(entry: Any) -> tuple[StatisticChoice, ...]:
    """Read what a table of statistics tells of each cell; nothing of what is none."""
    listed = entry.get("of") if isinstance(entry, dict) else None
    return tuple(_statistic(place, each) for place, each in enumerate(listed if isinstance(listed, list) else []))


def _statistic(place: int, node: Any) -> StatisticChoice:
    if isinstance(node, str):
        return StatisticChoice(place, node if node in OF_ROWS else "", "", "", "", "", False, node)
    what = next((each for each in WHATS if isinstance(node, dict) and each in node), "")
    column = node.get("of" if what == "quantiles" else what) if what else ""
    low, high, plain = _clip(node)
    shares = node.get("quantiles") if what == "quantiles" else []
    known = isinstance(column, str) and isinstance(shares, list) and all(isinstance(each, str) for each in shares)
    if not known:
        return StatisticChoice(place, "", "", "", "", "", False, flow(node))
    return StatisticChoice(place, what, column, low, high, ", ".join(shares), what in CLIPPED and plain, flow(node))


def _clip(node: Any) -> tuple[str, str, bool]:
    """Return the ends of a clip, and whether it is one that can be chosen: two numbers, or none."""
    clip = node.get("clip") if isinstance(node, dict) else None
    if clip is None:
        return "", "", True
    pair = isinstance(clip, list) and len(clip) == 2 and all(isinstance(end, str) for end in clip)
    return (*clip, True) if pair else ("", "", False)


def synthetic_form(product: Any) -> dict[str, Any]:
    """Return what the form shows of synthetic rows: generator, columns (None for all), rows and degree."""
    tree = product if isinstance(product, dict) else {}
    columns, options = tree.get("columns", ALL_COLUMNS), tree.get("options")
    generator = tree.get("generator")
    degree = options.get("degree") if isinstance(options, dict) else None
    return {
        "generator": generator if isinstance(generator, str) else "",
        "columns": [each for each in columns if isinstance(each, str)] if isinstance(columns, list) else None,
        "rows": tree.get("rows") if isinstance(tree.get("rows"), str) else "estimated",
        "degree": degree if isinstance(degree, str) else "",
        "has_degree": generator in WITH_DEGREE,
    }
