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

from fractions import Fraction
from typing import ClassVar, Final, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from contracts.contract.impossible_cells import Clique
from privacy.generators.aim_rounds import LAST_SHARE, AimRounds
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
    check_time,
    drawing_seconds,
    estimation_seconds,
    expected_error,
    noise_in_words,
)
from privacy.generators.spending import Spending
from privacy.generators.workload import WeightedClique, all_of_order, downward_closure, relevance, weighted
from privacy.grant.draws import Draws
from privacy.marginals.triangulation import model_size

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
        fitting = Fitting(task, options, counts, grant, progress, self._clock)
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

    def run(self, fitting: Fitting) -> Fitted[Model]:
        """Measure the columns, choose and measure in rounds, and measure again with all that is left."""
        spending, alpha = fitting.spending, Fraction(str(self.options.measured_share))
        rounds = AimRounds(fitting, self.workload, self.weights, self.round_share(spending), alpha)
        for clique, part in self.first(spending).items():
            fitting.refuse_late("one-way marginals")
            rounds.measure(clique, part)
        model = rounds.run()
        return fitting.final(model, rounds.notes)
