"""The plan of a synthetic release: what its generator will draw, for people and as JSON."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from console.render import table
from contracts.release.spec import ReleaseSpec
from privacy.generators.release_plan import FittedPlan

# What a run takes beside its model: the libraries, and the rows' codes and one piece of values.
BASE_MEGABYTES = 500
BASE_SECONDS = 6.0
NUMBERS = ("draws, at most", "share")
CLAIMS = {
    "pure": "pure losses add up",
    "renyi": "Rényi losses add up, at their best order",
    "pld": "by the loss distribution of the draws",
}


def claim_object(plan: FittedPlan[Any]) -> dict[str, str]:
    """Return how the claim follows from the draws, and which epsilon the noise is planned for."""
    planned = plan.asked.epsilon
    return {"claimed_by": plan.claimed_by, "noise_epsilon": f"{float(planned):.9g}"}


def claim_words(payload: dict[str, Any]) -> tuple[str, str]:
    """Say the same in words."""
    return "claim", f"{CLAIMS[payload['claimed_by']]}; noise as for ε = {payload['noise_epsilon']} by Rényi losses"


def plan_object(spec: ReleaseSpec, plan: FittedPlan[Any]) -> dict[str, Any]:
    """Return the part of the plan that tables do not have; data-free."""
    product, made = spec.synthetic_product, plan.made
    return {
        "generator": plan.by,
        "options": plan.options.model_dump(mode="json", by_alias=True),
        "columns": list(plan.asked.domain.columns),
        "cells": plan.asked.domain.cells(),
        "rows": product.rows,
        "steps": [
            {"what": each.what, "draws": each.count, "share": each.share, "noise": each.noise} for each in made.steps
        ],
        "expected_error": {str(order): error for order, error in sorted(made.expected_error.items())},
        **claim_object(plan),
        "events": [event.to_json() for event in made.events],
        "megabytes": BASE_MEGABYTES + round(made.megabytes),
        "seconds": round(BASE_SECONDS + min(made.seconds, _time_limit(plan)), 1),
    }


def _time_limit(plan: FittedPlan[Any]) -> float:
    """Return the time limit of the fit, where its generator has one that is set [s]."""
    limit = getattr(plan.options, "time_limit", None)
    return float("inf") if limit is None else float(limit)


def facts(payload: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what is printed above the steps."""
    rows = payload["rows"]
    errors = [f"{order}-way ±{error:,.0f}" for order, error in payload["expected_error"].items()]
    return [
        claim_words(payload),
        ("generator", f"{payload['generator']} on {len(payload['columns'])} columns"),
        ("rows", f"{rows:,}" if isinstance(rows, int) else "as many as are estimated (or declared public)"),
        (
            "error",
            f"mean L1 of noise alone: {', '.join(errors)}"
            if errors
            else "not known beforehand: of some columns it is not planned that they are measured",
        ),
    ]


def print_steps(console: Console, payload: dict[str, Any]) -> None:
    """Print what the generator will do."""
    rows = [(each["what"], f"{each['draws']:,}", f"{each['share']:.1%}", each["noise"]) for each in payload["steps"]]
    console.print(table(("step", *NUMBERS, "noise"), rows, numbers=NUMBERS))
