"""Finished runs of adaptive tables, for the tests: floors of wards of a hospital, with more and less detail."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import ClassVar

from privacy.accounting.amounts import ATTO, PICO
from privacy.accounting.calculus import Calculus, PureCalculus, RenyiCalculus
from privacy.table_plans.adaptive_plan import AdaptivePlan
from tests.worlds.statistics import StatisticsScenario

ADAPT = "{share: 0.1, levels: [[], [insured], [insured, floor]], thresholds: [200, 500]}"


@dataclass
class AdaptiveScenario(StatisticsScenario):
    """What a finished run of adaptive tables is made from."""

    product: str = f"{{kind: adaptive, tables: [{{by: [ward], adapt: {ADAPT}}}]}}"
    delta: str = "1e-9"
    calculus: Calculus = field(default_factory=lambda: RenyiCalculus(Fraction(12)))
    cap: tuple[int, int] = (20 * PICO, ATTO // 10**9)
    formats: str = "[parquet]"
    release: str = "wards"
    plan_type: ClassVar[type] = AdaptivePlan


def of_wards() -> AdaptiveScenario:
    """Add and remove; one table, declared thresholds."""
    return AdaptiveScenario()


def without_delta() -> AdaptiveScenario:
    """The same with Laplace noise, paid by an account that adds up pure losses."""
    return replace(
        of_wards(),
        product=of_wards().product.replace("kind: adaptive", "kind: adaptive, mechanism: laplace"),
        delta="0",
        calculus=PureCalculus(),
        cap=(20 * PICO, 0),
        release="pure",
    )


def of_patients() -> AdaptiveScenario:
    """Replace one, three rows a patient, two tables, thresholds by the noise, bins, structural zeros; CSV, parts."""
    tables = (
        "[{by: [ward, insured], weight: 2, adapt: {share: 0.2, "
        "levels: [[], [{age: 0..99 by 50}], [{age: 0..99 by 50}, floor], [age, floor]], relative_error: 0.6}}, "
        f"{{by: [floor], name: floors, adapt: {ADAPT.replace('floor', 'ward')}}}]"
    )
    return replace(
        of_wards(),
        privacy="{unit: {kind: id, scope: block, column: patient, max_rows_per_unit: 3}, "
        "adjacency: replace_one, ZEROS}",
        unit="patient",
        product=f"{{kind: adaptive, tables: {tables}}}",
        formats="[parquet, csv, parts]",
        epsilon="8",
        release="patients",
    )
