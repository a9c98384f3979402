"""Auto: chooses among generators by the error that is to be expected, from public sizes alone, and hands over to it.

Where
    n       rows, declared                      P       pairs of columns
    e(t)    mean size of the noise of a share   E_r     what noise makes of the error of marginal r of k cells
    m       pairs that are measured             f       m / P

Nobody knows the table before it is measured, so two priors stand for it:

    cells       the counts of a marginal are flat Dirichlet, about exponential with mean n / k. Estimation leaves a
                cell of p rows within about p of where it was, so that  E_r = E Σ min(e, p) = n (1 - exp(-e k / n))
    pairs       how far a pair is from independence is spread evenly from 0 to n / 2, what an edge may be off at most
                on the mean (`FIRST_MOVE`). Choices find the m farthest; the others are off by (1 - f) n / 4

Then a pair is expected to be off by

    measured    √(E_a² + E_b² + E_ab²)          not measured    √(E_a² + E_b² + ((1 - f) n / 4)²)

and a generator by the mean over all pairs, each generator at its own shares of the budget:

    independent     m = 0, all of it for the columns
    mst             m = d - 1, four ninths for the columns, four for the pairs
    aim             the best m up to its rounds, three twentieths for the columns, nine tenths of the rest for pairs

The least error is chosen. A choice does not depend on the rows, so that whoever checks a release makes it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from math import comb
from typing import Any, ClassVar, Final

import numpy as np
from pydantic import Field

from contracts.message import message
from privacy.arrays import Floats
from privacy.generators.aim import Aim, AimOptions, AimTerms, planned_rounds
from privacy.generators.fitting import MarginalGenerator
from privacy.generators.generator import (
    CannotGenerate,
    CountsSource,
    DrawSeed,
    FitProgress,
    Fitted,
    Generator,
    GeneratorPlan,
    Model,
    Options,
    PlannedStep,
    Spending,
    SynthesisTask,
    down,
    effective_values,
)
from privacy.generators.independent import Independent
from privacy.generators.mst import MaximumSpanningTree
from privacy.generators.staged import FIRST_MOVE
from privacy.grant.draws import Draws
from privacy.marginals.count_noise import mean_absolute

_NUMBERS_OF_PAIRS: Final = 12
"""How many m between d - 1 and AIM's rounds are looked at."""
_COLUMNS_OF_MST: Final = Fraction(4, 9)
_COLUMNS_OF_AIM: Final = Fraction(3, 20)
_MEASURED_BY_AIM: Final = Fraction(9, 10)


class AutoOptions(Options):
    """Options of `auto`.

    Args:
        rows_about: about how many rows there are; declared, since under add_remove the true number is private. Not
            needed where the contract declares the number of rows.
        aim: what is asked of AIM, where that is chosen. The choice itself expects AIM to measure pairs.
    """

    rows_about: int | None = Field(default=None, ge=1, le=10**12)
    aim: AimTerms = Field(default_factory=AimTerms)


class Auto(MarginalGenerator):
    """Hands over to the generator of the least expected error."""

    name: ClassVar[str] = "auto"
    joins_bins: ClassVar[bool] = False  # what it chooses by is known before any bin is joined
    options = AutoOptions

    def plan(self, task: SynthesisTask, options: AutoOptions) -> GeneratorPlan:
        """Choose a generator, and let it plan.

        Raises:
            CannotGenerate: nobody says about how many rows there are; or as of the generator that is chosen.
        """
        name, errors = chosen(task, options)
        made = self._generator(name).plan(task, _options(name, options))
        first = PlannedStep(_chosen_in_words(name, errors), 0, 0.0, message("no noise: public sizes alone"))
        idle = name != "aim" and options.aim != AimTerms()
        notes = (message("what `aim` is asked for has no effect: {name} was chosen", name=name),) if idle else ()
        return replace(made, steps=(first, *made.steps), notes=(*notes, *made.notes))

    def fit(
        self,
        task: SynthesisTask,
        options: AutoOptions,
        plan: GeneratorPlan,
        counts: CountsSource,
        grant: Draws,
        progress: FitProgress,
        seed: DrawSeed,
    ) -> Fitted[Model]:
        """Let the generator that the plan has chosen fit.

        Raises:
            OutOfTime: as of that generator.
        Privacy: that of its plan; which one it is depends on public values only.
        """
        name, errors = chosen(task, options)
        made = self._generator(name).fit(task, _options(name, options), plan, counts, grant, progress, seed)
        return Fitted(made.model, made.draws, (_chosen_in_words(name, errors), *made.notes), made.seed)

    def resolved(self, options: AutoOptions) -> dict[str, Any]:
        """Return the options with those of AIM that nobody wrote."""
        return {**effective_values(options), "aim": effective_values(options.aim)}

    def _generator(self, name: str) -> Generator[Any]:
        made: Mapping[str, type[Any]] = {"independent": Independent, "mst": MaximumSpanningTree, "aim": Aim}
        found: Generator[Any] = made[name](clock=self._clock)
        return found


