"""PrivBayes: a Bayesian network, chosen privately parent set by parent set, and the noisy marginals of its families.

Where (Zhang, Cormode, Procopiuc, Srivastava and Xiao 2017, PrivBayes, sections 4 to 6):
    X, Π            a column and its parents; a family is both together
    β               part of the budget that the choices take
    θ               usefulness: a family is measured only if its cells hold θ times their noise on average
    V               columns that are in the network already

Deviations:
    - Every cell of a family is measured, at the scale that the relation between neighbours asks for.
    - Mutual information, whose sensitivity depends on n, is the score only where n is public (replace_one, one row a
      unit). Otherwise
      the score is how far the family's counts are from what is known: the L1 distance from the model so far, in which
      X is independent of Π, less what sampling and noise alone would make of it. Its sensitivity is 1 a row.
    - Columns are measured one by one first: their counts are what a family is compared with.
    - A family is measured as soon as it is chosen, and the model is estimated from all measurements together
      (Private-PGM) instead of being read off as conditional tables: no cell is set to 0 or renormalised. Families
      that would take the model above its cap are no candidates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from math import sqrt
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from contracts.contract.impossible_cells import Clique
from privacy.generators.fitting import MarginalGenerator
from privacy.generators.generator import (
    CountsSource,
    DrawSeed,
    FitProgress,
    Fitted,
    GeneratorPlan,
    Model,
    Options,
    Spending,
    SynthesisTask,
)
from privacy.generators.staged import ChoosingFit, StagedFit, Stages, plan_stages
from privacy.grant.draws import Draws
from privacy.marginals.count_noise import mean_absolute
from privacy.marginals.graph import ModelSizes
from privacy.marginals.inference import GraphicalModel
from privacy.marginals.scores import DistanceScore, MutualInformationScore, Score

_ONE_WAY_SHARE: Final = Fraction(1, 5)
_MOST_CANDIDATES: Final = 2_000
_BIAS_UNIT: Final = 1024


class PrivBayesOptions(Options):
    """Options of `privbayes`.

    Args:
        degree: most parents of a column.
        choice_share: β.
        usefulness: θ.
    """

    degree: int = Field(default=3, ge=1, le=6)
    choice_share: float = Field(default=0.3, ge=0.01, le=0.9)
    usefulness: float = Field(default=4, gt=0, allow_inf_nan=False)


class PrivBayes(MarginalGenerator):
    """A Bayesian network of noisy families."""

    name: ClassVar[str] = "privbayes"
    options = PrivBayesOptions

    def plan(self, task: SynthesisTask, options: PrivBayesOptions) -> GeneratorPlan:
        """Plan d measurements of columns, and d - 1 choices and measurements of families.

        Raises:
            CannotGenerate: a model above the cap, no possible row, too small a charge, or too short a time limit.
        """
        stages = _stages(task, options, Spending(task, options.noise))
        return plan_stages(task, options, stages, "families", estimates=len(stages.chosen) + 2)

    def fit(
        self,
        task: SynthesisTask,
        options: PrivBayesOptions,
        plan: GeneratorPlan,
        counts: CountsSource,
        grant: Draws,
        progress: FitProgress,
        seed: DrawSeed,
    ) -> Fitted[Model]:
        """Measure the columns, then choose and measure one family after the other.

        Raises:
            OutOfTime: the time limit has passed before all was measured.
        Privacy: the budget of the plan; each draw's choice depends on released values only.
        """
        fitting = ChoosingFit(task, options, counts, grant, progress, self._clock)
        stages = _stages(task, options, fitting.spending)
        staged = StagedFit(fitting, stages)
        model = staged.columns()
        if not staged.affordable(model):
            return staged.final(model)
        network = _Network(fitting, options)
        for number, (choice, part) in enumerate(zip(stages.choices, stages.chosen, strict=True)):
            fitting.progress(0.1 + 0.8 * number / len(stages.chosen), "choosing and measuring families")
            fitting.refuse_late("families")
            family = network.choose(model, choice, part)
            staged.measure(task.domain.canonical(family), part)
            model = fitting.rough(model)
        return staged.final(model)


def _stages(task: SynthesisTask, options: PrivBayesOptions, spending: Spending) -> Stages:
    """Split the budget: β for the choices, a fifth of the rest for the columns."""
    choices = Fraction(str(options.choice_share))
    weights = [(1 - choices) * _ONE_WAY_SHARE, choices, (1 - choices) * (1 - _ONE_WAY_SHARE)]
    return Stages.of(task, spending, weights)


class _Network:
    """The network so far: which columns are in it."""

    def __init__(self, fitting: ChoosingFit, options: PrivBayesOptions) -> None:
        self._fitting, self._options = fitting, options
        self._domain = fitting.asked.domain
        # The largest column is first: it has no parents, and a parent set never has to make room for it as a child.
        first = max(self._domain.columns, key=lambda name: (self._domain.cells([name]), -self._domain.place(name)))
        self._in: list[str] = [first]

    def choose(self, model: GraphicalModel, share: Fraction, measured: Fraction) -> Clique:
        """Choose a column that is not in the network yet, with its parents; return (column, *parents)."""
        noise = mean_absolute(self._fitting.spending.event(measured))
        # θ-usefulness: a family has at most n / (θ · noise) cells.
        families = self._families(self._fitting.total() / (self._options.usefulness * noise))
        family = self._fitting.choose(self._scores(model, families, noise), share).clique
        self._in.append(family[0])
        return family

    def _families(self, most_cells: float) -> list[Clique]:
        """Return each column with each of its maximal useful parent sets, at most 2,000 in all."""
        out = [name for name in self._domain.columns if name not in self._in]
        # The highest degree that has at most 2,000 candidates.
        for degree in range(self._options.degree, 0, -1):
            found = [(name, *parents) for name in out for parents in self._parent_sets(name, degree, most_cells)]
            if found and (len(found) <= _MOST_CANDIDATES or degree == 1):
                return found
        return [(name,) for name in out]

    def _parent_sets(self, name: str, degree: int, most_cells: float) -> Iterator[Clique]:
        """Yield the parent sets of at most so many columns that are useful and fit, and lie in no larger such set."""
        own = self._domain.cells([name])
        taken: set[frozenset[str]] = set()
        known = [*self._fitting.asked.impossible, *(one.clique for one in self._fitting.measurements)]
        sizes = ModelSizes(self._domain, known)
        # From large sets to small ones, so that parts of a set that was taken are left out.
        for size in range(min(degree, len(self._in)), 0, -1):
            for parents in combinations(self._in, size):
                useful = size == 1 or own * self._domain.cells(parents) <= most_cells
                if not useful or any(set(parents) <= larger for larger in taken):
                    continue
                if sizes.with_one((name, *parents)) <= self._fitting.options.max_model_megabytes:
                    taken.add(frozenset(parents))
                    yield parents

    def _scores(self, model: GraphicalModel, families: Sequence[Clique], noise: float) -> Mapping[Clique, Score]:
        """Score families: mutual information where n is public, else the distance from the model so far."""
        asked = self._fitting.asked
        total = asked.public_total
        if total is not None and total > 1 and asked.adjacency == "replace_one" and asked.rows_per_unit == 1:
            return {family: MutualInformationScore(total) for family in families}
        expected = model.marginals(families)
        return {family: _distance(counts, noise) for family, counts in zip(families, expected, strict=True)}


def _distance(expected: NDArray[np.float64], noise: float) -> DistanceScore:
    """Score a family by its distance from what is expected, less what sampling and noise make of it."""
    # Counts about n spread by sqrt(n) through sampling, and their mean deviation is sqrt(2 / pi) of that.
    sampling = float(np.sqrt(np.maximum(expected, 0.0)).sum()) * sqrt(2 / np.pi)
    bias = Fraction(round((sampling + noise * expected.size) * _BIAS_UNIT), _BIAS_UNIT)
    return DistanceScore(np.rint(expected).astype(np.int64), Fraction(1), bias)
