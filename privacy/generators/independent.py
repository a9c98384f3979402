"""Independent: one-way marginals only; the columns of a synthetic row know nothing of each other.

The baseline that every other generator must beat on data whose columns depend on each other.
"""

from __future__ import annotations

from typing import ClassVar

from privacy.generators.fitting import Fitting, MarginalGenerator
from privacy.generators.fixed import fit_list, plan_list
from privacy.generators.generator import (
    CountsSource,
    DrawSeed,
    FitProgress,
    Fitted,
    GeneratorPlan,
    Model,
    SynthesisTask,
)
from privacy.generators.options import Options
from privacy.generators.workload import all_of_order
from privacy.grant.draws import Draws


class Independent(MarginalGenerator):
    """Measures each column by itself."""

    name: ClassVar[str] = "independent"
    options = Options

    def plan(self, task: SynthesisTask, options: Options) -> GeneratorPlan:
        """Plan one measurement a column.

        Raises:
            CannotGenerate: a model above the cap, no possible row, or too small a charge.
        """
        return plan_list(task, options, all_of_order(task.domain, 1), "one-way marginals")

    def fit(
        self,
        task: SynthesisTask,
        options: Options,
        plan: GeneratorPlan,
        counts: CountsSource,
        grant: Draws,
        progress: FitProgress,
        seed: DrawSeed,
    ) -> Fitted[Model]:
        """Measure the columns in order, and estimate.

        Raises:
            OutOfTime: the time limit has passed before all was measured.
        Privacy: exactly the planned events.
        """
        fitting = Fitting(task, options, counts, grant, progress, self._clock)
        return fit_list(fitting, all_of_order(task.domain, 1))