def chosen(task: SynthesisTask, options: AutoOptions) -> tuple[str, Mapping[str, float]]:
    """Return the generator of the least expected error, and the error of each, of all rows; reads no data.

    Raises:
        CannotGenerate: nobody says about how many rows there are, no columns, or too small a charge.
    """
    rows = task.public_total if task.public_total is not None else options.rows_about
    if not rows:
        raise CannotGenerate(
            "options.rows_about is missing: auto weighs noise against the number of rows, which is private here; "
            "allowed: a whole number from 1 to 10^12 that was not counted from the rows; "
            "do: add `options: {rows_about: ...}`, or name a generator"
        )
    if not task.domain.columns:
        raise CannotGenerate("there are no columns to synthesize; do: give the contract at least one with a domain")
    errors = _errors(task, options, float(rows))
    # Of equals the first, which is the simplest.
    return min(errors, key=errors.__getitem__), errors


def _errors(task: SynthesisTask, options: AutoOptions, rows: float) -> dict[str, float]:
    """Return the expected error of each generator, the simplest first [of all rows]."""
    table = _PriorTable(task, options, rows)
    columns = len(task.domain.columns)
    total = table.spending.total
    errors = {"independent": table.error(total, Fraction(0), 0)}
    if columns > 1:
        edges = columns - 1
        part = _COLUMNS_OF_MST * total
        errors["mst"] = table.error(part, part, edges)
        rounds = planned_rounds(columns, columns + comb(columns, 2))
        most = max(edges, min(rounds, comb(columns, 2)))
        first = _COLUMNS_OF_AIM * total
        pairs = _MEASURED_BY_AIM * (total - first)
        numbers = {round(each) for each in np.geomspace(edges, most, _NUMBERS_OF_PAIRS)}
        errors["aim"] = min(table.error(first, pairs, number) for number in sorted(numbers))
    return errors


class _PriorTable:
    """A table of the task's columns of which nothing is known but the number of its rows."""

    def __init__(self, task: SynthesisTask, options: AutoOptions, rows: float) -> None:
        self._rows, self.spending = rows, Spending(task, options.noise)
        self._cells = np.array(task.domain.shape, dtype=np.float64)
        self._pairs = np.array(list(combinations(range(len(self._cells)), 2)), dtype=np.int64).reshape(-1, 2)

    def error(self, columns: Fraction, pairs: Fraction, number: int) -> float:
        """Return the mean error of a pair, `number` of them measured [of all rows].

        Args:
            columns, pairs: what both get of the budget.
            number: m.
        """
        shares = self.spending.optimal([Fraction(int(cells)) for cells in self._cells], down(columns))
        of_columns = self._noise(self._cells, np.array([self._size(share) for share in shares]))
        if not len(self._pairs):
            return float(of_columns.mean())
        of_both = np.hypot(*of_columns[self._pairs].T)
        measured = number / len(self._pairs)
        error = (1 - measured) * np.hypot(of_both, (1 - measured) * FIRST_MOVE / 2).mean()
        if number:
            of_pairs = self._noise(self._cells[self._pairs].prod(axis=1), self._size(down(pairs / number)))
            error += measured * np.hypot(of_both, of_pairs).mean()
        return float(error)

    def _size(self, share: Fraction) -> float:
        return mean_absolute(self.spending.event(share))

    def _noise(self, cells: Floats, size: Floats | float) -> Floats:
        """Return E_r [of all rows]."""
        return np.asarray(-np.expm1(-cells * size / self._rows))


def _options(name: str, options: AutoOptions) -> Options:
    """Return the options of the generator that is chosen: those that every generator has, and of AIM its own."""
    common = options.model_dump(include=set(Options.model_fields))
    return AimOptions(**common, **effective_values(options.aim)) if name == "aim" else Options(**common)


def _chosen_in_words(name: str, errors: Mapping[str, float]) -> str:
    each = ", ".join(f"{other} {error:.3g}" for other, error in errors.items())
    return message(
        "{name} was chosen, by the error that is expected of a pair of columns: {errors}", name=name, errors=each
    )
