"""What a plan of statistics says of a clip that is found, of keys that are selected, and of what a weight costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil, prod
from typing import Any, Final

from contracts.domains.value_trees import ValueTree
from contracts.reading.scalars import plain_text
from contracts.release.spec import ReleaseSpec
from contracts.release.statistic_forms import QUANTILES
from contracts.release.statistics import statistics_product
from privacy.accounting.amounts import atto_to_text
from privacy.accounting.keep_chances import ONE, keep_chances
from privacy.accounting.key_selection import failures
from privacy.statistics.cell_suppression import rule_of_table
from privacy.statistics.choices import PlannedChoices
from privacy.statistics.expected_errors import clip_costs
from privacy.statistics.plan import StatisticsDraw, StatisticsPlan
from privacy.statistics.quantile_method import MOST_CHOICES, may_choose
from privacy.statistics.selections import PlannedSelection

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
