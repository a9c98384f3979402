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
from dataclasses import replace
from typing import Any, ClassVar, Final

from contracts.errors import SudareError
from contracts.message import message
from contracts.release.acceptance import Acceptance, CandidateTerms
from privacy.generators.candidate_trials import CandidateTrial, CandidateTrials
from privacy.generators.fitting import released_counts
from privacy.generators.generator import (
    CountsSource,
    DrawSeed,
    FitProgress,
    Fitted,
    GeneratorPlan,
    Model,
    PlannedStep,
    ReleasedDraw,
    SynthesisTask,
)
from privacy.generators.planning import drawing_seconds, noise_in_words
from privacy.generators.resolved_options import effective_values, resolved_options
from privacy.grant.draws import Draws, PrefixedDraws
from privacy.grant.queries.acceptance import CriterionTest
from privacy.marginals.measured import Measured

_SHOWN: Final = 6
"""Margins that a plan shows."""


class NothingAccepted(SudareError):
    """No candidate met all criteria: nothing is published, and the charge stays spent."""

    exit_code = 7


class FirstAccepted:
    """Gives the first of several candidates that meets all criteria."""

    name: ClassVar[str] = "first_accepted"
    reads_rows: ClassVar[bool] = False
    tests_models: ClassVar[bool] = True  # what was tested is published as it was tested
    options = Acceptance

    def resolved(self, options: Acceptance) -> dict[str, Any]:
        """Return the options with those of each candidate that nobody wrote."""
        from privacy.generators.registry import generator  # which names this module

        def terms(candidate: CandidateTerms) -> dict[str, Any]:
            made_by = generator(candidate.generator)
            own = resolved_options(made_by, made_by.options.model_validate(candidate.options))
            return {"generator": candidate.generator, "options": own}

        return {**effective_values(options), "candidates": [terms(each) for each in options.candidates]}

    def plan(self, task: SynthesisTask, options: Acceptance) -> GeneratorPlan:
        """Plan one budget, from which all candidates and all tests take their share.

        Raises:
            CandidateRefused: a criterion or a candidate that does not fit contract or charge, or a bound that the
                noise of its test alone would pass.
            CannotGenerate: too small a charge.
        """
        trials = CandidateTrials(task, options)
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
        noise = f"{noise_in_words(trials.tests)}; met up to the bound less {margins} rows, by criterion"
        if (least := trials.least_rows) is not None:
            noise += f"; with fewer than {least:,} rows no model meets the criteria (rows_about makes the plan check)"
        steps.append(PlannedStep("tests of candidates", tests, 1 - sum(step.share for step in steps), noise))
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
        trials = CandidateTrials(task, options)
        draws: list[ReleasedDraw] = []
        failed: list[str] = []
        known: list[Measured] = []
        for number, trial in enumerate(trials.each):
            own = PrefixedDraws(grant, f"candidate-{number + 1}-")
            fitted = trial.fit(counts, own, _part_of(progress, number, len(trials.each)), known)
            tests = trials.tested(number, fitted.model, counts, own)
            draws += [*fitted.draws, *tests]
            missed = [test for test in tests if not test.met]
            if not missed:
                return Fitted(fitted.model, tuple(draws), (*failed, _accepted(number, trial), *fitted.notes))
            failed.append(_failed(trial, missed))
            known += released_counts(fitted.measurements) if options.keep_measured else []
        raise NothingAccepted(
            "no candidate was accepted, and nothing is published. "
            + " ".join(f"{each}." for each in failed)
            + " The charge stays spent: these noisy distances are paid for. The same spec run again replays them and "
            "ends as now; with other criteria or candidates it is another release, and is charged anew"
        )


def _part_of(progress: FitProgress, number: int, of: int) -> FitProgress:
    """Return the progress of one candidate among all."""
    return lambda done, what: progress((number + done) / of, f"candidate {number + 1}: {what}")


def _accepted(number: int, trial: CandidateTrial) -> str:
    """Say which candidate was accepted."""
    return message(
        "candidate {number}, {generator}, met all criteria and is published",
        number=number + 1,
        generator=trial.terms.generator,
    )


def _failed(trial: CandidateTrial, missed: Sequence[CriterionTest]) -> str:
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
