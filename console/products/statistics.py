"""What the console shows of statistics: the draws of a plan, and how far off each statistic is expected to be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil, inf, prod
from typing import Any, Final

from rich.console import Console

from console.output import table
from console.products.fitted import BASE_MEGABYTES, BASE_SECONDS
from console.products.product_view import ExpectedWidth
from contracts.domains.addends import LoneSum, ValueMoments
from contracts.domains.lattice import ValueLattice
from contracts.domains.text import BESIDE_KEYS
from contracts.domains.trees import ValueTree
from contracts.reading.scalars import plain_text
from contracts.release.spec import ReleaseSpec
from contracts.release.statistics import (
    DISTINCT,
    EFFECTIVE_SIZE,
    QUANTILES,
    SPREADS,
    StatisticsProduct,
    StatisticsTable,
    statistics_product,
)
from privacy.accounting.amounts import atto_to_text
from privacy.accounting.events import failures
from privacy.accounting.key_law import ONE, keep_chances
from privacy.statistics.cell_suppression import rule_of_table
from privacy.statistics.clips import narrower_plans
from privacy.statistics.plan import (
    ExpectedError,
    PlannedChoices,
    PlannedSelection,
    StatisticsDraw,
    StatisticsPlan,
    clip_costs,
    expected_errors,
    rows_error,
)
from privacy.statistics.quantiles import MOST_CHOICES, may_choose

# --- What a plan of statistics says of a clip that is found, of keys that are selected, and of what a weight costs.


OPTIMAL: Final = "optimal: the sum of all squared errors, each counted in rows, is least"
MANY_KEYS: Final = 10_000
BYTES_PER_NUMBER: Final = 120
"""In memory, of a number that is drawn, with what is published of it."""


def clip_words(draw: dict[str, Any]) -> str:
    """Say what the histogram costs in which a private clip is found."""
    return (
        f"found by a noisy histogram for {draw['share']:.1%} of the charge; intervals below are for the bounds first"
    )


def selection_object(selection: PlannedSelection) -> dict[str, Any]:
    """Return a selection of keys: what it costs, and from how many units on a key is published."""
    event, law = selection.event, selection.law
    chances = keep_chances(event.epsilon, event.delta) if law is None else (0, *law.chances)
    half, sure = (next(n for n, chance in enumerate(chances) if chance >= part * ONE) for part in (0.5, 0.99))
    return {
        "key": selection.key,
        "column": selection.column,
        "share": float(selection.share),
        "may_fail_with": atto_to_text(failures([event])),
        "event": event.to_json(),
        "counts": "units" if law is None else "rows",
        "units_for_half": half,
        "units_for_99_percent": sure,
    }


def selection_words(selection: dict[str, Any]) -> str:
    """Say from how many units on a key is published."""
    counted = "" if selection["counts"] == "units" else ", with the counts of its rows"
    return (
        f"of {selection['column']}{counted}: one of {selection['units_for_half']:,} {selection['counts']} is "
        f"published in half of releases, one of {selection['units_for_99_percent']:,} in 99 %; for "
        f"{selection['share']:.1%} of ε, and δ = {selection['may_fail_with']}"
    )


def megabytes_of_keys(plan: StatisticsPlan) -> dict[str, Any]:
    """Return what memory the numbers of `MANY_KEYS` selected keys take beyond those that are planned.

    How many keys there will be depends on the rows, and is public only once they are selected.
    """
    if not plan.selections:
        return {}
    tables = {each.table: each.column for each in plan.selections}
    numbers = sum(prod(shape) for shape in _shapes_of_a_key(plan, tables))
    return {"megabytes_of_many_keys": ceil(numbers * MANY_KEYS * BYTES_PER_NUMBER / 1e6)}


def _shapes_of_a_key(plan: StatisticsPlan, tables: Mapping[str, str]) -> Iterator[tuple[int, ...]]:
    """Yield the shape of what is drawn of one key, for each draw of these tables."""
    yield from ((1,) for each in plan.selections if each.counted_rows is not None)
    for draw in plan.draws:
        if draw.table in tables:
            place = draw.clique.index(tables[draw.table])
            yield (*draw.shape[:place], *draw.shape[place + 1 :])


def key_memory(payload: dict[str, Any]) -> list[tuple[str, str]]:
    """Say what memory selected keys take."""
    more = payload.get("megabytes_of_many_keys")
    return [] if more is None else [("of the keys", f"about {more:,} MB of memory more for {MANY_KEYS:,} keys")]


def weights_object(draws: Sequence[StatisticsDraw]) -> dict[str, Any]:
    """Return how wide the interval of a weighted count is at lower clips of the weight; nothing without a weight."""
    weight = draws[0].weight if draws else None
    if weight is None:
        return {}
    costs = clip_costs(draws)
    told = [{"clip": plain_text(clip), "half_width_95": width} for clip, width in costs]
    return {"survey_weight": {"column": weight.column, "counts": told}}


def weight_words(table: dict[str, Any]) -> str:
    """Say what a lower clip of the weight would take off the interval of a count, and when it pays."""
    weight, named = table["survey_weight"], " × ".join(table["columns"]) or "all rows"
    ((first, most), *lower) = [(each["clip"], each["half_width_95"]) for each in weight["counts"]]
    words = [
        f"{named}: {weight['column']} up to {first} hides a whole weight, so a count is within ±{_digits(most)}",
        *(
            f"up to {clip}: ±{_digits(width)}, which pays where less than {_digits(most - width)} of a cell's weight "
            "is cut off"
            for clip, width in lower
        ),
    ]
    return "\n  ".join(words)


def _digits(width: float) -> str:
    return f"{width:,.0f}" if width >= 1000 else f"{width:.4g}"


def choice_object(choice: PlannedChoices) -> dict[str, Any]:
    """Return what is chosen: quantiles of which column, and what they cost."""
    return {
        "key": choice.key,
        "columns": list(choice.clique),
        "cells": prod(choice.shape[:-1]),
        "share": float(choice.share),
        "of": choice.choices.to_json(),
        "event": choice.event.to_json(),
    }


def quantile_methods(spec: ReleaseSpec, plan: StatisticsPlan) -> Iterator[dict[str, str]]:
    """Say by which method the quantiles of each table are drawn, and why."""
    for draw in plan.draws:
        if not isinstance(draw.addends, ValueTree):
            continue
        [product] = [each for each in statistics_product(spec.product).tables if each.name == draw.table]
        column = draw.addends.column
        [own] = [each for each in product.of if each.what == QUANTILES and each.column == column]
        chosen = any(each.choices.column == column for each in plan.choices_of(draw.table))
        why = "as the spec says"
        if not may_choose(product):
            why = "rows are weighed, or keys are selected"
        elif own.method == "auto":
            why = "the lesser expected error"
            if len(own.quantiles) * prod(draw.shape[:-1]) > MOST_CHOICES:
                why = f"more than {MOST_CHOICES:,} choices would take long"
        how = "chosen by the exponential mechanism, intervals by a tree of counts" if chosen else "a tree of counts"
        yield {"table": draw.table, "words": f"quantiles of {column}: {how} ({why})"}


def rule_object(spec: ReleaseSpec, draws: Sequence[StatisticsDraw]) -> dict[str, Any]:
    """Return what the minimum-frequency rule is on a table; nothing without a rule."""
    rule = statistics_product(spec.product).minimum_frequency
    if rule is None:
        return {}
    return {"minimum_frequency": rule_of_table(rule, [(draw.key, draw.addends, draw.event) for draw in draws])}


def rule_words(table: dict[str, Any]) -> str:
    """Say from which noisy counts on a cell is published, and how often the rule errs."""
    rule = table["minimum_frequency"]
    counts = " and ".join(f"{each['threshold']:,} (draw {each['draw']}, t {each['t']:,})" for each in rule["draws"])
    return (
        f"{table['table']}: a cell is published from a noisy count of {counts} on. Of fewer than {rule['k']:,} rows, "
        f"its numbers are published with a probability of at most {rule['published_although_below_k']}; of "
        f"{rule['mostly_published_from']:,} rows or more, it is published in 97.5 % of releases"
    )


# --- What a plan of statistics says of each draw.


MOST_LINES: Final = 30
"""So many draws are shown a line each."""
_NUMBERS_OF_DRAWS: Final = ("share",)
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
    console.print(table(("draw", "of", "clip", *_NUMBERS_OF_DRAWS), lines[:MOST_LINES], numbers=_NUMBERS_OF_DRAWS))
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
