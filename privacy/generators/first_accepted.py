"""First accepted: fit candidates in order, test each privately, and give the first that meets all criteria.

The charge is one budget, rho of zCDP or a pure epsilon, split before anything is read:
    1. each candidate's fit has an equal share of what the tests leave
    2. each test of each candidate has an equal share of the budget's `share_of_tests`
A candidate is fitted, then tested by every criterion: a noisy distance of its model from the exact counts, from which
one reads at no further cost whether the criterion is met. The first candidate that meets all is the result, and those
after it draw nothing. If none does, there is no result. A model is also fitted to what the candidates before it have
measured, unless `keep_measured` is false. The budget is charged whole in every case, and holds for all that is drawn,
of candidates that failed too (docs/derivations.md, section 6).

Where (one letter each)
    T, L    the exact distance, and the largest that the criterion allows [rows]
    X       the noise of the test
    m       the smallest margin with P(X < -m) <= false_accept / candidates

A criterion is met where T + X <= L - m. A model with T > L, which is T >= L + 1, meets it with at most that chance.
So rows that miss a criterion are published with a chance of at most `false_accept`, over all candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import floor
from typing import Any, ClassVar, Final

import numpy as np
from pydantic import BaseModel, ValidationError

from contracts.contract.impossible_cells import Clique
from contracts.errors import SudareError
from contracts.message import message
from contracts.release.acceptance import Acceptance, CellCriterion, acceptance_problems, cell_numbers
from privacy.accounting.adaptive import share
from privacy.accounting.convert import best_epsilon, rho_for
from privacy.accounting.event import UnsupportedEvent
from privacy.accounting.events import CountNoise, ZeroConcentrated
from privacy.generators.generator import (
    CandidateRefused,
    CannotGenerate,
    CountsSource,
    DrawSeed,
    FitProgress,
    Fitted,
    Generator,
    GeneratorPlan,
    Model,
    PlannedStep,
    ReleasedDraw,
    SynthesisTask,
    no_seed,
)
from privacy.generators.planning import drawing_seconds, noise_in_words
from privacy.generators.spending import Spending
from privacy.grant.draws import Draws
from privacy.grant.queries.acceptance import AcceptanceQuery, CriterionTest, most_moved
from privacy.grant.queries.query import Progress, Query, ResultT, silent
from privacy.marginals.measured import Measured
from privacy.marginals.noise_tail import least_margin
from privacy.marginals.scores import Candidate, DistanceScore
from privacy.marginals.sensitivity import moved_noise

_FINEST: Final = 10**12
_LESS: Final = Fraction(10**6 - 1, 10**6)
_SHOWN: Final = 6
"""Margins that a plan shows."""


class NothingAccepted(SudareError):
    """No candidate met all criteria: nothing is published, and the charge stays spent."""

    exit_code = 7


class FirstAccepted:
    """Gives the first of several candidates that meets all criteria."""

    name: ClassVar[str] = "first_accepted"
    reads_rows: ClassVar[bool] = False
    options = Acceptance

    def plan(self, task: SynthesisTask, options: Acceptance) -> GeneratorPlan:
        """Plan one budget, from which all candidates and all tests take their share.

        Raises:
            CandidateRefused: a criterion or a candidate that does not fit contract or charge, or a bound that the
                noise of its test alone would pass.
            CannotGenerate: too small a charge.
        """
        trials = _Trials(task, options)
        trials.check_bounds()
        plans = [trial.plan for trial in trials.each]
        spending, steps = trials.spending, []
        for number, (trial, plan) in enumerate(zip(trials.each, plans, strict=True), start=1):
            of_all = float(trial.part / spending.total)
            named = f"candidate {number} ({trial.terms.generator})"
            steps += [replace(step, what=f"{named}: {step.what}", share=step.share * of_all) for step in plan.steps]
        tests = len(plans) * len(trials.tests)
        margins = ", ".join(f"{each:,}" for each in trials.margins[:_SHOWN]) + (
            ", …" * (len(trials.margins) > _SHOWN)
        )
        steps.append(
            PlannedStep(
                "tests of candidates",
                tests,
                1 - sum(step.share for step in steps),
                f"{noise_in_words(trials.tests)}; met up to the bound less {margins} rows, by criterion",
            )
        )
        return GeneratorPlan(
            (spending.budget,),
            tuple(steps),
            max(plan.megabytes for plan in plans),
            sum(plan.seconds for plan in plans) + drawing_seconds(tests),
            plans[0].expected_error,
        )

    def fit(
        self,
        task: SynthesisTask,
        options: Acceptance,
        plan: GeneratorPlan,
        counts: CountsSource,
        grant: Draws,
        progress: FitProgress,
        seed: DrawSeed,
    ) -> Fitted[Model]:
        """Fit and test candidate after candidate, until one meets all criteria.

        Raises:
            NothingAccepted: none does; a fit that is made again replays all draws and comes to the same end.
        Privacy: the budget of the plan; which candidate is fitted next depends on released values only.
        """
        trials = _Trials(task, options)
        draws: list[ReleasedDraw] = []
        failed: list[str] = []
        known: list[Measured] = []
        for number, trial in enumerate(trials.each):
            own = _PrefixedDraws(grant, f"candidate-{number + 1}-")
            fitted = trial.fit(counts, own, _part_of(progress, number, len(trials.each)), known)
            tests = trials.tested(number, fitted.model, counts, own)
            draws += [*fitted.draws, *tests]
            missed = [test for test in tests if not test.met]
            if not missed:
                return Fitted(fitted.model, tuple(draws), (*failed, _accepted(number, trial), *fitted.notes))
            failed.append(_failed(trial, missed))
            known += [one.measured for one in fitted.measurements] if options.keep_measured else []
        raise NothingAccepted(
            "no candidate was accepted, and nothing is published. "
            + " ".join(f"{each}." for each in failed)
            + " The charge stays spent: these noisy distances are paid for. The same spec run again replays them and "
            "ends as now; with other criteria or candidates it is another release, and is charged anew"
        )


@dataclass(frozen=True)
class _Trial:
    """One candidate with its part of the budget.

    Args:
        terms: its generator and options as they are written.
        generator: the generator.
        options: its options.
        task: what it is asked for, with an epsilon whose budget is at most its part.
        part: of the budget.
        plan: its plan.
    """

    terms: Any
    generator: Generator[Any]
    options: BaseModel
    task: SynthesisTask
    part: Fraction
    plan: GeneratorPlan

    def fit(
        self, counts: CountsSource, grant: Draws, progress: FitProgress, known: Sequence[Measured]
    ) -> Fitted[Model]:
        """Fit it; rows are sampled after the last noise, so that no seed is drawn here."""
        task = replace(self.task, known=tuple(known))
        return self.generator.fit(task, self.options, self.plan, counts, grant, progress, no_seed)


class _Trials:
    """All candidates and tests under one charge.

    Raises:
        CandidateRefused: a criterion or candidate that does not fit.
        CannotGenerate: too small a charge.
    """

    def __init__(self, task: SynthesisTask, options: Acceptance) -> None:
        self.task, self.options = task, options
        self.spending = Spending(task, None)
        self._check_criteria()
        columns = task.domain.columns
        self.cliques = [criterion.cliques(columns) for criterion in options.criteria]
        fits, test = self._parts()
        kinds = [
            (criterion.kind, len(cliques)) for criterion, cliques in zip(options.criteria, self.cliques, strict=True)
        ]
        relation = task.adjacency, task.rows_per_unit
        self.noise = self.spending.buys(test)
        self.spending.event(test)  # refuses a share that is too small
        self.tests: list[CountNoise] = [moved_noise(self.noise, (most_moved(*kind, *relation),)) for kind in kinds]
        self.margins = [least_margin(event, float(options.false_accept_each)) for event in self.tests]
        self.each = [self._trial(number, part) for number, part in enumerate(fits)]

    def _parts(self) -> tuple[tuple[Fraction, ...], Fraction]:
        """Split the budget: a share for each candidate's fit, and one for each test."""
        number, tests = len(self.options.candidates), Fraction(self.options.share_of_tests)
        weights = [(1 - tests) / number] * number
        *fits, all_tests = self.spending.split(self.spending.total, [*weights, tests])
        # The last of equal parts takes what rounding leaves; every test takes the smallest.
        return tuple(fits), min(self.spending.split(all_tests, [1] * (number * len(self.options.criteria))))

    def _check_criteria(self) -> None:
        """Refuse criteria that do not fit contract and columns."""
        contract = self.task.contract
        if contract is None:
            if any(isinstance(criterion, CellCriterion) for criterion in self.options.criteria):
                raise CannotGenerate("criteria: cells named by labels; allowed: only where the contract is known")
            return
        for at, problem in acceptance_problems(self.options, self.task.domain.columns, contract):
            remedy = f"; do: {problem.remedy}" if problem.remedy else ""
            raise CandidateRefused(at, CannotGenerate(f"{problem.found}; allowed: {problem.allowed}{remedy}"))

    def _trial(self, number: int, part: Fraction) -> _Trial:
        """Read a candidate's options, and let it plan for its part.

        Raises:
            CandidateRefused: it cannot be read, or planned, or would take more than its part.
        """
        from privacy.generators.registry import generator  # which names this module

        terms, at = self.options.candidates[number], ("candidates", number)
        try:
            made_by = generator(terms.generator)
            if getattr(made_by, "reads_rows", True):
                raise CannotGenerate(
                    f"product.generator: {terms.generator!r} learns from rows, and takes no known share of a budget; "
                    "allowed: generators of marginals (aim, mst, privbayes, independent, fixed)"
                )
            options = made_by.options.model_validate(terms.options)
            if getattr(options, "time_limit", None) is not None:
                raise CannotGenerate(
                    "time_limit of a candidate: what is accepted would depend on a clock; allowed: no time limit"
                )
            task = replace(self.task, epsilon=self._epsilon_of(part))
            plan = made_by.plan(task, options)
            if sum(share(self.spending.budget, event) for event in plan.events) > part:
                raise CannotGenerate(f"{terms.generator!r} plans more than its share; allowed: {float(part):.3g}")
        except ValidationError as error:
            raise CandidateRefused((*at, "options"), error, model=made_by.options) from None
        except (CannotGenerate, UnsupportedEvent) as error:
            raise CandidateRefused(at, error, options=terms.options) from error
        return _Trial(terms, made_by, options, task, part, plan)

    def _epsilon_of(self, part: Fraction) -> Fraction:
        """Return an epsilon whose budget is the part, or just below it."""
        if not isinstance(self.spending.budget, ZeroConcentrated):
            return part
        delta = self.task.delta
        epsilon = Fraction(floor(best_epsilon([ZeroConcentrated(part)], delta)[0] * _FINEST), _FINEST)
        while rho_for(epsilon, delta) > part:
            epsilon = Fraction(floor(epsilon * _LESS * _FINEST), _FINEST)
        return epsilon

    def check_bounds(self) -> None:
        """Refuse bounds that lie below the margin: no candidate would meet them, however good.

        Raises:
            CandidateRefused: with the least bound that can be met.
        """
        rows = self.task.public_total or self.options.rows_about
        for number, (criterion, needed) in enumerate(zip(self.options.criteria, self.margins, strict=True)):
            counted = len(self.cliques[number])
            in_rows = isinstance(criterion, CellCriterion)
            if (rows is None and not in_rows) or criterion.largest(rows or 1, counted) >= needed:
                continue
            most = 2 * (rows or 1) * (1 if in_rows else criterion.parts(counted))  # type: ignore[union-attr]
            least = f"{needed} rows" if in_rows else f"{needed / most:.4g}"
            raise CandidateRefused(
                ("criteria", number, "at_most"),
                CannotGenerate(
                    f"{criterion.at_most}, below what the noise of the test makes of a perfect model; allowed: from "
                    f"{least} on; do: raise it, the charge or share_of_tests, or take fewer criteria or candidates"
                ),
            )

    def tested(self, number: int, model: Model, counts: CountsSource, grant: Draws) -> list[CriterionTest]:
        """Test a model by every criterion.

        Privacy: each test takes its share of the budget.
        """
        return [self._tested(number, place, model, counts, grant) for place, _ in enumerate(self.options.criteria)]

    def _tested(self, number: int, place: int, model: Model, counts: CountsSource, grant: Draws) -> CriterionTest:
        criterion, cliques = self.options.criteria[place], self.cliques[place]
        marginals = tuple(
            Candidate(handle, DistanceScore(_expected(model, clique), Fraction(1), Fraction(0)))
            for handle, clique in zip(counts.marginals(cliques), cliques, strict=True)
        )
        cells: tuple[int, ...] = ()
        if isinstance(criterion, CellCriterion) and self.task.contract is not None:
            cells = cell_numbers(criterion, self.task.domain.columns, self.task.contract)
        passes_at = criterion.largest(model.rows, len(cliques)) - self.margins[place]
        query = AcceptanceQuery(criterion.kind, marginals, cells, number, place, passes_at, self.noise)
        return grant.draw(query, key=f"test-{place + 1}")


