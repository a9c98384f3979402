"""What the console shows of tables of counts: the marginals of a plan, and the tables of a version."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final

from rich.console import Console

from console.output import table
from console.products.product_view import ExpectedWidth
from contracts.release.spec import ReleaseSpec
from privacy.accounting.events import CountNoise
from privacy.marginals.suppression import threshold_for
from privacy.table_plans.plan import SparsePlan, TablesPlan

# Measured on 2 cores with releases of 1 to 5.4 million cells; what reading the data takes comes on top.
BASE_MEGABYTES, BYTES_PER_CELL = 450, 50
BASE_SECONDS, SECONDS_PER_CELL = 6.0, 6e-7
# A row that a sparse table lists, measured with 5.4 million of them.
BYTES_PER_ROW, SECONDS_PER_ROW = 150, 1.5e-6

NUMBERS: Final = ("cells", "share", "expected error", "95 % within", "noise below [rows]")
WORTH_SAYING: Final = 1.05
"""From so much squared error over the least on, a plan names the split that has the least."""
MOST_LINES: Final = 30
"""So many draws are shown a line each; of more, the draws of so many columns share a line."""


class TablesProductView:
    """Tables of counts."""

    def plan_object(self, spec: ReleaseSpec, plan: TablesPlan) -> dict[str, Any]:
        """Return the part of the plan that is about tables."""
        return _tables_object(plan)

    def noise_words(self, payload: dict[str, Any]) -> str:
        """Name the noise."""
        return f" ({payload['mechanism']} noise)"

    def plan_facts(self, payload: dict[str, Any]) -> list[tuple[str, str]]:
        """Return the expected error."""
        facts = [("error", _error_words(payload))]
        over = payload["over_optimum"]
        return facts if over is None else [*facts, ("over the optimum", _optimum_words(over, payload))]

    def expected_widths(self, payload: dict[str, Any]) -> list[ExpectedWidth]:
        """Return the half width of the counts of each marginal that is drawn."""
        together = payload["measured_together"]
        draws = [each for each in payload["draws"] if each["columns"] or not together]
        return [ExpectedWidth(each["key"].removeprefix("table:"), "count", each["interval_95"]) for each in draws]

    def print_draws(self, console: Console, payload: dict[str, Any]) -> None:
        """Print the marginals."""
        rows = draw_lines(payload["draws"], together=payload["measured_together"])
        numbers = (*NUMBERS, "published from") if "published_from" in payload["draws"][0] else NUMBERS
        console.print(table(("marginal", *numbers), rows, numbers=numbers))
        for draw in payload["draws"]:
            if draw["sparse"] is not None:
                console.print(_sparse_words(draw))

    def print_version(self, console: Console, replay: dict[str, Any]) -> None:
        """Print the tables with their files."""
        rows = [(each["name"], each["method"], each["data"], each["measurements"]) for each in replay["tables"]]
        console.print(table(("table", "refined by", "data", "measurements"), rows))


def _tables_object(plan: TablesPlan) -> dict[str, Any]:
    """Return the part of the plan that is about tables."""
    return {
        "mechanism": plan.mechanism,
        "expected_rmse": {noise: float(error) for noise, error in plan.expected_rmse.items()},
        "draws": [
            {
                "key": draw.key,
                "level": None if draw.coarsening is None else draw.coarsening.level,
                "columns": list(draw.clique),
                "cells": draw.cells,
                "share": float(draw.share),
                "expected_error": draw.variance**0.5,
                "interval_95": draw.half_width,
                "noise_below_rows": noise_below_rows(draw.cells, draw.variance**0.5),
                **_threshold(plan, draw.event),
                "event": draw.event.to_json(),
                "sparse": _sparse_object(draw.sparse),
            }
            for draw in plan.measured
        ],
        "over_optimum": plan.over_optimum,
        "over_bound": plan.over_bound,
        "measured_together": plan.residuals is not None,
        "objective": "sum" if plan.residuals is None else plan.residuals.objective,
        "cells": plan.cells,
        **_needs(plan),
    }


def _optimum_words(over: float, payload: dict[str, Any]) -> str:
    """Say how the expected squared error compares with the least that any linear measurement of the tables has."""
    times = f"{'at most ' if payload['over_bound'] else ''}{over:.3g} times the least"
    without = " without an exact number of rows" if payload["over_bound"] else ""
    if payload["objective"] == "max":
        return f"{times} that the largest squared error of these tables can be{without}"
    if payload["mechanism"] == "laplace":
        return f"{times} squared error of these tables with Laplace noise"
    planned = over < WORTH_SAYING or payload["measured_together"] or payload["over_bound"]
    remedy = "" if planned else "; `split: residuals` comes to 1.00"
    return f"{times} squared error of these tables{without}{remedy}"


def _sparse_object(sparse: SparsePlan | None) -> dict[str, int] | None:
    """Return from where on a sparse table lists its cells, and how many empty ones are then expected."""
    if sparse is None:
        return None
    first, least = sparse.thresholds
    return {"first_threshold": first, "least_threshold": least, "expected_rows": sparse.expected_rows}


def _needs(plan: TablesPlan) -> dict[str, Any]:
    """Foretell memory and time; of a sparse table from the rows that are expected at its first threshold."""
    draws = plan.measured
    dense = sum(draw.cells for draw in draws if draw.sparse is None)
    listed = sum(draw.sparse.expected_rows for draw in draws if draw.sparse is not None)
    return {
        "megabytes": BASE_MEGABYTES + round((dense * BYTES_PER_CELL + listed * BYTES_PER_ROW) / 1e6),
        "seconds": round(BASE_SECONDS + dense * SECONDS_PER_CELL + listed * SECONDS_PER_ROW, 1),
    }


def _threshold(plan: TablesPlan, event: CountNoise) -> dict[str, int]:
    """Return the least noisy count that a minimum-frequency rule lets out, if there is such a rule."""
    rule = plan.minimum_frequency
    return {} if rule is None else {"published_from": threshold_for(rule, event).value}


def noise_below_rows(cells: int, expected_error: float) -> int:
    """Return the number of rows below which the average count of a cell is smaller than its noise."""
    return math.ceil(cells * expected_error)


def draw_lines(draws: Sequence[dict[str, Any]], *, together: bool = False) -> list[tuple[str, ...]]:
    """Return the lines of the table of draws; where there are very many, one for all tables of so many columns.

    Args:
        draws: noisy marginals.
        together: all of them follow from one draw, so that none has a share of its own.
    """
    if len(draws) <= MOST_LINES:
        return [_line([draw], _name(draw), together=together) for draw in draws]
    lines = []
    ordered = sorted(draws, key=lambda draw: len(draw["columns"]))
    for ways, alike in groupby(ordered, key=lambda draw: len(draw["columns"])):
        group = list(alike)
        name = _name(group[0]) if len(group) == 1 else f"{len(group):,} tables of {ways} columns"
        lines.append(_line(group, name, together=together))
    return lines


def _name(draw: dict[str, Any]) -> str:
    beside = f", by {draw['level']}" if draw["level"] else ""
    return (" × ".join(draw["columns"]) or "total") + beside


def _line(group: Sequence[dict[str, Any]], name: str, *, together: bool) -> tuple[str, ...]:
    """Write one line: of several draws the least and the most, and the sum of their shares."""

    def ends(values: list[Any], write: str) -> str:
        least, most = format(min(values), write), format(max(values), write)
        return least if least == most else f"{least} to {most}"

    return (
        name,
        ends([draw["cells"] for draw in group], ","),
        "together" if together else f"{sum(draw['share'] for draw in group):.1%}",
        "±" + ends([draw["expected_error"] for draw in group], ".3g"),
        "±" + ends([draw["interval_95"] for draw in group], ","),
        ends([draw["noise_below_rows"] for draw in group], ",") if group[0]["columns"] else "",
        *([ends([draw["published_from"] for draw in group], ",")] if "published_from" in group[0] else []),
    )


def _sparse_words(draw: dict[str, Any]) -> str:
    """Say which cells a sparse table will list."""
    sparse = draw["sparse"]
    words = (
        f"{' × '.join(draw['columns'])} is sparse: it lists noisy counts from {sparse['first_threshold']:,} on, "
        f"about {sparse['expected_rows']:,} of empty cells and those of populated ones"
    )
    if sparse["least_threshold"] == sparse["first_threshold"]:
        return words + "."
    return words + f"; from {sparse['least_threshold']:,} on at the most, if its refinement needs more."


def _error_words(payload: dict[str, Any]) -> str:
    """Say what error is expected over all cells, and of which noise it would be more."""
    chosen, errors = payload["mechanism"], payload["expected_rmse"]
    words = f"±{errors[chosen]:.3g} over all cells, before refinement"
    other = " with `split: optimal`" if payload["measured_together"] else ""
    return words + "".join(
        f"; {noise} noise{other}: ±{error:.3g}" for noise, error in errors.items() if noise != chosen
    )
