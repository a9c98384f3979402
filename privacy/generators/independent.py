"""Independent: one-way marginals only; the columns of a synthetic row know nothing of each other.

The baseline that every other generator must beat on data whose columns depend on each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from privacy.generators.fitting import (
    Fitting,
    MarginalGenerator,
    WeightedClique,
    all_of_order,
    check,
    check_size,
    check_time,
    drawing_seconds,
    estimation_seconds,
    expected_error,
    noise_in_words,
    weighted,
)
from privacy.generators.generator import (
    CountsSource,
    DrawSeed,
    FitProgress,
    Fitted,
    GeneratorPlan,
    Model,
    Options,
    PlannedStep,
    Spending,
    SynthesisTask,
)

if TYPE_CHECKING:
    from contracts.contract.impossible_cells import Clique
    from privacy.grant.draws import Draws
    from privacy.marginals.graph import CellDomain

# --- Fixed.


class FixedOptions(Options):
    """Options of `fixed`.

    Args:
        cliques: what is measured; each with a weight, 1 if none is given.
    """

    cliques: tuple[WeightedClique, ...] = Field(min_length=1)


class Fixed(MarginalGenerator):
    """Measures a given list of cliques."""

    name: ClassVar[str] = "fixed"
    options = FixedOptions

    def plan(self, task: SynthesisTask, options: FixedOptions) -> GeneratorPlan:
        """Plan one measurement a clique.

        Raises:
            CannotGenerate: unknown columns, a model above the cap, no possible row, or too small a charge.
        """
        weights = weighted(task.domain, options.cliques, "cliques")
        return replace(plan_list(task, options, weights, "marginals"), notes=_uncounted_note(task, weights))

    def fit(
        self,
        task: SynthesisTask,
        options: FixedOptions,
        plan: GeneratorPlan,
        counts: CountsSource,
        grant: Draws,
        progress: FitProgress,
        seed: DrawSeed,
    ) -> Fitted[Model]:
        """Measure the cliques in the order of the list, and estimate.

        Raises:
            OutOfTime: the time limit has passed before all was measured.
        Privacy: exactly the planned events.
        """
        fitting = Fitting(task, options, counts, grant, progress, self._clock)
        return fit_list(fitting, weighted(task.domain, options.cliques, "cliques"))


def _uncounted_note(task: SynthesisTask, weights: Mapping[Clique, Fraction]) -> tuple[str, ...]:
    """Name the columns of which nothing is measured; nothing where there are none."""
    measured = {name for clique in weights for name in clique}
    left = ", ".join(name for name in task.modelled if name not in measured)
    return (
        (f"columns in no clique, of which nothing is measured and values are drawn evenly: {left}",) if left else ()
    )


def plan_list(task: SynthesisTask, options: Options, weights: Mapping[Clique, Fraction], what: str) -> GeneratorPlan:
    """Plan the measurement of a list of cliques."""
    check(task, options, weights)
    megabytes = check_size(task, options, weights, f"the {what} together")
    spending = Spending(task, options.noise)
    events = tuple(spending.event(part) for part in shares(task.domain, weights, spending))
    check_time(options, drawing_seconds(len(events)))
    seconds = drawing_seconds(len(events)) + estimation_seconds(megabytes)
    steps = (PlannedStep(what, len(events), 1.0, noise_in_words(events)),)
    error = expected_error(task.domain, list(zip(weights, events, strict=True)))
    return GeneratorPlan(events, steps, megabytes, seconds, error)


def fit_list(fitting: Fitting, weights: Mapping[Clique, Fraction]) -> Fitted[Model]:
    """Measure a list of cliques and estimate."""
    fitting.look_up(list(weights))
    parts = shares(fitting.asked.domain, weights, fitting.spending)
    for number, (clique, part) in enumerate(zip(weights, parts, strict=True)):
        fitting.refuse_late("marginals")
        fitting.progress(0.8 * number / len(weights), "measuring")
        fitting.measure(clique, part)
    return fitting.final()


def shares(domain: CellDomain, weights: Mapping[Clique, Fraction], spending: Spending) -> tuple[Fraction, ...]:
    """Split a budget over cliques so that the weighted sum of the expected L1 errors is least."""
    # The expected L1 error of a clique is its cells times the mean size of the noise.
    return spending.optimal([weight * domain.cells(clique) for clique, weight in weights.items()])


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
