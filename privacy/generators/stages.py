"""A fit in three stages, all draws known beforehand: all columns, private choices, and the cliques chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from math import comb
from typing import Final

from contracts.message import message
from privacy.generators.generator import GeneratorPlan, PlannedStep, SynthesisTask
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

_SECONDS_PER_CANDIDATE: Final = 4e-5
"""Of each choice among all pairs."""


@dataclass(frozen=True)
class Stages:
    """The share of each draw.

    Args:
        columns: of the one-way marginals.
        choices: of the choices.
        chosen: of the measurements of what was chosen.
    """

    columns: tuple[Fraction, ...]
    choices: tuple[Fraction, ...]
    chosen: tuple[Fraction, ...]

    @classmethod
    def of(cls, columns: int, spending: Spending, weights: Sequence[Fraction | int]) -> Stages:
        """Split a budget over the stages by three weights, and each stage evenly over its draws.

        Args:
            columns: d; there are d - 1 choices. With one column there is nothing to choose.
            spending: gives the budget.
            weights: of the stages, > 0.
        """
        if columns == 1:
            return cls((spending.total,), (), ())
        first, choices, chosen = spending.split(spending.total, weights)
        edges = [1] * (columns - 1)
        return cls(spending.split(first, [1] * columns), *(spending.split(part, edges) for part in (choices, chosen)))


def plan_stages(
    task: SynthesisTask, options: Options, stages: Stages, what: str, estimates: int, *, in_turn: bool
) -> GeneratorPlan:
    """Plan a fit in three stages.

    Args:
        asked, options: what is asked for.
        stages: the share of each draw.
        what: what is chosen and measured, in the plural.
        estimates: how many models are estimated.
        in_turn: whether each choice is followed by its measurement; else all choices come first. Who checks a record
            holds its draws against the planned events, one by one.
    Raises:
        CannotGenerate: a model above the cap, no possible row, too small a charge, or too short a time limit.
    """
    check(task, options, ())
    spending = Spending(task, options.noise)
    columns = tuple(spending.event(part) for part in stages.columns)
    choices = tuple(spending.choice(part) for part in stages.choices)
    chosen = tuple(spending.event(part) for part in stages.chosen)
    later = tuple(chain.from_iterable(zip(choices, chosen, strict=True))) if in_turn else (*choices, *chosen)
    draws = len(columns) + len(later)
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
    one_way = [((name,), event) for name, event in zip(task.domain.columns, columns, strict=True)]
    return GeneratorPlan(
        events=(*columns, *later),
        steps=tuple(steps),
        megabytes=options.max_model_megabytes,
        seconds=drawing_seconds(draws)
        + estimates * estimation_seconds(0.0)
        + _SECONDS_PER_CANDIDATE * len(choices) * comb(len(columns), 2),
        expected_error=expected_error(task.domain, one_way),
    )
