"""What the console shows of synthetic rows."""

from __future__ import annotations

from collections import Counter
from typing import Any

from rich.console import Console

from console.products.fitted import FittedView, claim_words, draws_object
from console.render import print_facts
from contracts.release.spec import ReleaseSpec
from privacy.generators.generator import SynthesisTask
from privacy.generators.release_plan import FittedPlan


class SyntheticProductView(FittedView):
    """Synthetic rows."""

    def plan_object(self, spec: ReleaseSpec, plan: FittedPlan[SynthesisTask]) -> dict[str, Any]:
        """Return the generator, its columns, and what it draws; data-free."""
        made = plan.plan
        return {
            "generator": plan.generator,
            "options": plan.options.model_dump(mode="json", by_alias=True),
            "columns": list(plan.task.domain.columns),
            "cells": plan.task.domain.cells(),
            "rows": spec.synthetic_product.rows,
            **({"copies": plan.task.copies} if plan.task.copies else {}),
            "expected_error": {str(order): error for order, error in sorted(made.expected_error.items())},
            **({"inside_bins": _inside_object(plan)} if made.inside_error else {}),
            **draws_object(plan, seconds=min(made.seconds, _time_limit(plan))),
        }

    def plan_facts(self, payload: dict[str, Any]) -> list[tuple[str, str]]:
        """Return what is printed above the steps."""
        rows = payload["rows"]
        errors = [f"{order}-way ±{error:,.0f}" for order, error in payload["expected_error"].items()]
        return [
            claim_words(payload),
            ("generator", f"{payload['generator']} on {len(payload['columns'])} columns"),
            ("rows", f"{rows:,}" if isinstance(rows, int) else "as many as are estimated (or declared public)"),
            *([("copies", f"{payload['copies']}, each of a model of its own")] if "copies" in payload else []),
            (
                "error",
                f"mean L1 of noise alone: {', '.join(errors)}"
                if errors
                else "not known beforehand: of some columns it is not planned that they are measured",
            ),
            *_inside_facts(payload.get("inside_bins", {})),
        ]

    def print_version(self, console: Console, replay: dict[str, Any]) -> None:
        """Print rows, model, and what was measured."""
        made, copies = replay["rows"], replay.get("copies", ())
        measured = Counter(draw["kind"] for draw in replay["draws"] if draw["measurements"] is not None)
        print_facts(
            console,
            [
                ("generator", replay["product"]["generator"]),
                *_accepted(replay),
                ("rows", f"{made['number']:,} ({made['from']}), {made['data']}"),
                *([("copies", f"{len(copies)}, {copies[0]['data']} and so on")] if copies else []),
                *_parents(made),
                ("model", f"{replay['model']['values']}, {replay['model']['arrays']}"),
                ("measured", f"{', '.join(f'{kind}: {n}' for kind, n in measured.items())}, in measurements/"),
            ],
        )


def _inside_object(plan: FittedPlan[Any]) -> dict[str, dict[str, float]]:
    """Return what noise inside bins does to each column by expectation; to its mean where the rows are public."""
    rows = plan.public_total
    return {
        column: {"sum": error.sum, "rank": error.rank, **({"mean": error.sum / rows} if rows else {})}
        for column, error in plan.plan.inside_error.items()
    }


def _inside_facts(errors: dict[str, dict[str, float]]) -> list[tuple[str, str]]:
    """Return a line for each column whose bins are looked into."""
    return [
        (
            "inside bins" if place == 0 else "",
            f"{column}: ranks of quantiles ±{error['rank']:,.0f} rows, "
            + (f"mean ±{error['mean']:,.3g}" if "mean" in error else f"sum ±{error['sum']:,.3g}"),
        )
        for place, (column, error) in enumerate(errors.items())
    ]


def _accepted(replay: dict[str, Any]) -> list[tuple[str, str]]:
    """Return which candidate was accepted, where there were some."""
    tried = [draw["candidate"] for draw in replay["draws"] if draw["kind"] == "acceptance"]
    if not tried:
        return []
    candidates = replay["product"]["options"]["candidates"]
    return [("accepted", f"candidate {tried[-1] + 1} of {len(candidates)}, {candidates[tried[-1]]['generator']}")]


def _parents(made: dict[str, Any]) -> list[tuple[str, str]]:
    """Return how many rows of a parent table there are, where two tables were made."""
    above = made.get("parents")
    if above is None:
        return []
    keys = f"{made['data']}: {above['child_key']} is {above['key']} of {above['table']}"
    return [("parents", f"{above['number']:,} rows of {above['table']}, {above['data']}"), ("keys", keys)]


def _time_limit(plan: FittedPlan[Any]) -> float:
    """Return the time limit of the fit, where its generator has one that is set [s]."""
    limit = getattr(plan.options, "time_limit", None)
    return float("inf") if limit is None else float(limit)
