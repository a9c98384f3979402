"""What the console shows of adaptive tables."""

from __future__ import annotations

from math import ceil
from typing import Any, Final

from rich.console import Console

from console.products.product_view import ExpectedWidth
from console.render import table
from contracts.release.adaptive.product import adaptive_product
from contracts.release.spec import ReleaseSpec
from privacy.marginals.uncertainty import half_width
from privacy.table_plans.adaptive_counts import expected_widths
from privacy.table_plans.adaptive_plan import CONFIDENCE, AdaptivePlan, expected_levels

_BASE_MEGABYTES: Final = 200
_BASE_SECONDS: Final = 2.0
_BYTES_PER_NUMBER: Final = 160
_SECONDS_PER_NUMBER: Final = 1e-5
_NUMBERS: Final = ("cells", "from a noisy total of", "error of a cell", "error of the total", "at that total")


class AdaptiveProductView:
    """Adaptive tables."""

    def plan_object(self, spec: ReleaseSpec, plan: AdaptivePlan) -> dict[str, Any]:
        """Return levels with their expected errors, and what is drawn; data-free."""
        return {
            "mechanism": adaptive_product(spec.product).mechanism,
            "tables": [
                {
                    "table": each.name,
                    "groups": each.cells.groups,
                    "widths_95": dict(zip(("count", "total"), expected_widths(each), strict=True)),
                    "levels": [
                        {
                            "level": level.level,
                            "cells": level.cells,
                            "from_noisy_total": level.least,
                            "cell_error": level.cell_error,
                            "total_error": level.total_error,
                            "relative_half_width": level.at_least,
                        }
                        for level in expected_levels(each)
                    ],
                }
                for each in plan.tables
            ],
            "draws": [
                {
                    "key": draw.key,
                    "columns": list(draw.clique),
                    "cells": cells,
                    "share": float(draw.share),
                    "expected_error": draw.variance**0.5,
                    "interval_95": half_width(draw.event, CONFIDENCE),
                    "noise_below_rows": ceil(cells * draw.variance**0.5),
                    "event": draw.event.to_json(),
                    "sparse": None,
                    "table": each.name,
                }
                for each in plan.tables
                for draw, cells in (
                    (each.totals, each.cells.groups),
                    (each.counts, each.cells.groups * each.sizes[-1]),
                )
            ],
            "megabytes": _BASE_MEGABYTES + round(plan.most_cells * _BYTES_PER_NUMBER / 1e6),
            "seconds": round(_BASE_SECONDS + plan.most_cells * _SECONDS_PER_NUMBER, 1),
        }

    def noise_words(self, payload: dict[str, Any]) -> str:
        """Name the noise."""
        return f" ({payload['mechanism']} noise)"

    def plan_facts(self, payload: dict[str, Any]) -> list[tuple[str, str]]:
        """Return how many groups there are."""
        return [("groups", ", ".join(f"{each['groups']:,} of {each['table']}" for each in payload["tables"]))]

    def expected_widths(self, payload: dict[str, Any]) -> list[ExpectedWidth]:
        """Return the longest half widths of totals and of counts, from both draws, at any level."""
        return [
            ExpectedWidth(f"{each['table']}{named}", "count", float(each["widths_95"][of]))
            for each in payload["tables"]
            for of, named in (("total", ": totals"), ("count", ""))
        ]

    def print_draws(self, console: Console, payload: dict[str, Any]) -> None:
        """Print the levels of each table: which groups get them, and what their numbers are off by."""
        for each in payload["tables"]:
            rows = [
                (
                    level["level"],
                    f"{level['cells']:,}",
                    "any" if level["from_noisy_total"] is None else f"{level['from_noisy_total']:,}",
                    f"±{level['cell_error']:,.1f}",
                    f"±{level['total_error']:,.1f}",
                    "" if level["relative_half_width"] is None else f"±{level['relative_half_width']:.0%}",
                )
                for level in each["levels"]
            ]
            console.print(table((each["table"], *_NUMBERS), rows, numbers=_NUMBERS))
        console.print("Errors are standard errors of both draws together. The last column is the 95 % interval of an")
        console.print("average cell of the smallest group at the level, as a share of its count.")

    def print_version(self, console: Console, replay: dict[str, Any]) -> None:
        """Print the tables: their levels, how many groups got each, and their files."""
        rows = [
            (each["name"], level["name"], f"{level['cells']:,}", f"{level['groups']:,}", each["data"])
            for each in replay["tables"]
            for level in each["levels"]
        ]
        console.print(table(("table", "level", "cells", "groups", "data"), rows, numbers=("cells", "groups")))
