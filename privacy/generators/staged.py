"""A fit in three stages: all columns, private choices, and the measurement of what was chosen.

The columns come first. Then released values and public sizes tell whether structure can be afforded. Where

    x       what an edge of the network takes of the budget: its choice and its measurement
    price   what a unit of budget takes off the error of all pairs, if it makes the columns more exact (`precision`)
    u       n / 2, how far a chosen pair may be off at first, when nobody knows yet (`FIRST_MOVE`)
    E_r     what noise makes of the error of r: of a column as it is measured, of a pair as it would be

an edge is expected to take  √(E_a² + E_b² + u²) - √(E_a² + E_b² + E_ab²)  off the error of its pair. If that is more
than  price · x  on the mean over all pairs, the network is chosen and measured. If not, nothing is chosen, and the
columns are measured again with all that is left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import hypot
from statistics import fmean
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from contracts.message import message
from privacy.accounting.events import ZeroConcentrated
from privacy.generators.fitting import (
    Fitting,
    check,
    check_time,
    drawing_seconds,
    estimation_seconds,
    expected_error,
    noise_in_words,
)
from privacy.generators.generator import Fitted, GeneratorPlan, Model, Options, PlannedStep, Spending, SynthesisTask
from privacy.grant.queries.choice import ChoiceQuery
from privacy.marginals.count_noise import mean_absolute
from privacy.marginals.scores import Candidate, Score

if TYPE_CHECKING:
    from contracts.contract.impossible_cells import Clique
    from privacy.arrays import Floats
    from privacy.grant.measurement import Selection
    from privacy.marginals.inference import GraphicalModel

# --- What a budget buys where it makes more exact what is measured already, and when a new marginal is worth more.


FIRST_MOVE: Final = 0.5
"""How far a marginal may be off that nobody measured, of all rows: columns that determine each other are off by about
twice that."""
NO_STRUCTURE: Final = message(
    "no marginal was chosen: what the columns have in common cannot be told from noise here"
)
_PASSES: Final = 6
_SMALL: Final = 1024
_LEAST_PART: Final = 1e-3
"""A clique that would get less than this share of what is left gets nothing."""


def noise_error(known: Floats, size: float) -> float:
    """Return E, what noise of a mean size makes of a marginal's error: the sum of min(size, expected rows) [rows]."""
    return float(np.minimum(np.maximum(known, 0.0), size).sum())


def cells_that_count(known: Floats, size: float) -> float:
    """Return n = E / size, at least 1."""
    return max(1.0, noise_error(known, size) / size)


@dataclass(frozen=True)
class Allocation:
    """How a budget is spread over what is measured.

    Args:
        shares: in the order in which they are to be drawn, the largest first; they add up to the budget exactly.
        price: what a unit of the budget takes off the workload's error [rows].
    """

    shares: Mapping[Clique, Fraction]
    price: float


class Precision:
    """What each measured clique has got of the budget.

    Args:
        workload: c_s.
        spending: the budget.
    """

    def __init__(self, workload: Mapping[Clique, Fraction], spending: Spending) -> None:
        self._workload, self._spending = workload, spending
        self._parts = {each: _parts(each) for each in workload}
        self._spent: dict[Clique, Fraction] = {}
        self._power = 0.5 if isinstance(spending.budget, ZeroConcentrated) else 1.0
        # e(t) = k t^-a where the noise is well above a row, as that of a small share is.
        small = spending.total / _SMALL
        self._unit = self.size(small) * float(small) ** self._power

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """What is measured, in the order of the first draws."""
        return tuple(self._spent)

    def add(self, clique: Clique, share: Fraction) -> None:
        """Note a measurement."""
        self._spent[clique] = self._spent.get(clique, Fraction(0)) + share

    def size(self, share: Fraction) -> float:
        """Return the mean size of the noise of a measurement that takes a share [rows]."""
        return mean_absolute(self._spending.event(share))

    def allocate(
        self, known: Mapping[Clique, NDArray[np.float64]], unknown: Mapping[Clique, float], left: Fraction
    ) -> Allocation:
        """Spread what is left of the budget over what is measured.

        Args:
            known: the model's counts of each measured clique.
            unknown: u_s of the workload's cliques; 0 where there is none.
            left: > 0.
        """
        cliques, power, unit = self.cliques, self._power, self._unit
        spent = np.array([float(self._spent[each]) for each in cliques])
        shares = spent
        for _ in range(_PASSES):
            sizes = unit * shares**-power
            cells = np.array([cells_that_count(known[each], size) for each, size in zip(cliques, sizes, strict=True)])
            gains = self._weights(cells * sizes, unknown) * cells
            shares, level = _filled(spent, gains ** (1 / (power + 1)), float(left))
        # Lagrange: w n a k t^-(a + 1) at t = level (w n)^(1 / (a + 1)).
        price = power * unit * level ** -(power + 1)
        return Allocation(_exact(cliques, shares - spent, left, self._spending), price)

    def _weights(self, errors: Floats, unknown: Mapping[Clique, float]) -> Floats:
        """Return w_r, the sum over s of c_s E_r / err_s, in the order of what is measured."""
        place = {each: number for number, each in enumerate(self._spent)}
        weights = np.zeros(len(place))
        for clique, weight in self._workload.items():
            inside = [place[part] for part in self._parts[clique] if part in place]
            apart = 0.0 if clique in place else unknown.get(clique, 0.0)
            whole = float(np.sqrt((errors[inside] ** 2).sum() + apart**2))
            if whole > 0:
                weights[inside] += float(weight) * errors[inside] / whole
        return np.maximum(weights, 1e-12)


