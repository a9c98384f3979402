"""Any generator, with counts inside bins measured before it: where values lie in the bins of numbers.

    MEASURE   for each column a noisy tree of counts inside its bins (`contracts.domains.value_bins`); for
              `bins: private` also a noisy sum of it
    JOIN      for `bins: private` neighbouring bins that the trees do not tell apart (`joined_bins`)
    FIT       the generator, with what the trees have left of the charge
    MODEL     the generator's own, its margins without bins that are noise (`standing_margins`), with whole-number
              weights of the leaves in each bin (`bin_weights`), and of the bins in each joined one

A charge of (epsilon, delta) with delta above 0 holds a zCDP budget of rho. The generator is asked for the largest
epsilon' whose budget is at most (1 - share) rho; what it leaves is split over trees and sums. A pure charge is
split in epsilon. Trees and sums are planned draws, of which the grant derives the sensitivity (docs/derivations.md,
"Counts inside bins", "Joined bins"); the weights are post-processing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar, Final

from pydantic import BaseModel

from contracts.contract.contract import Contract
from contracts.domains.value_bins import BinTree
from contracts.domains.value_lattices import ValueLattice
from privacy.accounting.amounts import AmountRefused
from privacy.accounting.events import CountNoise
from privacy.generators.bin_weights import bin_contents, inside_error
from privacy.generators.filled_model import FilledModel
from privacy.generators.fit_modifier import FitModifier
from privacy.generators.generator import (
    CannotGenerate,
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
from privacy.generators.joined_bins import JoinedCounts, joined_task
from privacy.generators.joined_fit import CountedColumn, contract_of, joins_of, known_margins, refilled
from privacy.generators.planning import noise_in_words
from privacy.generators.spending import Spending, epsilon_of_part, too_small
from privacy.generators.standing_margins import standing_margins
from privacy.grant.draws import Draws
from privacy.grant.measurement import CellSumMeasurement
from privacy.grant.queries.cell_sums import CellSumQuery
from privacy.marginals.cell_sums import cell_sum_event
from privacy.marginals.uncertainty import variance

_SECONDS_PER_TREE: Final = 0.1
_TREE_WEIGHT, _SUM_WEIGHT = 2, 3
"""What a tree misses of a mean grows with the bounds, and so does a sum's error; of ranks a tree misses little."""


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
        """Plan one tree a column, a sum beside it where bins are joined, and what the generator plans with the rest.

        Raises:
            CannotGenerate: as the generator's; too small a charge; or joined bins for a generator without potentials.
        """
        inside = self._inside
        if inside.joins:
            _refuse_unweighed(self._generator)
        events = self._events(task, options)
        rest = _rest(task, inside)
        plan = self._generator.plan(rest, options)
        # What is drawn over joined bins is chosen when they are known: as a whole it is a budget.
        later = (Spending(rest, getattr(options, "noise", None)).budget,) if inside.joins else plan.events
        trees = events[: len(inside.trees)]
        steps = [
            PlannedStep(what, len(some), float(inside.share) * part, noise_in_words(some))
            for what, some, part in self._stages(events)
        ]
        others = (replace(each, share=each.share * (1 - float(inside.share))) for each in plan.steps)
        return replace(
            plan,
            events=(*events, *later),
            steps=(*steps, *others),
            seconds=plan.seconds + _SECONDS_PER_TREE * len(events),
            inside_error={
                tree.column: inside_error(tree, axis, variance=variance(event))
                for tree, axis, event in zip(inside.trees, inside.axes, trees, strict=True)
            },
        )

    def _stages(self, events: Sequence[CountNoise]) -> list[tuple[str, Sequence[CountNoise], float]]:
        """Return what is measured in words, with its events and its part of the share."""
        trees, what = len(self._inside.trees), "counts inside bins"
        if not self._inside.joins:
            return [(what, events, 1.0)]
        part = _TREE_WEIGHT / (_TREE_WEIGHT + _SUM_WEIGHT)
        return [(what, events[:trees], part), ("sums of numbers", events[trees:], 1 - part)]

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
        inside, rest = self._inside, _rest(task, self._inside)
        drawn = self._drawn(task, options, counts, grant)
        own = replace(plan, events=plan.events[len(drawn) :])
        trees, sums = drawn[: len(inside.trees)], drawn[len(inside.trees) :]
        beside = sums if inside.joins else [None] * len(trees)
        counted = [CountedColumn(*each) for each in zip(inside.trees, inside.axes, trees, beside, strict=True)]
        terms: Any = own, counts, grant, progress, seed
        if inside.joins:
            return self._joined(rest, options, counted, drawn, terms)
        fitted = self._generator.fit(rest, options, *terms)
        contents = {
            each.tree.column: bin_contents(each.counts.values, each.tree, each.axis, variance=each.counts.variance)
            for each in counted
        }
        margins = [(each.tree, each.axis, each.counts) for each in counted]
        cells = standing_margins(fitted.model, margins, fitted.measurements)
        return replace(fitted, model=FilledModel(cells, contents), draws=(*drawn, *fitted.draws))

    def _joined(
        self,
        rest: SynthesisTask,
        options: BaseModel,
        counted: Sequence[CountedColumn],
        drawn: Sequence[CellSumMeasurement],
        terms: tuple[Any, ...],
    ) -> Fitted[Any]:
        """Join bins, let the generator count the joined ones, and spread its rows over the declared ones."""
        own, counts, *others = terms
        contract = contract_of(rest)
        joins = joins_of(counted, rest, Spending(rest, getattr(options, "noise", None)))
        source = JoinedCounts(counts, joins, contract)
        joined = replace(joined_task(rest, joins, contract), known=known_margins(counted, joins))
        fitted = self._generator.fit(joined, options, own, source, *others)
        return replace(fitted, model=refilled(fitted.model, counted, joins), draws=(*drawn, *fitted.draws))

    def _drawn(
        self, task: SynthesisTask, options: BaseModel, counts: CountsSource, grant: Draws
    ) -> list[CellSumMeasurement]:
        """Draw all trees, then all sums."""
        trees, addends, parts = len(self._inside.trees), self._addends, self._parts(task, options)
        keys = [f"inside-{number:04d}" for number in range(1, trees + 1)]
        keys += [f"sum-{number:04d}" for number in range(1, len(addends) - trees + 1)]
        asked = zip(counts.sums((), addends), parts, keys, strict=True)
        return [grant.draw(CellSumQuery(handle, part), key=key) for handle, part, key in asked]

    @property
    def _addends(self) -> tuple[BinTree | ValueLattice, ...]:
        """What is measured: trees, and sums where bins are joined."""
        trees = self._inside.trees
        return (*trees, *(tree.lattice for tree in trees)) if self._inside.joins else trees

    def _parts(self, task: SynthesisTask, options: BaseModel) -> list[Any]:
        """Return the noise of each tree and sum: of what the generator leaves, 2 parts a tree and 3 a sum."""
        spending, rest = (
            Spending(each, getattr(options, "noise", None)) for each in (task, _rest(task, self._inside))
        )
        weights = [_TREE_WEIGHT if isinstance(each, BinTree) else _SUM_WEIGHT for each in self._addends]
        parts = spending.split(spending.total - rest.total, weights)
        return [spending.buys(part) for part in parts]

    def _events(self, task: SynthesisTask, options: BaseModel) -> list[CountNoise]:
        """Return the event of each tree and sum."""
        relation: Any = {"adjacency": task.adjacency, "rows_per_unit": task.rows_per_unit}
        try:
            pairs = zip(self._addends, self._parts(task, options), strict=True)
            return [cell_sum_event(part, each, **relation) for each, part in pairs]
        except AmountRefused as refused:
            raise too_small(refused) from refused


def _refuse_unweighed(generator: Fitter[Any, Any, Any]) -> None:
    """Refuse joined bins for a generator that reads rows, or whose model has no potentials.

    Raises:
        CannotGenerate: with what is allowed.
    """
    if getattr(generator, "reads_rows", True) or not getattr(generator, "joins_bins", True):
        raise CannotGenerate(
            f"product.bins: private, which {generator.name!r} cannot take; allowed: a generator of marginals (aim, "
            "mst, privbayes, independent, fixed); do: choose one of these, or drop `bins:`"
        )


class InsideFit(FitModifier):
    """What is measured inside bins before the generator fits; with joined bins, over which the generator counts."""

    def terms(self, product: Any, contract: Contract) -> dict[str, Any]:
        """Return the trees, the declared bins, and the share."""
        trees = product.trees(contract)
        axes = tuple(contract.column(tree.column).domain.axis for tree in trees)
        return {"inside": InsideTask(trees, axes, Fraction(product.measured_inside.share), product.bins is not None)}

    def stage(self, generator: Fitter[Any, Any, Any], task: SynthesisTask) -> Fitter[Any, Any, Any]:
        """Return a generator that has it measured first."""
        return with_inside(generator, task)


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
