"""What the console shows of synthetic rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, ClassVar

from rich.console import Console

from console.output import print_facts
from console.products.fitted import FittedView, claim_words, draws_object
from contracts.release.spec import ReleaseSpec
from contracts.release.synthetic import MODIFIERS, modifier_parts, named_parts
from privacy.generators.calibration import FittedPlan
from privacy.generators.generator import SynthesisTask

# --- What the console shows of modifiers of synthetic rows; the table is in `contracts.release.synthetic`.


Lines = list[tuple[str, str]]


class ModifierView:
    """What is shown of a modifier: in `sudare plan --json`, and as lines of a plan and of a version."""

    after: ClassVar[str] = "rows"
    """The line of plan or version after which its own stand."""

    def plan_object(self, plan: FittedPlan[Any]) -> dict[str, Any]:
        """Return its part of the payload; data-free."""
        return {}

    def plan_lines(self, payload: dict[str, Any]) -> Lines:
        """Return its lines of a plan."""
        return []

    def version_lines(self, replay: dict[str, Any]) -> Lines:
        """Return its lines of a version, of the replay block of the record."""
        return []


class InsideView(ModifierView):
    """What noise does to the columns inside whose bins rows are counted."""

    after = "error"

    def plan_object(self, plan: FittedPlan[Any]) -> dict[str, Any]:
        """Return what is expected of each column's sum and ranks; of its mean where the rows are public."""
        rows = plan.public_total
        return {
            "inside_bins": {
                column: {"sum": error.sum, "rank": error.rank, **({"mean": error.sum / rows} if rows else {})}
                for column, error in plan.plan.inside_error.items()
            }
        }

    def plan_lines(self, payload: dict[str, Any]) -> Lines:
        """Return a line for each column."""
        return [
            (
                "inside bins" if place == 0 else "",
                f"{column}: ranks of quantiles ±{error['rank']:,.0f} rows, "
                + (f"mean ±{error['mean']:,.3g}" if "mean" in error else f"sum ±{error['sum']:,.3g}"),
            )
            for place, (column, error) in enumerate(payload.get("inside_bins", {}).items())
        ]


class LinkedTablesView(ModifierView):
    """The parent's rows, and the keys that lead to them."""

    def version_lines(self, replay: dict[str, Any]) -> Lines:
        """Return how many rows of the parent table there are, and by which keys they are found."""
        made, above = replay["rows"], replay["rows"].get("parents")
        if above is None:
            return []
        keys = f"{made['data']}: {above['child_key']} is {above['key']} of {above['table']}"
        return [("parents", f"{above['number']:,} rows of {above['table']}, {above['data']}"), ("keys", keys)]


class CopiesView(ModifierView):
    """How many copies there are."""

    def plan_object(self, plan: FittedPlan[Any]) -> dict[str, Any]:
        """Return their number."""
        return {"copies": plan.task.copies}

    def plan_lines(self, payload: dict[str, Any]) -> Lines:
        """Return their number."""
        return [("copies", f"{payload['copies']}, each of a model of its own")] if "copies" in payload else []

    def version_lines(self, replay: dict[str, Any]) -> Lines:
        """Return their number and the first file."""
        copies = replay.get("copies", ())
        return [("copies", f"{len(copies)}, {copies[0]['data']} and so on")] if copies else []


def with_lines(lines: Lines, added: Iterable[tuple[ModifierView, Lines]]) -> Lines:
    """Return lines with those of modifiers, each after the line that it names."""
    for view, own in added:
        names = [name for name, _ in lines]
        place = names.index(view.after) + 1 if own else 0
        lines = [*lines[:place], *own, *lines[place:]]
    return lines


class SyntheticProductView(FittedView):
    """Synthetic rows."""

    def plan_object(self, spec: ReleaseSpec, plan: FittedPlan[SynthesisTask]) -> dict[str, Any]:
        """Return the generator, its columns, and what it draws; data-free."""
        made, payload = plan.plan, dict[str, Any]()
        for _, view in modifier_parts(spec.product, "view"):
            payload |= view.plan_object(plan)
        return {
            "generator": plan.generator,
            "options": plan.options.model_dump(mode="json", by_alias=True),
            "columns": list(plan.task.domain.columns),
            "cells": plan.task.domain.cells(),
            "rows": spec.synthetic_product.rows,
            "expected_error": {str(order): error for order, error in sorted(made.expected_error.items())},
            **payload,
            **draws_object(plan, seconds=min(made.seconds, _time_limit(plan))),
        }

    def plan_facts(self, payload: dict[str, Any]) -> list[tuple[str, str]]:
        """Return what is printed above the steps."""
        rows = payload["rows"]
        errors = [f"{order}-way ±{error:,.0f}" for order, error in payload["expected_error"].items()]
        facts = [
            claim_words(payload),
            ("generator", f"{payload['generator']} on {len(payload['columns'])} columns"),
            ("rows", f"{rows:,}" if isinstance(rows, int) else "as many as are estimated (or declared public)"),
            (
                "error",
                f"mean L1 of noise alone: {', '.join(errors)}"
                if errors
                else "not known beforehand: the plan does not count every column",
            ),
        ]
        return with_lines(facts, ((view, view.plan_lines(payload)) for _, view in named_parts(MODIFIERS, "view")))

    def print_version(self, console: Console, replay: dict[str, Any]) -> None:
        """Print rows, model, and what was measured."""
        made = replay["rows"]
        measured = Counter(draw["kind"] for draw in replay["draws"] if draw["measurements"] is not None)
        facts = [
            ("generator", replay["product"]["generator"]),
            ("rows", f"{made['number']:,} ({made['from']}), {made['data']}"),
            ("model", f"{replay['model']['values']}, {replay['model']['arrays']}"),
            ("measured", f"{', '.join(f'{kind}: {n}' for kind, n in measured.items())}, in measurements/"),
        ]
        views = named_parts(MODIFIERS, "view")
        print_facts(console, with_lines(facts, ((view, view.version_lines(replay)) for _, view in views)))


def _time_limit(plan: FittedPlan[Any]) -> float:
    """Return the time limit of the fit, where its generator has one that is set [s]."""
    limit = getattr(plan.options, "time_limit", None)
    return float("inf") if limit is None else float(limit)
