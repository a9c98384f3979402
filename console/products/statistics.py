"""What the console shows of statistics: the draws of a plan, and how far off each statistic is expected to be."""

from __future__ import annotations

from math import ceil, inf, prod
from typing import Any, Final

from rich.console import Console

from console.products.fitted import BASE_MEGABYTES, BASE_SECONDS
from console.products.product_view import ExpectedWidth
from console.products.statistics_charges import (
    BYTES_PER_NUMBER,
    OPTIMAL,
    choice_object,
    clip_words,
    key_memory,
    megabytes_of_keys,
    quantile_methods,
    rule_object,
    rule_words,
    selection_object,
    selection_words,
    weight_words,
    weights_object,
)
from console.products.statistics_draws import print_shares
from console.render import table
from contracts.domains.text import BESIDE_KEYS
from contracts.domains.value_lattices import ValueLattice
from contracts.domains.value_sums import LoneSum, ValueMoments
from contracts.domains.value_trees import ValueTree
from contracts.release.spec import ReleaseSpec
from contracts.release.statistic_forms import DISTINCT, EFFECTIVE_SIZE, SPREADS
from contracts.release.statistics import StatisticsProduct, statistics_product
from contracts.release.statistics_table import StatisticsTable
from privacy.statistics.expected_errors import ExpectedError, expected_errors, rows_error
from privacy.statistics.found_clips import narrower_plans
from privacy.statistics.plan import StatisticsDraw, StatisticsPlan
from privacy.statistics.selections import PlannedSelection

_SECONDS_PER_NUMBER: Final = 2e-6
_NUMBERS: Final = ("cells", "share", "95 % within")


class StatisticsProductView:
    """Statistics."""

    def plan_object(self, spec: ReleaseSpec, plan: StatisticsPlan) -> dict[str, Any]:
        """Return what is drawn for each table, and the expected error of each statistic; data-free."""
        tables = statistics_product(spec.product).tables
        return {
            "mechanism": plan.mechanism,
            "split": statistics_product(spec.product).split,
            "draws": [_draw_object(draw) for draw in (*plan.clips, *plan.draws)],
            "selections": [selection_object(each) for each in plan.selections],
            "choices": [choice_object(each) for each in plan.choices],
            "methods": [*quantile_methods(spec, plan)],
            "statistics": [
                {
                    "table": each.name,
                    "columns": list(each.by),
                    "cells": _table_cells(plan, each.name),
                    "share": float(sum(draw.share for draw in _drawn_for(plan, each.name))),
                    "expected": _expected(each, plan),
                    "rows_95": rows_error(plan.of_table(each.name)),
                    **weights_object(plan.of_table(each.name)),
                    **rule_object(spec, plan.of_table(each.name)),
                }
                for each in tables
            ],
            **megabytes_of_keys(plan),
            "megabytes": BASE_MEGABYTES + round(plan.numbers * BYTES_PER_NUMBER / 1e6),
            "seconds": round(BASE_SECONDS + plan.numbers * _SECONDS_PER_NUMBER, 1),
        }

    def noise_words(self, payload: dict[str, Any]) -> str:
        """Name the noise."""
        return f" ({payload['mechanism']} noise)"

    def plan_facts(self, payload: dict[str, Any]) -> list[tuple[str, str]]:
        """Return how much is drawn."""
        tables, draws = payload["statistics"], payload["draws"]
        number = len(draws) + sum(each["counts"] == "rows" for each in payload["selections"])
        facts = [("draws", f"{number} for {len(tables)} table{'s' if len(tables) > 1 else ''}")]
        clips = [draw for draw in draws if draw["of"] and draw["of"].get("magnitudes")]
        facts += [(f"clip of {each['of']['column']}", clip_words(each)) for each in clips]
        facts += [("keys", selection_words(each)) for each in payload["selections"]]
        shares = [("split", OPTIMAL)] if payload["split"] == "optimal" else []
        return [*facts, *shares, *key_memory(payload)]

    def expected_widths(self, payload: dict[str, Any]) -> list[ExpectedWidth]:
        """Return the half width of each statistic over the whole of its bounds; of a quantile, in ranks."""
        return [
            _width(each, error) for each in payload["statistics"] for error in each["expected"] if "if" not in error
        ]

    def print_draws(self, console: Console, payload: dict[str, Any]) -> None:
        """Print each statistic with its expected interval."""
        rows = []
        for each in payload["statistics"]:
            named = " × ".join(each["columns"]) or "all rows"
            for place, error in enumerate(each["expected"]):
                first = (named, f"{each['cells']:,}", f"{each['share']:.1%}") if place == 0 else ("", "", "")
                named_so = f"{error['statistic']}, {error['if']}" if "if" in error else error["statistic"]
                rows.append((first[0], named_so, _of_rows(error), first[1], first[2], _within(error)))
        console.print(table(("table", "statistic", "in a cell of", *_NUMBERS), rows, numbers=_NUMBERS))
        print_shares(console, payload)
        for each in payload["statistics"]:
            if "survey_weight" in each:
                console.print(weight_words(each))
            if "minimum_frequency" in each:
                console.print(rule_words(each))
        for each in payload["methods"]:
            console.print(f"{each['table']}: {each['words']}")

    def print_version(self, console: Console, replay: dict[str, Any]) -> None:
        """Print the tables: what each tells, and its files."""
        published = {each.name: each.of for each in StatisticsProduct.model_validate(replay["product"]).tables}
        files = {draw["key"]: draw["measurements"] for draw in replay["draws"]}
        rows = [
            (
                each["name"],
                ", ".join(statistic.name for statistic in published[each["name"]]),
                each["data"],
                ", ".join(files[key] for key in each["draws"]),
            )
            for each in replay["tables"]
        ]
        console.print(table(("table", "statistics", "data", "measurements"), rows))


