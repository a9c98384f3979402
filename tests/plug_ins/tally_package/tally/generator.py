"""Independent columns, and a tally of the first one for a tenth of the charge."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar

from privacy.generators.generator import Fitted, GeneratorPlan, Model, Options, SynthesisTask
from privacy.generators.independent import Independent
from privacy.grant.queries.query import Relation
from privacy.marginals.counts import PrivateCounts
from tally.query import TallyQuery


class Tallied:
    """The generator."""

    name: ClassVar[str] = "tallied"
    options = Options

    def plan(self, task: SynthesisTask, options: Options) -> GeneratorPlan:
        """Plan nine tenths for the columns."""
        plan = Independent().plan(_nine_tenths(task), options)
        event = TallyQuery(_nobodys(task), _tenth(task)).event(Relation(task.adjacency, task.rows_per_unit))
        return replace(plan, events=(*plan.events, event))

    def fit(
        self, task: SynthesisTask, options: Options, plan: GeneratorPlan, counts: Any, grant: Any, *rest: Any
    ) -> Fitted[Model]:
        fitted = Independent().fit(_nine_tenths(task), options, plan, counts, grant, *rest)
        (handle,) = counts.marginals([task.domain.columns[:1]])
        return replace(fitted, draws=(*fitted.draws, grant.draw(TallyQuery(handle, _tenth(task)), key="tally")))


def _nine_tenths(task: SynthesisTask) -> SynthesisTask:
    return replace(task, epsilon=task.epsilon * Fraction(9, 10))


def _tenth(task: SynthesisTask) -> Fraction:
    return task.epsilon / 11


def _nobodys(task: SynthesisTask) -> PrivateCounts:
    return PrivateCounts(task.domain.columns[:1], (4,), "", "", lambda: None)
