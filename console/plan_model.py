"""The plan of a release of a model: what its trainer will draw, for people and as JSON."""

from __future__ import annotations

from typing import Any

from console.plan_synthetic import BASE_MEGABYTES, BASE_SECONDS, claim_object, claim_words
from privacy.classifiers.classifier_model import parameters_in
from privacy.classifiers.trainer import ClassificationTask, trainer
from privacy.generators.release_plan import FittedPlan


def plan_object(plan: FittedPlan[ClassificationTask]) -> dict[str, Any]:
    """Return the part of the plan that only a model has; data-free."""
    made, made_by = plan.made, trainer(plan.by)
    widths = plan.asked.widths(made_by.hidden(plan.options))
    return {
        "trainer": plan.by,
        "options": plan.options.model_dump(mode="json", by_alias=True),
        "label": plan.asked.label,
        "columns": list(plan.asked.domain.columns),
        "widths": list(widths),
        "parameters": parameters_in(widths),
        "guarantee": made_by.says,
        "steps": [
            {"what": each.what, "draws": each.count, "share": each.share, "noise": each.noise} for each in made.steps
        ],
        **claim_object(plan),
        "events": [event.to_json() for event in made.events],
        "megabytes": BASE_MEGABYTES + round(made.megabytes),
        "seconds": round(BASE_SECONDS + made.seconds, 1),
    }


def facts(payload: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what is printed above the steps."""
    return [
        claim_words(payload),
        ("trainer", f"{payload['trainer']}: {payload['label']} from {len(payload['columns']) - 1} other columns"),
        ("network", f"{' → '.join(map(str, payload['widths']))}, {payload['parameters']:,} weights and biases"),
        ("guarantee", payload["guarantee"]),
    ]
