"""AIM, the adaptive and iterative mechanism: measure, round by round, the marginal that the model knows worst.

Where (Miura et al. 2025, algorithms 2 to 4; McKenna et al. 2022, algorithms 2 to 4):
    W, c_s      workload and its weights            W₊      its downward closure, the candidates
    ρ, α        budget, 0.9                         w_r     sum over s in W of c_s |r ∩ s|
    x           what a round takes                  p_r     counts of clique r, exact or the model's
    E_r         what noise makes of r's error, and n_r, the cells that count: `precision`

The budget, in exact rationals, of which every draw takes its share:
    1. three twentieths measure the columns, spread by the cells that they have
    2. rounds: (1 - α) x chooses, αx measures, more of it where more cells count. x doubles when a round has moved the
       model by less than E_r. There is a round only if what the rounds before moved is more than x would take off the
       error if it made more exact what is measured already: where structure cannot be afforded, there is none
    3. all that is left, a quarter at least, measures again what is measured, where that takes off most

Deviations from the paper:
    - Its rounds begin at a budget of ρ/16d, quadruple, and take all; marginals are measured again by new choices. Its
      columns get what a round gets. On ACS (24 columns, 9,000 rows) at epsilon 0.1 its pairs were worse than
      independent columns.
    - The bias of a score is E_r, and not √(2/π) σ n for all cells of r: estimation does not follow the noise of cells
      where next to nobody is expected.
    - Under replace_one a measurement costs 1/σ² and the score's sensitivity is 2 w_r: the grant derives both.
    - The model's counts in a score are rounded to whole rows.
    - With δ = 0 the budget is ε itself, noise is Laplace, and choices and measurements add up plainly.
    - A clique measured again with noise below one row counts as no improvement: what is left goes into fewer rounds.
    - A time limit ends the rounds early; step 3 then takes more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from contracts.message import message
from privacy.generators.fitting import (
    MarginalGenerator,
    WeightedClique,
    all_of_order,
    check,
    check_time,
    downward_closure,
    drawing_seconds,
    estimation_seconds,
    expected_error,
    noise_in_words,
    relevance,
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
from privacy.generators.staged import (
    FIRST_MOVE,
    NO_STRUCTURE,
    ChoosingFit,
    Precision,
    cells_that_count,
    measure_again,
    noise_error,
)
from privacy.marginals.graph import ModelSizes, model_size
from privacy.marginals.model import conditional_megabytes
from privacy.marginals.scores import DistanceScore
from privacy.marginals.sensitivity import marginal_moves

if TYPE_CHECKING:
    from contracts.contract.impossible_cells import Clique
    from privacy.grant.draws import Draws
    from privacy.grant.measurement import Measurement
    from privacy.marginals.inference import GraphicalModel

# --- The rounds of AIM.


LAST_SHARE: Final = Fraction(1, 4)
"""What the rounds leave of the budget at least."""
_GROWTH: Final = 2
_UNEVENNESS: Final = 0.4
"""Between even shares and 2/3, the optimum for known cells: which cells count is guessed from the model."""
_MOST_UNEVEN: Final = 4.0
"""A measurement takes at most so many times what an even round gives it, and at least that part of it."""
_UNITS: Final = 1024
_CANDIDATES_A_MODEL: Final = 1000
"""Where there are more, several choices are made by one model."""
_LEAST_VARIANCE: Final = 1.0
"""Below it a measurement is finer than whole rows [rows²]."""


@dataclass(frozen=True)
class Round:
    """What one round may choose.

    Args:
        choice: what the choice takes.
        parts: what the measurement of each candidate would take.
        errors: E_r of each candidate, measured so [rows].
        known: the model's counts of the candidates, and of all that is measured.
    """

    choice: Fraction
    parts: Mapping[Clique, Fraction]
    errors: Mapping[Clique, float]
    known: Mapping[Clique, NDArray[np.float64]]


class AimRounds:
    """The rounds of one fit; all that it goes by is released or public.

    Args:
        fitting: measures and chooses.
        workload: c_s.
        weights: w_r of each candidate.
        share: x at first.
        measured_share: α.
    """

    def __init__(
        self,
        fitting: ChoosingFit,
        workload: Mapping[Clique, Fraction],
        weights: Mapping[Clique, Fraction],
        share: Fraction,
        measured_share: Fraction,
    ) -> None:
        self._fitting, self._weights, self._measured_share = fitting, weights, measured_share
        self._spending = fitting.spending
        self._precision = Precision(workload, self._spending)
        self._share, self._last = share, self._spending.down(LAST_SHARE * self._spending.total)
        self._unknown: Mapping[Clique, float] = {}
        self.notes: list[str] = []

    def measure(self, clique: Clique, part: Fraction) -> Measurement:
        """Measure a clique for a share of the budget."""
        self._precision.add(clique, part)
        return self._fitting.measure(clique, part)

    def run(self) -> GraphicalModel:
        """Choose and measure while it is worth it, measure again with all that is left; return a model."""
        fitting = self._fitting
        model = fitting.rough()
        self._share = max(self._share, self._least_share())
        # Nobody knows yet how far a marginal is off: columns that determine each other are off by about all rows.
        moved = FIRST_MOVE * fitting.total()
        while self._spending.left - self._last >= self._share and self._something_new():
            fitting.progress(0.95 * float(fitting.spending.spent / fitting.spending.total), "measuring")
            if fitting.ended_early(not self._precision.cliques):
                self.notes.append(self._stopped())
                break
            offered = self._offer(model)
            if not self._worth(offered, moved):
                break
            chosen = self._choose_and_measure(offered)
            model = fitting.rough(model)
            moves = zip(model.marginals(chosen), chosen, strict=True)
            move = float(np.mean([np.abs(after - offered.known[each]).sum() for after, each in moves]))
            # The mean of this move and of what the rounds before moved, recent ones first.
            moved = (moved + move) / 2 if len(fitting.selections) > len(chosen) else move
            if not self._improved(move, float(np.mean([offered.errors[each] for each in chosen]))):
                self._share *= _GROWTH
        if not fitting.selections:
            self.notes.append(NO_STRUCTURE)
        measure_again(self.measure, fitting, self._precision, model, self._unknown)
        return model

    def _something_new(self) -> bool:
        return not set(self._weights) <= set(self._precision.cliques)

    def _least_share(self) -> Fraction:
        """Return the x at which a choice is not mostly noise: its noise among K candidates is half of all rows.

        Formula: the exponential mechanism is off by about 2 Δ ln K / epsilon, Δ how far a unit moves a distance.
        """
        task, rows = self._fitting.asked, self._fitting.total()
        if rows <= 0:  # nobody knows yet how many there are
            return Fraction(0)
        moves = sum(marginal_moves(task.adjacency, task.rows_per_unit))
        epsilon = 4 * moves * math.log(max(2, len(self._weights))) / rows
        wanted = Fraction(round(epsilon * 10**12), 10**12)
        return self._spending.down(self._spending.of_choice(wanted) / (1 - self._measured_share))

    def _offer(self, model: GraphicalModel) -> Round:
        """Say what a round may choose, and how its budget is spread: more where more cells count, n^0.4."""
        choice = self._spending.down((1 - self._measured_share) * self._share)
        measured = self._share - choice
        candidates = self._candidates()
        every = list(dict.fromkeys([*candidates, *self._precision.cliques]))
        known = dict(zip(every, model.marginals(every), strict=True))
        size = self._precision.size(measured)
        cells = np.array([cells_that_count(known[each], size) for each in candidates])
        uneven = np.clip((cells / cells.mean()) ** _UNEVENNESS, 1 / _MOST_UNEVEN, _MOST_UNEVEN)
        free = self._spending.left - self._last - choice
        parts = {
            each: min(free, self._spending.down(measured * Fraction(round(_UNITS * float(factor)), _UNITS)))
            for each, factor in zip(candidates, uneven, strict=True)
        }
        sizes = {part: self._precision.size(part) for part in set(parts.values())}
        errors = {each: noise_error(known[each], sizes[part]) for each, part in parts.items()}
        return Round(choice, parts, errors, known)

    def _candidates(self) -> Sequence[Clique]:
        """Return the cliques that keep the model within the share of its cap that the budget spent so far allows.

        Source: McKenna et al. 2022, section 4.1 (the filter on JT-SIZE).
        """
        task, cap = self._fitting.asked, self._fitting.options.max_model_megabytes
        # The share of what the rounds may spend that will be spent after this one.
        share = (self._spending.spent + self._share) / (self._spending.total - self._last)
        model = ModelSizes(task.domain, [*self._fitting.asked.impossible, *self._precision.cliques])
        allowed = max(cap * min(1.0, float(share)), model.size)
        sizes = {clique: max(model.with_one(clique), self._given_size(clique)) for clique in self._weights}
        # At least one: the plan has seen that each fits alone, and what has been measured fits already.
        allowed = max(allowed, min(sizes.values()))
        return [clique for clique, size in sizes.items() if size <= allowed]

    def _given_size(self, clique: Clique) -> float:
        """Return the memory of what columns that are not given are drawn by, with one more clique [MB]."""
        task = self._fitting.asked
        if not task.given:
            return 0.0
        return conditional_megabytes(task.domain, [*task.impossible, *self._precision.cliques, clique], task.given)

    def _worth(self, offered: Round, moved: float) -> bool:
        """Say whether a round is expected to move more than its budget takes off the error elsewhere."""
        self._unknown = offered.errors
        if not self._precision.cliques:
            return True
        price = self._precision.allocate(offered.known, offered.errors, self._spending.left).price
        return price * float(self._share) <= moved

    def _choose_and_measure(self, offered: Round) -> list[Clique]:
        """Measure a clique, chosen by the exponential mechanism, the score being  w_r (‖p_r(D) - p_r(θ)‖₁ - E_r).

        Of very many candidates several are chosen by one model, each of which joins columns that those before left
        apart: what one of them tells, another does not.
        """
        scores = {
            clique: DistanceScore(
                np.rint(offered.known[clique]).astype(np.int64),
                self._weights[clique],
                Fraction(round(error * _UNITS), _UNITS),  # as a rational: scores are exact
            )
            for clique, error in offered.errors.items()
        }
        chosen: list[Clique] = []
        joined: dict[str, frozenset[str]] = {}
        for _ in range(-(-len(self._weights) // _CANDIDATES_A_MODEL)):
            fit = self._candidates() if chosen else list(scores)
            apart = [each for each in fit if each in scores and _joins_apart(each, joined)]
            free = self._spending.left - self._last - offered.choice
            if not apart or free < self._share - offered.choice:
                break
            clique = self._fitting.choose({each: scores[each] for each in apart}, offered.choice).clique
            self.measure(clique, min(free, offered.parts[clique]))
            chosen.append(clique)
            together = frozenset(clique).union(*(joined.get(name, ()) for name in clique))
            joined.update(dict.fromkeys(together, together))
        return chosen

    def _improved(self, move: float, error: float) -> bool:
        """Say whether the model has moved by more than the noise of the last measurement makes of the error."""
        last = self._fitting.measurements[-1]
        # Noise below one row cannot get finer in whole rows: measured again so, a clique counts as not improved.
        again = any(each.clique == last.clique for each in self._fitting.measurements[:-1])
        return move > error and not (again and last.variance < _LEAST_VARIANCE)

    def _stopped(self) -> str:
        """Return the note on rounds that were ended by the time limit."""
        fitting = self._fitting
        return message(
            "the time limit ended the rounds after {measurements} measurements and {choices} choices; the rest of "
            "the charge, {share}, made these measurements more exact",
            measurements=len(fitting.measurements),
            choices=len(fitting.selections),
            share=f"{float(self._spending.left / self._spending.total):.0%}",
        )


def _joins_apart(clique: Clique, joined: Mapping[str, frozenset[str]]) -> bool:
    """Say whether no two columns of a clique hang together yet."""
    return all(joined.get(one, frozenset()).isdisjoint(clique[place + 1 :]) for place, one in enumerate(clique))


_ROUNDS_PER_COLUMN: Final = 4
_MOST_LOOKED_AT: Final = 1_000_000
"""Candidates of all rounds together, where their number is not given: wide tables have fewer, larger rounds."""
_FIRST_SHARE: Final = Fraction(3, 20)
_SECONDS_PER_CANDIDATE: Final = 1.5e-4


class AimTerms(BaseModel):
    """What may be asked of AIM alone; unknown options are refused.

    Args:
        degree: the workload is all marginals of so many columns, each of weight 1.
        workload: the marginals that matter, instead of a degree; each with a weight, 1 if none is given.
        init: whether all one-way marginals are measured first.
        rounds: into how many rounds their part of the budget is split at first; 4 a column, when not given, and fewer
            where there are many candidates.
        measured_share: α, the part of a round's budget that its measurement takes; the choice takes the rest.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    degree: int = Field(default=2, ge=1, le=8)
    workload: tuple[WeightedClique, ...] | None = Field(default=None, min_length=1)
    init: bool = True
    rounds: int | None = Field(default=None, ge=1, le=100_000)
    measured_share: float = Field(default=0.9, ge=0.01, le=0.99)

    @model_validator(mode="after")
    def _one_workload(self) -> Self:
        if self.workload is not None and "degree" in self.model_fields_set:
            raise ValueError("give degree or workload, not both")
        return self

    @property
    def without_effect(self) -> tuple[str, ...]:
        """The options that have no effect beside the others: a degree beside a workload."""
        return () if self.workload is None else ("degree",)


