"""What an attacker can learn at most, in numbers: fields of group F."""

from __future__ import annotations

from decimal import ROUND_CEILING, Context
from typing import Any, Final

from privacy.accounting.amounts import atto_to_text, pico_to_text
from privacy.accounting.posterior import (
    PRIORS,
    epsilon_of_attribute,
    exceptions,
    largest_posterior,
    odds_bound,
)
from privacy.audit.learnable import WHOLE, meaning
from tasks.record.field import Run, public


def beliefs(epsilon: int, delta: int) -> dict[str, str]:
    """Give the largest belief after the release, by the belief before."""
    factor = odds_bound(epsilon, delta)
    return {f"{float(100 * prior):g} %": largest_posterior(prior, factor) for prior in PRIORS}


def about_a_unit(run: Run) -> dict[str, Any]:
    """Give what can come to be believed of one unit: that it is in the table, or what the table says of it."""
    request = run.facts.charge.request
    present = request.adjacency == "add_remove"
    return {
        "hypothesis": "a unit is in the table" if present else "the rows of a unit are these and no others",
        "at_most": beliefs(request.epsilon, request.delta),
        "except_with_probability": atto_to_text(exceptions(request.epsilon, request.delta)),
    }


def about_attributes(run: Run) -> list[dict[str, Any]] | str:
    """Give for each column of the contract what can be learned of it alone."""
    if not run.facts.of_tables:
        return WHOLE
    return [_attribute(run, column.name) for column in run.facts.contract.columns]


def _attribute(run: Run, column: str) -> dict[str, Any]:
    request = run.facts.charge.request
    draws = [draw for draw in run.facts.tables_plan.draws if column in draw.clique]
    epsilon = epsilon_of_attribute(
        [draw.event for draw in draws], rows_per_unit=request.rows_per_unit, delta=request.delta
    )
    return {
        "column": column,
        "draws": len(draws),
        "epsilon": pico_to_text(epsilon),
        "odds_factor": f"{Context(prec=4, rounding=ROUND_CEILING).plus(odds_bound(epsilon, 0)):g}",
        "at_most": beliefs(epsilon, request.delta),
        "except_with_probability": atto_to_text(exceptions(epsilon, request.delta)),
    }


def means(run: Run) -> str:
    """Say what a bound about one column is about."""
    request = run.facts.charge.request
    return meaning(request.adjacency, request.rows_per_unit, synthetic=not run.facts.of_tables)


LEARNABLE: Final = (
    public(
        "largest_posterior", "Largest belief about one unit after the release, by the belief before.", about_a_unit
    ),
    public(
        "per_attribute",
        "Largest belief about one column of one unit, by the loss of the draws that count it.",
        about_attributes,
    ),
    public("per_attribute_means", "What the bound about one column is about, and what not.", means),
)