@dataclass(frozen=True)
class _PrefixedDraws:
    """A grant's draws under names of their own, so that candidates do not meet in one name."""

    grant: Draws
    prefix: str

    def draw(self, query: Query[ResultT], *, key: str, progress: Progress = silent) -> ResultT:
        """Draw under the prefixed name; as `Grant.draw`."""
        return self.grant.draw(query, key=self.prefix + key, progress=progress)

    def holds(self, key: str) -> bool:
        """Say whether a draw of the prefixed name was made; as `Grant.holds`."""
        return self.grant.holds(self.prefix + key)


def _expected(model: Model, clique: Clique) -> np.ndarray:
    """Return the model's counts in whole rows."""
    return np.rint(model.marginal(clique)).astype(np.int64)


def _part_of(progress: FitProgress, number: int, of: int) -> FitProgress:
    """Return the progress of one candidate among all."""
    return lambda done, what: progress((number + done) / of, f"candidate {number + 1}: {what}")


def _accepted(number: int, trial: _Trial) -> str:
    """Say which candidate was accepted."""
    return message(
        "candidate {number}, {generator}, met all criteria and is published",
        number=number + 1,
        generator=trial.terms.generator,
    )


def _failed(trial: _Trial, missed: Sequence[CriterionTest]) -> str:
    """Say which criterion a candidate missed by most, from released numbers."""
    worst = max(missed, key=lambda test: test.distance - test.passes_at)
    return message(
        "candidate {number}, {generator}, was not accepted: criterion {criterion} is met up to {passes_at} rows, and "
        "the noisy distance was {distance}",
        number=worst.candidate + 1,
        generator=trial.terms.generator,
        criterion=worst.criterion + 1,
        passes_at=worst.passes_at,
        distance=worst.distance,
    )
