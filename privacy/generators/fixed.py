"""Fixed: measure a given list of cliques, and fit a model to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import ClassVar

from pydantic import Field

from contracts.contract.impossible_cells import Clique
from privacy.generators.fitting import Fitting, MarginalGenerator
from privacy.generators.generator import (
    CountsSource,
    DrawSeed,
    FitProgress,
    Fitted,
    GeneratorPlan,
    Model,
    PlannedStep,
    SynthesisTask,
)
from privacy.generators.options import Options
from privacy.generators.planning import (
    check,
    check_size,
    check_time,
    drawing_seconds,
    estimation_seconds,
    expected_error,
    noise_in_words,
)
from privacy.generators.spending import Spending
from privacy.generators.workload import WeightedClique, weighted
from privacy.grant.draws import Draws
from privacy.marginals.domain import CellDomain


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
