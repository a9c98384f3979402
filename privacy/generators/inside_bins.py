"""Any generator, with counts inside bins measured before it: where values lie in the bins of numbers.

    MEASURE   for each column a noisy tree of counts inside its bins (`contracts.domains.value_bins`)
    FIT       the generator, with what the trees have left of the charge
    MODEL     the generator's own, its margins without bins that are noise (`standing_margins`), with whole-number
              weights of the leaves in each bin (`bin_weights`)

A charge of (epsilon, delta) with delta above 0 holds a zCDP budget of rho. The generator is asked for the largest
epsilon' whose budget is at most (1 - share) rho; what it leaves is split evenly over the trees. A pure charge is
split in epsilon. The trees are planned draws, of which the grant derives the sensitivity (docs/derivations.md,
"Counts inside bins"); the weights are post-processing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Final

from pydantic import BaseModel

from contracts.domains.value_bins import BinTree
from privacy.accounting.amounts import AmountRefused
from privacy.accounting.events import CountNoise
from privacy.generators.bin_weights import bin_contents, inside_error
from privacy.generators.filled_model import FilledModel
from privacy.generators.generator import (
    CountsSource,
    DrawSeed,
    FitProgress,
    Fitted,
    Fitter,
    GeneratorPlan,
    InsideTask,
    PlannedStep,
    SynthesisTask,
)
from privacy.generators.planning import noise_in_words
from privacy.generators.spending import Spending, epsilon_of_part, too_small
from privacy.generators.standing_margins import standing_margins
from privacy.grant.draws import Draws
from privacy.grant.queries.cell_sums import CellSumQuery
from privacy.marginals.cell_sums import cell_sum_event
from privacy.marginals.uncertainty import variance

_SECONDS_PER_TREE: Final = 0.1


class InsideBins(Fitter[Any, SynthesisTask, Any]):
    """A generator that has what is measured inside bins drawn before it.

    Args:
        generator: fits the model of cells.
        inside: what is measured.
    """

    name: ClassVar[str] = "inside_bins"
    options = BaseModel

    def __init__(self, generator: Fitter[Any, Any, Any], inside: InsideTask) -> None:
        self._generator, self._inside = generator, inside

    def plan(self, task: SynthesisTask, options: BaseModel) -> GeneratorPlan:
        """Plan one tree a column, and what the generator plans with the rest.

        Raises:
            CannotGenerate: as the generator's; or too small a charge.
        """
        trees = self._trees(task, options)
        plan = self._generator.plan(_rest(task, self._inside), options)
        share = float(self._inside.share)
        step = PlannedStep("counts inside bins", len(trees), share, noise_in_words([event for _, event in trees]))
        others = (replace(each, share=each.share * (1 - share)) for each in plan.steps)
        return replace(
            plan,
            events=(*(event for _, event in trees), *plan.events),
            steps=(step, *others),
            seconds=plan.seconds + _SECONDS_PER_TREE * len(trees),
            inside_error={
                tree.column: inside_error(tree, axis, variance=variance(event))
                for axis, (tree, event) in zip(self._inside.axes, trees, strict=True)
            },
        )

    def fit(
        self,
        task: SynthesisTask,
        options: BaseModel,
        plan: GeneratorPlan,
        counts: CountsSource,
        grant: Draws,
        progress: FitProgress,
        seed: DrawSeed,
    ) -> Fitted[Any]:
        """Measure inside bins, then let the generator fit.

        Raises:
            OutOfTime, GrantExceeded: as the generator's.
        Privacy: exactly the planned events.
        """
        parts = self._parts(task, options)
        handles = counts.sums((), self._inside.trees)
        drawn = [
            grant.draw(CellSumQuery(handle, part), key=f"inside-{number:04d}")
            for number, (handle, part) in enumerate(zip(handles, parts, strict=True), 1)
        ]
        own = replace(plan, events=plan.events[len(drawn) :])
        fitted = self._generator.fit(_rest(task, self._inside), options, own, counts, grant, progress, seed)
        counted = list(zip(self._inside.trees, self._inside.axes, drawn, strict=True))
        contents = {
            tree.column: bin_contents(each.values, tree, axis, variance=each.variance) for tree, axis, each in counted
        }
        # A model that was tested is published as it was tested.
        tested = bool(fitted.of_kind("acceptance"))
        cells = fitted.model if tested else standing_margins(fitted.model, counted, fitted.measurements)
        return replace(fitted, model=FilledModel(cells, contents), draws=(*drawn, *fitted.draws))

    def _parts(self, task: SynthesisTask, options: BaseModel) -> list[Any]:
        """Return the noise of each tree: even parts of what the generator leaves."""
        spending, rest = (
            Spending(each, getattr(options, "noise", None)) for each in (task, _rest(task, self._inside))
        )
        parts = spending.split(spending.total - rest.total, [1] * len(self._inside.trees))
        return [spending.buys(part) for part in parts]

    def _trees(self, task: SynthesisTask, options: BaseModel) -> list[tuple[BinTree, CountNoise]]:
        """Return the trees with their events."""
        relation = {"adjacency": task.adjacency, "rows_per_unit": task.rows_per_unit}
        try:
            pairs = zip(self._inside.trees, self._parts(task, options), strict=True)
            return [(tree, cell_sum_event(part, tree, **relation)) for tree, part in pairs]  # type: ignore[arg-type]
        except AmountRefused as refused:
            raise too_small(refused) from refused


def with_inside(generator: Fitter[Any, Any, Any], task: SynthesisTask) -> Fitter[Any, Any, Any]:
    """Return the generator; where something is measured inside bins, one that measures it first."""
    return generator if task.inside is None else InsideBins(generator, task.inside)


def _rest(task: SynthesisTask, inside: InsideTask) -> SynthesisTask:
    """Return what the generator is asked for: the same, for less."""
    try:
        epsilon = epsilon_of_part(task, 1 - inside.share)
    except AmountRefused as refused:
        raise too_small(refused) from refused
    return replace(task, epsilon=epsilon, inside=None)
