"""What an attacker can learn at most, in numbers: fields of the section guarantee."""

from __future__ import annotations

from decimal import ROUND_CEILING, Context
from fractions import Fraction
from typing import Any, Final

from privacy.accounting.amounts import ATTO, atto_to_text, loss_up, pico_to_text
from privacy.accounting.convert import best_epsilon
from privacy.accounting.posterior import (
    PRIORS,
    LossPair,
    epsilon_of_attribute,
    exceptions,
    largest_posterior,
    loss_about_a_row,
    odds_bound,
)
from privacy.table_plans.plan import PlannedDraw
from tasks.records.groups.field import Run, public
from tasks.records.sentences import ANY_COLUMN, PRESENCE, ROWS, WHOLE, meaning


def beliefs(epsilon: int, delta: int) -> dict[str, str]:
    """Give the largest belief after the release, by the belief before."""
    factor = odds_bound(epsilon, delta)
    return {f"{float(100 * prior):g} %": largest_posterior(prior, factor) for prior in PRIORS}


def about_a_unit(run: Run) -> dict[str, Any]:
    """Give what can come to be believed of one unit: that it is in the table, or what the table says of it."""
    request = run.facts.charge.request
    present = request.adjacency == "add_remove"
    return {
        "hypothesis": PRESENCE if present else ROWS,
        "at_most": beliefs(request.epsilon, request.delta),
        "except_with_probability": atto_to_text(exceptions(request.epsilon, request.delta)),
    }


def about_attributes(run: Run) -> list[dict[str, Any]] | str:
    """Give for each column of the contract what can be learned of it alone."""
    if not run.facts.of_tables:
        return WHOLE
    return [_attribute(run, column.name) for column in run.facts.contract.columns]


def about_the_largest_attribute(run: Run) -> dict[str, Any]:
    """Give what can be learned of the column that the release tells most of, of a unit known to be in the table."""
    request = run.facts.charge.request
    if not run.facts.of_tables:
        loss = loss_about_a_row(request.epsilon, request.delta, adjacency=request.adjacency)
        return {"column": ANY_COLUMN, **_about(loss)}
    losses = {column.name: _loss(run, column.name) for column in run.facts.contract.columns}
    column = max(losses, key=lambda name: losses[name].epsilon)
    return {"column": column, **_about(losses[column])}


def _attribute(run: Run, column: str) -> dict[str, Any]:
    about = _about(_loss(run, column))
    del about["delta"]
    return {"column": column, "draws": len(_counting(run, column)), **about}


def _about(loss: LossPair) -> dict[str, Any]:
    """Give a loss about one of many values, and the beliefs that it allows."""
    return {
        "epsilon": pico_to_text(loss.epsilon),
        "delta": atto_to_text(loss.delta),
        "odds_factor": f"{Context(prec=4, rounding=ROUND_CEILING).plus(odds_bound(loss.epsilon, 0)):g}",
        "at_most": beliefs(loss.epsilon, loss.delta),
        "except_with_probability": atto_to_text(exceptions(loss.epsilon, loss.delta)),
    }


def _loss(run: Run, column: str) -> LossPair:
    request, residuals = run.facts.charge.request, run.facts.tables_plan.residuals
    if residuals is not None:
        event = residuals.column_event(column)
        found = 0 if event is None else loss_up(best_epsilon([event], Fraction(request.delta, ATTO))[0])
        return LossPair(found, request.delta)
    events = [draw.event for draw in _counting(run, column)]
    epsilon = epsilon_of_attribute(events, rows_per_unit=request.rows_per_unit, delta=request.delta)
    return LossPair(epsilon, request.delta)


def _counting(run: Run, column: str) -> list[PlannedDraw]:
    return [draw for draw in run.facts.tables_plan.measured if column in draw.clique]


def means(run: Run) -> str:
    """Say what a bound about one column is about."""
    request = run.facts.charge.request
    return meaning(request.adjacency, request.rows_per_unit, synthetic=not run.facts.of_tables)


LEARNABLE: Final = (
    public(
        "largest_posterior", "Largest belief about one unit after the release, by the belief before.", about_a_unit
    ),
    public(
        "largest_attribute",
        "Largest belief about the column that the release tells most of, of a unit known to be in the table.",
        about_the_largest_attribute,
    ),
    public(
        "per_attribute",
        "Largest belief about one column of one unit, by the loss of the draws that count it.",
        about_attributes,
    ),
    public("per_attribute_means", "What the bound about one column is about, and what not.", means),
)