def _filled(spent: Floats, wanted: Floats, left: float) -> tuple[Floats, float]:
    """Return max(spent, level · wanted) and the level at which that takes what is left."""
    order = np.argsort(spent / wanted, kind="stable")
    # The level if the first 1, 2, ... get something; it is right for the last of those that it still lifts.
    levels = (left + np.cumsum(spent[order])) / np.cumsum(wanted[order])
    lifted = levels >= (spent / wanted)[order]
    level = float(levels[np.flatnonzero(lifted)[-1]])
    return np.maximum(spent, level * wanted), level


def _exact(cliques: Sequence[Clique], parts: Floats, left: Fraction, spending: Spending) -> dict[Clique, Fraction]:
    """Round the parts to shares that add up to what is left; the last takes what rounding leaves."""
    whole = float(parts.sum())
    order = [int(each) for each in np.argsort(-parts, kind="stable") if parts[each] >= _LEAST_PART * whole]
    kept = float(parts[order].sum())
    shares = {cliques[each]: spending.down(left * Fraction(float(parts[each]) / kept)) for each in order[:-1]}
    shares[cliques[order[-1]]] = left - sum(shares.values())
    return {clique: share for clique, share in shares.items() if share > 0}


def _parts(clique: Clique) -> tuple[Clique, ...]:
    """Return all non-empty subsets of a clique, in its order of columns."""
    return tuple(part for size in range(1, 1 + len(clique)) for part in combinations(clique, size))


_LEAST_LEFT: Final = Fraction(1, 1000)
"""Less of the budget than this is rounding, and is not measured again."""
_SECONDS_PER_CANDIDATE: Final = 4e-5
"""Of each choice among all pairs."""


@dataclass(frozen=True)
class Stages:
    """The share of each draw, if structure can be afforded.

    Args:
        columns: of the one-way marginals.
        choices: of the choices.
        chosen: of the measurements of what was chosen.
    """

    columns: tuple[Fraction, ...]
    choices: tuple[Fraction, ...]
    chosen: tuple[Fraction, ...]

    @classmethod
    def of(cls, task: SynthesisTask, spending: Spending, weights: Sequence[Fraction | int]) -> Stages:
        """Split a budget over the stages by three weights, and each stage evenly over its draws.

        Args:
            task: with d columns to model there are d - 1 choices, and d beside given columns. Without a choice all
                goes to the columns.
            spending: gives the budget.
            weights: of the stages, > 0.
        """
        columns = len(task.modelled)
        edges = [1] * (columns - 1 + bool(task.given))
        if not edges:
            return cls((spending.total,), (), ())
        first, choices, chosen = spending.split(spending.total, weights)
        return cls(spending.split(first, [1] * columns), *(spending.split(part, edges) for part in (choices, chosen)))


class ChoosingFit(Fitting):
    """A fit that also makes private choices among marginals."""

    def choose(self, scores: Mapping[Clique, Score], part: Fraction) -> Selection:
        """Choose one of the cliques for a share of the budget."""
        self.look_up(list(scores))
        candidates = [Candidate(self._handles[clique], score) for clique, score in scores.items()]
        key = self._key_of_choice
        chosen = self._grant.draw(ChoiceQuery(tuple(candidates), self.spending.chooses(part)), key=key)
        self.spending.take(chosen.event)
        self.selections.append(chosen)
        return chosen

    def ended_early(self, nothing_measured: bool) -> bool:
        """Say whether the time limit ends the choices here, or ended them here when this fit was first made.

        A fit that is made again, after a crash or by who checks it, comes to the same end whatever its clock says:
        a choice is due, and not it but the next measurement was drawn.

        Args:
            nothing_measured: then there is no model to end with.
        Raises:
            OutOfTime: it ends here, and nothing was measured.
        """
        if self.options.time_limit is None or self._grant.holds(self._key_of_choice):
            return False
        if nothing_measured:
            self.refuse_late("first marginal")
        return self.late or self._grant.holds(self._key_of_measurement)

    @property
    def _key_of_choice(self) -> str:
        return f"choice-{len(self.selections) + 1:04d}"


