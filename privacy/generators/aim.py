"""AIM, the adaptive and iterative mechanism: measure, round by round, the marginal that the model knows worst.

Where (Miura et al. 2025, algorithms 2 to 4; McKenna et al. 2022, algorithms 2 to 4):
    W, c_s      workload and its weights            W₊      its downward closure, the candidates
    ρ, T, α     budget, 16 d, 0.9                   w_r     sum over s in W of c_s |r ∩ s|
    σ_t, ε_t    noise of a measurement, of a choice n_r     cells of clique r
    θ_t         the model after round t             p_r     counts of clique r, exact or the model's

Deviations:
    - σ_t and ε_t are kept as shares of the budget in exact rationals, and the last round takes all that is left: the
      budget is used up but for the rounding of one scale (`schedule`).
    - Under replace_one a measurement costs 1/σ² and the score's sensitivity is 2 w_r: the grant derives both.
    - The model's counts in a score are rounded to whole rows, and √(2/π) σ is the exact mean of the discrete noise's
      size; for Laplace noise likewise.
    - With δ = 0 the budget is ε itself, noise is Laplace, and choices and measurements add up plainly.
    - A clique measured again with noise below one row counts as no improvement: what is left goes into fewer rounds.
      On Adult at epsilon 100 that halves the time, and the 2-way error of the rows is 0.0085 and not 0.0079.
    - A time limit ends the rounds early; what was not spent by then buys nothing, and a note says so.
"""

from __future__ import annotations

import time
from fractions import Fraction
from typing import ClassVar, Final

import numpy as np
from pydantic import Field, model_validator