def _expected(table: StatisticsTable, plan: StatisticsPlan) -> list[dict[str, Any]]:
    """Foretell each statistic, over the whole of the bounds where its clip is private, then with narrower clips."""
    counted = plan.counted_with_keys(table.name)
    own = expected_errors(table, plan.of_table(table.name), counted)
    found = [_error_object(error) for error in own]
    for words, narrower in narrower_plans(plan).items():
        errors = expected_errors(table, narrower.of_table(table.name), counted)
        found += [{**_error_object(a), "if": words} for a, b in zip(errors, own, strict=True) if a != b]
    return found


def _draw_object(draw: StatisticsDraw) -> dict[str, Any]:
    """Return one draw: its column, its noise in rows, its event."""
    addends, cells = draw.addends, _cells(draw)
    if isinstance(addends, ValueTree):
        nodes = addends.level_nodes[0] + addends.lattice.counts_missing
        deviation = (nodes * draw.variance) ** 0.5
    elif isinstance(addends, LoneSum):
        deviation = draw.variance**0.5 / addends.reach
    elif isinstance(addends, ValueLattice | ValueMoments):
        deviation = (addends.parts * draw.variance) ** 0.5 / addends.whole
    else:
        deviation = draw.variance**0.5
    if draw.weight is not None:
        deviation *= float(draw.weight.step)
    return {
        "key": draw.key,
        "level": None,
        "columns": list(draw.clique),
        "cells": cells,
        "share": float(draw.share),
        "of": None if addends is None else addends.to_json(),
        "expected_error": deviation,
        "noise_below_rows": ceil(cells * deviation),
        "event": draw.event.to_json(),
        "sparse": None,
        **({} if draw.clip is None else {"clip_found_by": draw.clip}),
    }


def _drawn_for(plan: StatisticsPlan, table: str) -> list[StatisticsDraw | PlannedSelection]:
    """Return the draws that the numbers of a table come of."""
    counted = plan.counted_with_keys(table)
    return [*([] if counted is None else [counted]), *plan.of_table(table)]


def _table_cells(plan: StatisticsPlan, table: str) -> int:
    """Return the cells that a table has before keys are selected: other texts and none, where no more are drawn."""
    draws = plan.of_table(table)
    return _cells(draws[0]) if draws else BESIDE_KEYS


def _cells(draw: StatisticsDraw) -> int:
    return prod(draw.shape if draw.addends is None else draw.shape[:-1])


def _width(table: dict[str, Any], error: dict[str, Any]) -> ExpectedWidth:
    """Return a half width as an aim asks for it: of a mean at an end of its clip, where it is longest."""
    name, by_rows = error["statistic"], "rows" in error
    width = error.get("widest_95", error["half_width_95"]) * error.get("rows", 1)
    most = error["clip"] / 2 if "clip" in error else inf
    about = by_rows and "widest_95" not in error
    return ExpectedWidth(table["table"], name, width, by_rows, table["rows_95"], most, about)


def _error_object(error: ExpectedError) -> dict[str, Any]:
    told = {"statistic": error.statistic, "half_width_95": error.half_width}
    told = told if error.rows is None else {**told, "rows": error.rows}
    told = told if error.widest is None else {**told, "widest_95": error.widest}
    told = {**told, "ranks": True} if error.ranks else told
    told = {**told, "weighed": True} if error.weighed else told
    return told if error.clip is None else {**told, "clip": error.clip}


def _of_rows(error: dict[str, Any]) -> str:
    if error["statistic"].startswith(EFFECTIVE_SIZE):
        return "weights at a quarter of their clip"
    if "rows" not in error:
        return "any size"
    return f"weight {error['rows']:,}" if "weighed" in error else f"{error['rows']:,} rows"


def _within(error: dict[str, Any]) -> str:
    """Write a half width; of a mean that nothing tells of that it is the whole clip."""
    if "clip" in error and 2 * error["half_width_95"] >= error["clip"]:
        possible = error["statistic"].partition("_")[0] in (*SPREADS, DISTINCT)
        return "all that is possible" if possible else "the whole clip"
    return f"±{error['half_width_95']:,.4g}{' in rank' if 'ranks' in error else ''}"
