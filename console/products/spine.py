"""What the console shows of counts by place."""

from __future__ import annotations

from math import ceil, prod
from typing import Any, Final

from rich.console import Console

from console.output import table
from console.products.product_view import ExpectedWidth
from contracts.release.spec import ReleaseSpec
from contracts.release.spine.product import SpineProduct, spine_product
from privacy.table_plans.spine_plan import SpinePlan

_BASE_MEGABYTES: Final = 200
_BASE_SECONDS: Final = 2.0
_BYTES_PER_NUMBER: Final = 32
_SECONDS_PER_NUMBER: Final = 3e-6
_NUMBERS: Final = ("places", "cells", "share", "95 % within")


class SpineProductView:
    """Counts by place."""

    def plan_object(self, spec: ReleaseSpec, plan: SpinePlan) -> dict[str, Any]:
        """Return the levels, and what is drawn at each; data-free."""
        product = spine_product(spec.product)
        return {
            "mechanism": product.mechanism,
            "levels": [
                {"level": name, "places": size, "invariant": name in product.invariants}
                for name, size in plan.sizes.items()
            ],
            "draws": [
                {
                    "key": draw.key,
                    "level": draw.level,
                    "columns": list(draw.clique),
                    "cells": prod(draw.shape),
                    "share": float(draw.share),
                    "expected_error": draw.variance**0.5,
                    "interval_95": draw.half_width,
                    "noise_below_rows": ceil(prod(draw.shape) * draw.variance**0.5),
                    "event": draw.event.to_json(),
                    "sparse": None,
                    "table": draw.table,
                }
                for draw in plan.draws
            ],
            "megabytes": _BASE_MEGABYTES + round(plan.cells * _BYTES_PER_NUMBER / 1e6),
            "seconds": round(_BASE_SECONDS + plan.cells * _SECONDS_PER_NUMBER, 1),
        }

    def noise_words(self, payload: dict[str, Any]) -> str:
        """Name the noise."""
        return f" ({payload['mechanism']} noise)"

    def plan_facts(self, payload: dict[str, Any]) -> list[tuple[str, str]]:
        """Return the levels, and which totals stay exact."""
        levels = [f"{each['places']:,} {each['level']}" for each in payload["levels"]]
        exact = [each["level"] for each in payload["levels"] if each["invariant"]]
        facts = [("places", ", ".join(levels))]
        return [*facts, ("exact totals", ", ".join(exact))] if exact else facts

    def expected_widths(self, payload: dict[str, Any]) -> list[ExpectedWidth]:
        """Return the half width of each draw's own interval."""
        return [
            ExpectedWidth(f"{each['table']}.{each['level']}", "count", float(each["interval_95"]))
            for each in payload["draws"]
        ]

    def print_draws(self, console: Console, payload: dict[str, Any]) -> None:
        """Print each table at each of its levels."""
        places = {each["level"]: each["places"] for each in payload["levels"]}
        rows = [
            (
                each["table"],
                each["level"],
                f"{places[each['level']]:,}",
                f"{each['cells']:,}",
                f"{each['share']:.2%}",
                f"±{each['interval_95']:,}",
            )
            for each in payload["draws"]
        ]
        console.print(table(("table", "level", *_NUMBERS), rows, numbers=_NUMBERS))
        console.print("These are the intervals of each draw alone; all together give shorter ones.")

    def print_version(self, console: Console, replay: dict[str, Any]) -> None:
        """Print the tables: their levels and files."""
        product = SpineProduct.model_validate(replay["product"])
        files = {draw["key"]: draw["measurements"] for draw in replay["draws"]}
        rows = [(each["name"], each["level"], each["data"], files[each["draws"][0]]) for each in replay["tables"]]
        console.print(table(("table", "level", "data", "measurements"), rows))
        console.print(f"places: {replay['places']}, of column {product.spine.column}")