from contracts.contract.impossible_cells import Clique
from privacy.generators.fitting import Fitting, Stopwatch
from privacy.generators.generator import (
    CountsSource,
    DrawSeed,
    FitProgress,
    Fitted,
    GeneratorPlan,
    Model,
    OutOfTime,
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
from privacy.generators.schedule import SigmaSchedule
from privacy.generators.spending import Spending
from privacy.generators.workload import WeightedClique, all_of_order, downward_closure, relevance, weighted
from privacy.grant.draws import Draws
from privacy.grant.measurement import Measurement
from privacy.marginals.graphical_model import GraphicalModel
from privacy.marginals.model_sizes import ModelSizes
from privacy.marginals.scores import DistanceScore
from privacy.marginals.triangulation import model_size
from privacy.marginals.uncertainty import mean_absolute

_ROUNDS_PER_COLUMN: Final = 16
_BIAS_UNIT: Final = 1024
_LIKELY_ROUNDS_A_COLUMN: Final = 3
"""On Adult, 9 or 15 columns, at epsilon 1; 2 at 0.1, 5 at 10 and 100."""
_SECONDS_PER_CANDIDATE: Final = 1.5e-4
_LEAST_VARIANCE: Final = 1.0
"""Below it a measurement is finer than whole rows [rows²]."""


class AimOptions(Options):
    """Options of `aim`.

    Args:
        degree: the workload is all marginals of so many columns, each of weight 1.
        workload: the marginals that matter, instead of a degree; each with a weight, 1 if none is given.
        downward_closure: whether parts of the workload's cliques are candidates too.
        init: whether all one-way marginals are measured first.
        rounds: T, which sets the noise of the first rounds; 16 a column, when not given.
        measured_share: α, the part of a round's budget that its measurement takes; the choice takes the rest.
    """

    degree: int = Field(default=2, ge=1, le=4)
    workload: tuple[WeightedClique, ...] | None = Field(default=None, min_length=1)
    downward_closure: bool = True
    init: bool = True
    rounds: int | None = Field(default=None, ge=1, le=100_000)
    measured_share: float = Field(default=0.9, ge=0.01, le=0.99)

    @model_validator(mode="after")
    def _one_workload(self) -> AimOptions:
        if self.workload is not None and "degree" in self.model_fields_set:
            raise ValueError("give degree or workload, not both")
        return self


class Aim:
    """The adaptive and iterative mechanism.

    Args:
        clock: seconds since any moment; for the time limit.
    """

    name: ClassVar[str] = "aim"
    reads_rows: ClassVar[bool] = False
    options = AimOptions

    def __init__(self, clock: Stopwatch = time.monotonic) -> None:
        self._clock = clock

    def plan(self, task: SynthesisTask, options: AimOptions) -> GeneratorPlan:
        """Plan one budget, from which all draws take their share.

        Raises:
            CannotGenerate: unknown columns, a clique above the cap, no possible row, too small a charge for the first
                round, or a time limit too short for it.
        """
        aim = _Aim(task, options)
        check(task, options, aim.workload)
        spending = Spending(task, options.noise)
        schedule = aim.first(spending)
        noise, choice = spending.event(schedule.measurement), spending.choice(schedule.choice)
        first = aim.initial()
        # A first model takes the one-way marginals, one round's two draws and an estimate.
        before = drawing_seconds(len(first) + 2) + estimation_seconds(model_size(task.domain, task.impossible))
        check_time(options, before)
        rounds = aim.rounds - len(first)
        one_way = float(len(first) * schedule.measurement / spending.total)
        words = (
            f"at first epsilon {float(choice.epsilon):.3g}; {noise_in_words([noise])}; later less noise, fewer rounds"
        )
        steps = (
            PlannedStep("one-way marginals", len(first), one_way, noise_in_words([noise])),
            PlannedStep("rounds of a private choice and a measurement", rounds, 1 - one_way, words),
        )
        return GeneratorPlan(
            (spending.budget,),
            steps if first else steps[1:],
            options.max_model_megabytes,
            before + aim.seconds(rounds),
            expected_error(task.domain, [(clique, noise) for clique in first]),
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


class _Aim:
    """One application of AIM: its workload, candidates and weights."""

    def __init__(self, task: SynthesisTask, options: AimOptions) -> None:
        self.asked, self.options, domain = task, options, task.domain
        given = options.workload
        self.workload = weighted(domain, given, "workload") if given else all_of_order(domain, options.degree)
        closed = downward_closure(domain, self.workload) if options.downward_closure else tuple(self.workload)
        self.weights = relevance(self.workload, closed)
        self.rounds = options.rounds or _ROUNDS_PER_COLUMN * len(domain.columns)

    def initial(self) -> tuple[Clique, ...]:
        """Return what is measured before the rounds: the columns of the workload, one by one."""
        if not self.options.init:
            return ()
        named = {name for clique in self.workload for name in clique}
        return tuple((name,) for name in self.asked.domain.columns if name in named)

    def first(self, spending: Spending) -> SigmaSchedule:
        """Return the schedule of the first round."""
        alpha = Fraction(str(self.options.measured_share))
        return SigmaSchedule.first(spending.budget, spending.total, max(self.rounds, len(self.initial()) + 1), alpha)

    def seconds(self, rounds: int) -> float:
        """Say roughly how long the rounds take: the budget of a round grows, so that most of them never come [s]."""
        likely = min(rounds, _LIKELY_ROUNDS_A_COLUMN * len(self.asked.domain.columns))
        a_round = 2 * drawing_seconds(1) + estimation_seconds(0.0) + _SECONDS_PER_CANDIDATE * len(self.weights)
        return likely * a_round

    def run(self, fitting: Fitting) -> Fitted[Model]:
        """Run algorithm 2."""
        schedule, notes = self.first(fitting.spending), []
        # INITIALISE (algorithm 3)
        for clique in self.initial():
            fitting.refuse_late("one-way marginals")
            fitting.measure(clique, schedule.measurement)
        model = fitting.rough()
        # The first round may be the last already (algorithm 4, lines 5 to 7).
        schedule = schedule.within(fitting.spending.left)
        while True:
            fitting.progress(0.95 * float(fitting.spending.spent / fitting.spending.total), "measuring")
            if fitting.late:
                notes.append(fitting.stopped())
                break
            # SELECT
            try:
                clique = self.select(fitting, model, schedule)
            except OutOfTime:  # a grant that replays an earlier fit, which was stopped here
                notes.append(fitting.stopped())
                break
            # MEASURE: in the last round all that the choice has left
            part = fitting.spending.left if schedule.last else schedule.measurement
            measured = fitting.measure(clique, part)
            # ESTIMATE
            before, model = model, fitting.rough(model)
            if schedule.last:
                break
            # ANNEAL (algorithm 4)
            # Noise below one row cannot get finer in whole rows: measured again so, a clique counts as not improved.
            again = any(each.clique == clique for each in fitting.measurements[:-1])
            too_fine = again and measured.variance < _LEAST_VARIANCE
            # The model must have moved by more than the noise of the measurement would move it.
            improved = not too_fine and changed(before, model, clique) > noise_of(measured)
            schedule = schedule.annealed(improved).within(fitting.spending.left)
        return fitting.final(model, notes)

    def select(self, fitting: Fitting, model: GraphicalModel, schedule: SigmaSchedule) -> Clique:
        """Choose the clique of the largest  w_r (‖p_r(D) - p_r(θ)‖₁ - √(2/π) σ n_r)  by the exponential mechanism."""
        candidates = self.candidates(fitting, schedule)
        size = mean_absolute(fitting.spending.event(schedule.measurement))
        scores = {}
        for clique, known in zip(candidates, model.marginals(candidates), strict=True):
            # The bias as a rational, √(2/π) σ n_r for Gaussian noise: scores are exact.
            bias = Fraction(round(size * known.size * _BIAS_UNIT), _BIAS_UNIT)
            scores[clique] = DistanceScore(np.rint(known).astype(np.int64), self.weights[clique], bias)
        return fitting.choose(scores, schedule.choice).clique

    def candidates(self, fitting: Fitting, schedule: SigmaSchedule) -> list[Clique]:
        """Return the cliques that keep the model within the share of its cap that the budget spent so far allows.

        Source: McKenna et al. 2022, section 4.1 (the filter on JT-SIZE).
        """
        domain, cap = self.asked.domain, self.options.max_model_megabytes
        spending = fitting.spending
        # The share of the budget that will be spent after this round.
        share = (spending.spent + schedule.choice + schedule.measurement) / spending.total
        known = [*self.asked.impossible, *(one.clique for one in fitting.measurements)]
        model = ModelSizes(domain, known)
        allowed = max(cap * float(share), model.size)
        sizes = {clique: model.with_one(clique) for clique in self.weights}
        # At least one: the plan has seen that each fits alone, and what has been measured fits already.
        allowed = max(allowed, min(sizes.values()))
        return [clique for clique, size in sizes.items() if size <= allowed]


def changed(before: GraphicalModel, after: GraphicalModel, clique: Clique) -> float:
    """Return how far a clique's counts have moved from one model to the next, L1 [rows]."""
    return float(np.abs(after.marginal(clique) - before.marginal(clique)).sum())


def noise_of(measured: Measurement) -> float:
    """Return the expected L1 size of a measurement's noise, √(2/π) σ n_r for Gaussian noise [rows]."""
    return mean_absolute(measured.event) * measured.values.size