class StagedFit:
    """The draws of one fit in stages.

    Args:
        fitting: measures and chooses.
        stages: the share of each draw.
    """

    def __init__(self, fitting: Fitting, stages: Stages) -> None:
        self._fitting, self._stages = fitting, stages
        self.pairs = asked_pairs(fitting.asked)
        self._precision = Precision(dict.fromkeys(self.pairs, Fraction(1)), fitting.spending)
        self._unknown: Mapping[Clique, float] = {}

    def measure(self, clique: Clique, part: Fraction) -> None:
        """Measure a clique for a share of the budget."""
        self._precision.add(clique, part)
        self._fitting.measure(clique, part)

    def columns(self) -> GraphicalModel:
        """Measure all columns, and return the model in which they are independent.

        Raises:
            OutOfTime: the time limit has passed before all was measured.
        """
        for name, part in zip(self._fitting.asked.modelled, self._stages.columns, strict=True):
            self._fitting.refuse_late("one-way marginals")
            self.measure((name,), part)
        return self._fitting.rough()

    def affordable(self, independent: GraphicalModel) -> bool:
        """Say whether an edge is worth its share of the budget; post-processing."""
        if not self._stages.chosen:
            return False
        pairs = self.pairs
        columns, stages = self._precision.cliques, self._stages
        rows, size = self._fitting.total(), self._precision.size(stages.chosen[0])
        known = dict(zip(columns, independent.marginals(columns), strict=True))
        of_columns = {
            clique: noise_error(known[clique], self._precision.size(part))
            for clique, part in zip(columns, stages.columns, strict=True)
        }
        apart = FIRST_MOVE * rows
        gains = []
        for pair, counts in zip(pairs, independent.marginals(pairs), strict=True):
            of_both = hypot(of_columns.get(pair[:1], 0.0), of_columns.get(pair[1:], 0.0))
            gains.append(hypot(of_both, apart) - hypot(of_both, noise_error(counts, size)))
        self._unknown = dict.fromkeys(pairs, apart)
        price = self._precision.allocate(known, self._unknown, self._fitting.spending.left).price
        return price * float(stages.choices[0] + stages.chosen[0]) <= fmean(gains)

    def final(self, model: GraphicalModel, notes: Sequence[str] = ()) -> Fitted[Model]:
        """Measure again with all that is left what is measured, and return the model with all that was drawn."""
        fitting = self._fitting
        if fitting.spending.left > _LEAST_LEFT * fitting.spending.total:
            measure_again(self.measure, fitting, self._precision, model, self._unknown)
        unstructured = [NO_STRUCTURE] if self._stages.chosen and not fitting.selections else []
        return fitting.final(model, [*unstructured, *notes])


def asked_pairs(task: SynthesisTask) -> list[Clique]:
    """Return all pairs of columns, but those of given columns alone."""
    given = set(task.given)
    return [pair for pair in combinations(task.domain.columns, 2) if not given.issuperset(pair)]


def measure_again(
    measure: Callable[[Clique, Fraction], object],
    fitting: Fitting,
    precision: Precision,
    model: GraphicalModel,
    unknown: Mapping[Clique, float],
) -> None:
    """Measure again with all that is left of the budget what is measured, where that takes off most.

    Args:
        measure: draws.
        fitting, precision: the budget, and what has got which part of it.
        model: expected counts.
        unknown: how far cliques may be off that nobody measured [rows].
    """
    cliques = precision.cliques
    known = dict(zip(cliques, model.marginals(cliques), strict=True))
    for clique, part in precision.allocate(known, unknown, fitting.spending.left).shares.items():
        measure(clique, part)


def plan_stages(task: SynthesisTask, options: Options, stages: Stages, what: str, estimates: int) -> GeneratorPlan:
    """Plan a fit in three stages.

    Args:
        asked, options: what is asked for.
        stages: the share of each draw.
        what: what is chosen and measured, in the plural.
        estimates: how many models are estimated.
    Raises:
        CannotGenerate: a model above the cap, no possible row, too small a charge, or too short a time limit.
    """
    check(task, options, ())
    spending = Spending(task, options.noise)
    columns = tuple(spending.event(part) for part in stages.columns)
    choices = tuple(spending.choice(part) for part in stages.choices)
    chosen = tuple(spending.event(part) for part in stages.chosen)
    draws = len(columns) + len(choices) + len(chosen)
    check_time(options, drawing_seconds(draws))

    def part(shares: tuple[Fraction, ...]) -> float:
        return float(sum(shares, Fraction(0)) / spending.total)

    steps = [PlannedStep("one-way marginals", len(columns), part(stages.columns), noise_in_words(columns))]
    if choices:
        words = f"epsilon {float(choices[0].epsilon):.3g}"
        steps.append(
            PlannedStep(message("choices of {what}", what=message(what)), len(choices), part(stages.choices), words)
        )
        steps.append(PlannedStep(what, len(chosen), part(stages.chosen), noise_in_words(chosen)))
    one_way = [((name,), event) for name, event in zip(task.modelled, columns, strict=True)]
    return GeneratorPlan(
        events=(spending.budget,),
        steps=tuple(steps),
        megabytes=options.max_model_megabytes,
        seconds=drawing_seconds(draws)
        + estimates * estimation_seconds(0.0)
        + _SECONDS_PER_CANDIDATE * len(choices) * len(asked_pairs(task)),
        expected_error=expected_error(task.domain, one_way),
    )
