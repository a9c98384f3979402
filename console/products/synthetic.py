"""What the console shows of synthetic rows."""

from __future__ import annotations

from collections import Counter
from typing import Any

from rich.console import Console

from console.products.fitted import FittedView, claim_words, draws_object
from console.products.modifier_views import with_lines
from console.render import print_facts
from contracts.release.spec import ReleaseSpec
from contracts.release.synthetic_modifiers import MODIFIERS, modifier_parts, named_parts
from privacy.generators.generator import SynthesisTask
from privacy.generators.release_plan import FittedPlan


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