class AimOptions(AimTerms, Options):
    """Options of `aim`: those of every generator, and those of AIM alone."""


class Aim(MarginalGenerator):
    """The adaptive and iterative mechanism."""

    name: ClassVar[str] = "aim"
    options = AimOptions

    def plan(self, task: SynthesisTask, options: AimOptions) -> GeneratorPlan:
        """Plan one budget, from which all draws take their share.

        Raises:
            CannotGenerate: unknown columns, a clique above the cap, no possible row, too small a charge for the first
                round, or a time limit too short for it.
        """
        aim = _Aim(task, options)
        check(task, options, aim.workload)
        spending = Spending(task, options.noise)
        first = aim.first(spending)
        # A first model takes the one-way marginals, one round's two draws and an estimate.
        before = drawing_seconds(len(first) + 2) + estimation_seconds(model_size(task.domain, task.impossible))
        check_time(options, before)
        columns = [(clique, spending.event(part)) for clique, part in first.items()]
        return GeneratorPlan(
            (spending.budget,),
            aim.steps(spending, before),
            options.max_model_megabytes,
            before + aim.seconds(aim.rounds),
            expected_error(task.domain, columns),
        )

    def fit(
        self,
        task: SynthesisTask,
        options: AimOptions,
        plan: GeneratorPlan,
        counts: CountsSource,
        grant: Draws,
        progress: FitProgress,
        seed: DrawSeed,
    ) -> Fitted[Model]:
        """Measure round by round until the budget is used up.

        Raises:
            OutOfTime: the time limit has passed before the one-way marginals were measured.
        Privacy: the budget of the plan; each draw's choice depends on released values only.
        """
        fitting = ChoosingFit(task, options, counts, grant, progress, self._clock)
        return _Aim(task, options).run(fitting)


