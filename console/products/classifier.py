"""What the console shows of a classifier."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from console.output import print_facts
from console.products.fitted import FittedView, claim_words, draws_object
from contracts.release.spec import ReleaseSpec
from privacy.classifiers.classifier import parameters_in
from privacy.classifiers.trainer import ClassificationTask, trainer
from privacy.generators.calibration import FittedPlan


class ClassifierProductView(FittedView):
    """Classifiers."""

    def plan_object(self, spec: ReleaseSpec, plan: FittedPlan[ClassificationTask]) -> dict[str, Any]:
        """Return the trainer, its network, and what it draws; data-free."""
        made_by = trainer(plan.generator)
        widths = plan.task.widths(made_by.hidden(plan.options))
        return {
            "trainer": plan.generator,
            "options": plan.options.model_dump(mode="json", by_alias=True),
            "label": plan.task.label,
            "columns": list(plan.task.domain.columns),
            "widths": list(widths),
            "parameters": parameters_in(widths),
            "guarantee": made_by.summary,
            **draws_object(plan, seconds=plan.plan.seconds),
        }

    def plan_facts(self, payload: dict[str, Any]) -> list[tuple[str, str]]:
        """Return what is printed above the steps."""
        return [
            claim_words(payload),
            ("trainer", f"{payload['trainer']}: {payload['label']} from {len(payload['columns']) - 1} other columns"),
            ("network", f"{' → '.join(map(str, payload['widths']))}, {payload['parameters']:,} weights and biases"),
            ("guarantee", payload["guarantee"]),
        ]

    def print_version(self, console: Console, replay: dict[str, Any]) -> None:
        """Print the network and its files."""
        made, product = replay["model"], replay["product"]
        print_facts(
            console,
            [
                ("trainer", product["trainer"]),
                ("tells", product["label"]),
                ("network", " → ".join(map(str, made["widths"]))),
                ("weights", made["weights"]),
                ("inputs", made["inputs"]),
                ("card", made["card"]),
            ],
        )
