"""Candidates under one charge: the budget's shares, each candidate's plan and fit, and the tests of its model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ValidationError

from contracts.contract.impossible_cells import Clique
from contracts.release.acceptance import (
    Acceptance,
    CellCriterion,
    MeanMarginal,
    WorstMarginal,
    acceptance_problems,
    cell_numbers,
)
from privacy.accounting.adaptive import share
from privacy.accounting.event import UnsupportedEvent
from privacy.accounting.events import CountNoise
from privacy.generators.generator import (
    CandidateRefused,
    CannotGenerate,
    CountsSource,
    FitProgress,
    Fitted,
    Generator,
    GeneratorPlan,
    Model,
    SynthesisTask,
    no_seed,
)
from privacy.generators.spending import Spending, epsilon_of_part
from privacy.grant.draws import Draws
from privacy.grant.queries.acceptance import AcceptanceQuery, CriterionTest, most_moved
from privacy.marginals.measured import Measured
from privacy.marginals.noise_tail import least_margin
from privacy.marginals.scores import Candidate, DistanceScore
from privacy.marginals.sensitivity import moved_noise


@dataclass(frozen=True)
class CandidateTrial:
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


class CandidateTrials:
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

    def _trial(self, number: int, part: Fraction) -> CandidateTrial:
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
                    "allowed: generators of marginals (auto, aim, mst, privbayes, latent_factors, independent, fixed)"
                    "; do: name one of these"
                )
            options = made_by.options.model_validate(terms.options)
            if getattr(options, "time_limit", None) is not None:
                raise CannotGenerate(
                    "time_limit of a candidate: what is accepted would depend on a clock; allowed: no time limit; "
                    "do: drop time_limit"
                )
            task = replace(self.task, epsilon=epsilon_of_part(self.task, part / self.spending.total))
            plan = made_by.plan(task, options)
            if sum(share(self.spending.budget, event) for event in plan.events) > part:
                raise CannotGenerate(f"{terms.generator!r} plans more than its share; allowed: {float(part):.3g}")
        except ValidationError as error:
            raise CandidateRefused((*at, "options"), error, model=made_by.options) from None
        except (CannotGenerate, UnsupportedEvent) as error:
            raise CandidateRefused(at, error, options=terms.options) from error
        return CandidateTrial(terms, made_by, options, task, part, plan)

    @property
    def _rows(self) -> int | None:
        """About how many rows there are, where that is public."""
        return self.task.public_total or self.options.rows_about

    def check_bounds(self) -> None:
        """Refuse bounds that lie below the margin: no candidate would meet them, however good.

        Raises:
            CandidateRefused: with the least bound that can be met.
        """
        rows = self._rows
        for number, (criterion, needed) in enumerate(zip(self.options.criteria, self.margins, strict=True)):
            counted = len(self.cliques[number])
            unknown = rows is None and not isinstance(criterion, CellCriterion)
            if unknown or criterion.largest(rows or 1, counted) >= needed:
                continue
            if isinstance(criterion, CellCriterion):
                allowed = f"from {needed} rows on; do: raise it,"
            elif (share := needed / _most_apart(criterion, rows or 1, counted)) < 1:
                allowed = f"from {share:.4g} on; do: raise it,"
            else:
                allowed = f"more rows than {rows:,}, or less noise: no bound below 1 can be met; do: raise"
            raise CandidateRefused(
                ("criteria", number, "at_most"),
                CannotGenerate(
                    f"{criterion.at_most}, below what the noise of the test makes of a perfect model; allowed: "
                    f"{allowed} the charge or share_of_tests, or take fewer criteria or candidates"
                ),
            )

    @property
    def least_rows(self) -> int | None:
        """With how many rows every bound is one that a model can meet; None where `check_bounds` has seen to that."""
        if self._rows is not None:
            return None
        each = [
            ceil(needed / (Fraction(criterion.at_most) * _most_apart(criterion, 1, len(cliques))))
            for criterion, cliques, needed in zip(self.options.criteria, self.cliques, self.margins, strict=True)
            if not isinstance(criterion, CellCriterion)
        ]
        return max(each, default=0) or None

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


def _most_apart(criterion: WorstMarginal | MeanMarginal, rows: int, marginals: int) -> int:
    """Return the L1 distance of marginals that share no row: that of a total variation distance of 1 [rows]."""
    return 2 * rows * criterion.parts(marginals)


def _expected(model: Model, clique: Clique) -> NDArray[np.int64]:
    """Return the model's counts in whole rows."""
    return np.rint(model.marginal(clique)).astype(np.int64)