def planned_rounds(columns: int, candidates: int) -> int:
    """Return into how many rounds their part of the budget is split at first, where their number is not given."""
    return min(_ROUNDS_PER_COLUMN * columns, max(columns, _MOST_LOOKED_AT // max(1, candidates)))


class _Aim:
    """One application of AIM: its workload, candidates and weights."""

    def __init__(self, task: SynthesisTask, options: AimOptions) -> None:
        self.asked, self.options, domain = task, options, task.domain
        given = options.workload
        workload = weighted(domain, given, "workload") if given else all_of_order(domain, options.degree)
        known = set(task.given)
        self.workload = {each: weight for each, weight in workload.items() if not known.issuperset(each)}
        closed = [each for each in downward_closure(domain, self.workload) if not known.issuperset(each)]
        self.weights = relevance(self.workload, closed)
        self.rounds = options.rounds or planned_rounds(len(task.modelled), len(self.weights))

    def first(self, spending: Spending) -> dict[Clique, Fraction]:
        """Return the shares of what is measured before the rounds: the workload's columns, by cells^(2/3)."""
        if not self.options.init:
            return {}
        named = {name for clique in self.workload for name in clique}
        cliques = [(name,) for name in self.asked.modelled if name in named]
        sizes = [Fraction(self.asked.domain.cells(clique)) for clique in cliques]
        shares = spending.optimal(sizes, spending.down(_FIRST_SHARE * spending.total))
        return dict(zip(cliques, shares, strict=True))

    def round_share(self, spending: Spending) -> Fraction:
        """Return x of the first rounds."""
        one_way = _FIRST_SHARE if self.options.init else Fraction(0)
        return spending.down((1 - one_way - LAST_SHARE) * spending.total / self.rounds)

    def measured(self, share: Fraction, spending: Spending) -> Fraction:
        """Return the part of a round that its measurement takes, αx."""
        return spending.down(Fraction(str(self.options.measured_share)) * share)

    def steps(self, spending: Spending, before: float) -> tuple[PlannedStep, ...]:
        """Return what the budget is spent on.

        Args:
            spending: gives the budget.
            before: how long a first model takes [s].
        Raises:
            CannotGenerate: the charge is too small for the columns or a round.
        """
        first, share = self.first(spending), self.round_share(spending)
        measured = self.measured(share, spending)
        noise, choice = spending.event(measured), spending.choice(share - measured)
        one_way, last = float(sum(first.values()) / spending.total), float(LAST_SHARE)
        rest = 1 - one_way - last
        columns = noise_in_words([spending.event(part) for part in first.values()]) if first else ""
        words = (
            f"at first epsilon {float(choice.epsilon):.3g}; {noise_in_words([noise])}; later less noise, fewer rounds"
        )
        again, rounds = self.rounds + len(first), words + self.limited(before)
        one_way_steps = [PlannedStep("one-way marginals", len(first), one_way, columns)] if first else []
        return (
            *one_way_steps,
            PlannedStep("rounds of a private choice and a measurement", self.rounds, rest, rounds),
            PlannedStep("measured again, where that is worth most", again, last, "all that is left"),
        )

    def seconds(self, rounds: int) -> float:
        """Say roughly how long so many rounds take [s]."""
        a_round = 2 * drawing_seconds(1) + estimation_seconds(0.0) + _SECONDS_PER_CANDIDATE * len(self.weights)
        return rounds * a_round

    def limited(self, before: float) -> str:
        """Say what a time limit costs: about how many of the rounds it leaves."""
        limit = self.options.time_limit
        if limit is None or limit >= before + self.seconds(self.rounds):
            return ""
        left = min(self.rounds, int((limit - before) / self.seconds(1)))
        return (
            f"; the time limit leaves about {left} of {self.rounds} rounds, what they do not spend is measured again"
        )

    def run(self, fitting: ChoosingFit) -> Fitted[Model]:
        """Measure the columns, choose and measure in rounds, and measure again with all that is left."""
        spending, alpha = fitting.spending, Fraction(str(self.options.measured_share))
        rounds = AimRounds(fitting, self.workload, self.weights, self.round_share(spending), alpha)
        for clique, part in self.first(spending).items():
            fitting.refuse_late("one-way marginals")
            rounds.measure(clique, part)
        model = rounds.run()
        return fitting.final(model, rounds.notes)
