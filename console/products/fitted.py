"""What the console shows alike of synthetic rows and classifiers: the steps of a generator or trainer."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from console.output import table
from console.products.product_view import ExpectedWidth
from privacy.generators.calibration import FittedPlan

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
    planned = plan.task.epsilon
    return {"claimed_by": plan.claimed_by, "noise_epsilon": f"{float(planned):.9g}"}


def claim_words(payload: dict[str, Any]) -> tuple[str, str]:
    """Say the same in words."""
    return "claim", f"{CLAIMS[payload['claimed_by']]}; noise as for ε = {payload['noise_epsilon']} by Rényi losses"


class FittedView:
    """What is fitted: synthetic rows, or a classifier."""

    def noise_words(self, payload: dict[str, Any]) -> str:
        """Steps have noise of their own."""
        return ""

    def expected_widths(self, payload: dict[str, Any]) -> list[ExpectedWidth]:
        """Return nothing: how far off rows and models are depends on the data."""
        return []

    def print_draws(self, console: Console, payload: dict[str, Any]) -> None:
        """Print the steps of the generator or trainer."""
        rows = [
            (each["what"], f"{each['draws']:,}", f"{each['share']:.1%}", each["noise"]) for each in payload["steps"]
        ]
        console.print(table(("step", *NUMBERS, "noise"), rows, numbers=NUMBERS))
        for note in payload["notes"]:
            console.print(note)


def draws_object(plan: FittedPlan[Any], *, seconds: float) -> dict[str, Any]:
    """Return what is drawn, how the claim follows from it, and what it takes."""
    made = plan.plan
    return {
        "steps": [
            {"what": each.what, "draws": each.count, "share": each.share, "noise": each.noise} for each in made.steps
        ],
        "notes": list(made.notes),
        **claim_object(plan),
        "events": [event.to_json() for event in made.events],
        "megabytes": BASE_MEGABYTES + round(made.megabytes),
        "seconds": round(BASE_SECONDS + seconds, 1),
    }
