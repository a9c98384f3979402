"""The table of kinds of product: the built-in ones, and those that packages register as `sudare.products`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

from contracts.plug_ins import load_place, registered

GROUP: Final = "sudare.products"
Part = Literal["spec", "check", "planning", "making", "record", "checks", "view", "evaluation", "shadow"]


@dataclass(frozen=True)
class ProductParts:
    """Where the parts of a kind of product stand, each as `module:name`; a part is loaded when it is first needed.

    Args:
        spec: the model of a spec's `product:`, a `ProductSpec`.
        check: lists what in a spec does not fit its contract: a function of both that returns findings.
        planning: how it is planned, a `ProductPlanning` (`tasks.products.product_kind`).
        making: how it is made and written, a `ProductMaking` (`tasks.products.product_kind`).
        view: what the console shows, a `ProductView` (`console.products.product_view`).
        record: what its record states, and how that is read and told, a `RecordPart`
            (`tasks.records.model.record_kinds`).
        checks: what a verification asks of its record, `ProductChecks` (`tasks.verification.product_checks`).
        evaluation: how a version is compared with real rows, an `EvaluateProduct`
            (`flows.evaluation.evaluate`); None where that is not offered.
        shadow: what an attacker sees of a release, made of public rows (`tasks.evaluation.shadow_releases`); None
            where no attack is offered.
    """

    spec: str
    check: str
    planning: str
    making: str
    view: str
    record: str | None = None
    checks: str | None = None
    evaluation: str | None = None
    shadow: str | None = None

    def load(self, part: Part) -> Any:
        """Return a part; only its own modules are loaded."""
        return load_place(str(getattr(self, part)))


BUILT_IN: Final = {
    "tables": ProductParts(
        spec="contracts.release.tables.tables:TablesProduct",
        check="contracts.release.table_rules:tables_findings",
        planning="tasks.products.tables.planning:TablesPlanning",
        making="tasks.products.tables.making:TablesMaking",
        record="tasks.records.tables_record:TablesRecordPart",
        checks="tasks.products.tables.checks.table_checks:TablesChecks",
        evaluation="flows.evaluation.evaluate:evaluate_table_version",
        shadow="tasks.evaluation.seen_products:seen_tables",
        view="console.products.tables:TablesProductView",
    ),
    "synthetic": ProductParts(
        spec="contracts.release.synthetic:SyntheticProduct",
        check="contracts.release.fitted_rules:synthetic_findings",
        planning="tasks.products.synthetic.planning:SyntheticPlanning",
        making="tasks.products.synthetic.fit:SyntheticMaking",
        record="tasks.records.fitted_groups.synthesis_groups:SyntheticRecordPart",
        checks="tasks.products.synthetic.row_checks:SyntheticChecks",
        evaluation="flows.evaluation.evaluate:evaluate_rows",
        shadow="tasks.evaluation.seen_products:seen_rows",
        view="console.products.synthetic:SyntheticProductView",
    ),
    "classifier": ProductParts(
        spec="contracts.release.classifier:ClassifierProduct",
        check="contracts.release.fitted_rules:classifier_findings",
        planning="tasks.products.classifier.planning:ClassifierPlanning",
        making="tasks.products.classifier.making:ClassifierMaking",
        record="tasks.records.fitted_groups.classifier_groups:ClassifierRecordPart",
        checks="tasks.products.classifier.weight_checks:ClassifierChecks",
        evaluation="flows.evaluation.evaluate:evaluate_classifier",
        shadow="tasks.evaluation.seen_products:seen_classifier",
        view="console.products.classifier:ClassifierProductView",
    ),
    "statistics": ProductParts(
        spec="contracts.release.statistics:StatisticsProduct",
        check="contracts.release.statistics_rules:statistics_findings",
        planning="tasks.products.statistics.planning:StatisticsPlanning",
        making="tasks.products.statistics.making:StatisticsMaking",
        record="tasks.records.statistics_fields:StatisticsRecordPart",
        checks="tasks.products.statistics.statistics_checks:StatisticsChecks",
        evaluation="flows.evaluation.evaluate:evaluate_statistics_version",
        view="console.products.statistics:StatisticsProductView",
    ),
    "spine": ProductParts(
        spec="contracts.release.spine.product:SpineProduct",
        check="contracts.release.spine.rules:spine_findings",
        planning="tasks.products.spine.planning:SpinePlanning",
        making="tasks.products.spine.making:SpineMaking",
        record="tasks.records.spine.spine_fields:SpineRecordPart",
        checks="tasks.products.spine.spine_checks:SpineChecks",
        evaluation="flows.evaluation.place_evaluations:evaluate_place_version",
        view="console.products.spine:SpineProductView",
    ),
}


@cache
def product_kinds() -> dict[str, ProductParts]:
    """Return the parts of each kind by its name; a built-in kind cannot be taken by a package.

    Only built-in kinds are recorded and verified: a run refuses others before it charges (`flows.release`).
    """
    return {**{point.name: point.load() for point in registered(GROUP)}, **BUILT_IN}
