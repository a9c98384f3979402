"""The table of kinds of product: the built-in ones, and those that packages register as `sudare.products`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, Literal

GROUP: Final = "sudare.products"
Part = Literal["spec", "check", "making", "checks", "view", "evaluation"]


@dataclass(frozen=True)
class ProductParts:
    """Where the parts of a kind of product stand, each as `module:name`; a part is loaded when it is first needed.

    Args:
        spec: the model of a spec's `product:`, a `ProductSpec`.
        check: lists what in a spec does not fit its contract: a function of both that returns findings.
        making: how it is planned, made, written and shown, a `ProductKind` (`tasks.products.product_kind`).
        view: what the console shows, a `ProductView` (`console.products.product_view`).
        checks: what a verification asks of its record, `ProductChecks` (`tasks.verification.product_checks`).
        evaluation: how a version is compared with real rows, an `EvaluateProduct`
            (`flows.evaluation.version_evaluation`); None where that is not offered.
    """

    spec: str
    check: str
    making: str
    view: str
    checks: str | None = None
    evaluation: str | None = None

    def load(self, part: Part) -> Any:
        """Return a part; only its own modules are loaded."""
        return EntryPoint(part, getattr(self, part), GROUP).load()


BUILT_IN: Final = {
    "tables": ProductParts(
        spec="contracts.release.tables.product:TablesProduct",
        check="contracts.release.table_rules:tables_findings",
        making="tasks.products.tables.making:TablesKind",
        checks="tasks.products.tables.checks.table_checks:TablesChecks",
        evaluation="flows.evaluation.product_evaluations:evaluate_table_version",
        view="console.products.tables:TablesProductView",
    ),
    "synthetic": ProductParts(
        spec="contracts.release.synthetic:SyntheticProduct",
        check="contracts.release.fitted_rules:synthetic_findings",
        making="tasks.products.synthetic.making:SyntheticKind",
        checks="tasks.products.synthetic.row_checks:SyntheticChecks",
        evaluation="flows.evaluation.product_evaluations:evaluate_rows",
        view="console.products.synthetic:SyntheticProductView",
    ),
    "model": ProductParts(
        spec="contracts.release.classifier:ModelProduct",
        check="contracts.release.fitted_rules:classifier_findings",
        making="tasks.products.classifier.making:ClassifierKind",
        checks="tasks.products.classifier.weight_checks:ModelChecks",
        evaluation="flows.evaluation.product_evaluations:evaluate_classifier",
        view="console.products.classifier:ClassifierProductView",
    ),
}


@cache
def product_kinds() -> dict[str, ProductParts]:
    """Return the parts of each kind by its name; a built-in kind cannot be taken by a package.

    Only built-in kinds are recorded and verified: a run refuses others before it charges (`flows.release`).
    """
    return {**{point.name: point.load() for point in entry_points(group=GROUP)}, **BUILT_IN}
