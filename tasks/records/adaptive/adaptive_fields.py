"""What a record says of adaptive tables to people: levels, how many groups got which, what was measured."""

from __future__ import annotations

from typing import Any, Final

from contracts.message import SEMICOLON, joined, message
from contracts.release.adaptive.product import adaptive_product
from privacy.table_plans.adaptive_plan import AdaptivePlan, expected_levels
from tasks.records.draws.drawn import measured as measured_draws
from tasks.records.fitted_groups.synthetic_groups import draws, mechanism, samplers, sensitivities, with_fills
from tasks.records.groups.account import LEDGER
from tasks.records.groups.contract_terms import UNIT
from tasks.records.groups.evidence import OUTPUT, in_parts
from tasks.records.groups.field import NONE, FieldGroup, Run, public
from tasks.records.groups.noise import NOISE
from tasks.records.groups.reproducibility import BYTEWISE, REPRODUCIBILITY, line, loss
from tasks.records.groups.unprotected import UNPROTECTED
from tasks.records.groups.utility import UTILITY

STEPS: Final = (
    message("a noisy total of each group, which chose the group's level"),
    message("noisy counts of each group at its level, put together with the total by least squares"),
    message("made whole and not negative, so that the counts of a group add up to its total"),
)
CHOICE: Final = message(
    "the level of a group follows from its noisy total and public thresholds alone. The counts of every group cost "
    "the same, whatever its level is. A change of one row moves them as it moves one table"
)
BIAS: Final = message(
    "counts of small groups and cells lie a little high on average, since none is negative. A group with a total near"
    " a threshold may get the level below or above it"
)
INTERVALS: Final = message(
    "intervals hold in 95 % of releases for a group's total, or a cell of it, that is chosen beforehand, whatever "
    "level the noise gave the group. They use both draws"
)


def _plan(run: Run) -> AdaptivePlan:
    plan: AdaptivePlan = run.facts.fit[0]
    return plan


def _groups(run: Run) -> tuple[tuple[int, ...], ...]:
    """Return how many groups of each table have each level."""
    made: Any = run.facts.fit[1]
    groups: tuple[tuple[int, ...], ...] = made.groups
    return groups


def tables(run: Run) -> list[dict[str, Any]]:
    """Describe each table: its columns, how it is made."""
    return [
        {
            "table": table.name,
            "columns": list(table.cells.clique),
            "method": message("generalised least squares"),
            "steps": [*STEPS],
        }
        for table in _plan(run).tables
    ]


def levels(run: Run) -> list[dict[str, Any]]:
    """Describe each level of each table, and how many groups got it."""
    found = []
    for table, own in zip(_plan(run).tables, _groups(run), strict=True):
        for level, groups in zip(expected_levels(table), own, strict=True):
            found.append(
                {
                    "table": table.name,
                    "level": level.level,
                    "cells": level.cells,
                    "from_noisy_total": NONE if level.least is None else level.least,
                    "groups": groups,
                }
            )
    return found


def mechanism_choice(run: Run) -> dict[str, Any]:
    """Say who chose the noise."""
    return {"by": message("the spec: {mechanism}", mechanism=adaptive_product(run.facts.spec.product).mechanism)}


def row_count_origin(run: Run) -> str:
    """Say where the number of rows comes from."""
    return message(
        "the noisy totals: one row for each group, and one for each cell of the level that its total chose"
    )


def partitioning(run: Run) -> str:
    """Say how the files are split."""
    whole = message("none: {tables} tables, each in a file of its own", tables=len(_plan(run).tables))
    parts = sum(file.role == "part" for file in run.files)
    return joined([whole, in_parts(parts)], SEMICOLON) if parts else whole


def reproducible(run: Run) -> list[dict[str, str]]:
    """List what a stranger makes again, from what, and how exactly."""
    return [
        line(message("the level of each group"), message("the noisy totals, and the thresholds"), BYTEWISE),
        line(message("all tables"), message("the noisy totals, and the noisy counts at their levels"), BYTEWISE),
        line(*loss(run)),
    ]


def expected_error(run: Run) -> list[dict[str, Any]]:
    """Give for each level the standard errors of a cell and of a group's total, from both draws."""
    return [
        {
            "table": table.name,
            "level": level.level,
            "cell_error": f"{level.cell_error:.6g}",
            "total_error": f"{level.total_error:.6g}",
        }
        for table in _plan(run).tables
        for level in expected_levels(table)
    ]


def computed_on(run: Run) -> list[dict[str, str]]:
    """Say of each metric what it was computed on, and what it cost."""
    told = message("the declared noise of {n} draws; no data", n=len(_plan(run).draws))
    return [{"metric": "expected_error", "computed_on": told, "cost": "none"}]


ADAPTIVE: Final = FieldGroup(
    "product",
    "Adaptive tables",
    (
        public("tables", "How the tables are made.", tables),
        public("levels", "The levels of each table, and how many groups got which.", levels),
        public("choice", "What decided the level of a group, and what that costs.", lambda run: CHOICE),
        public("measured", "What was drawn, with its noise.", lambda run: measured_draws(run.facts)),
        public("known_bias", "What numbers are known to get wrong.", lambda run: [BIAS]),
        public("intervals", "What the intervals say.", lambda run: INTERVALS),
    ),
)
CHANGED: Final = (
    ADAPTIVE,
    with_fills(UNIT, sensitivity=sensitivities),
    with_fills(LEDGER, draws=draws),
    with_fills(UNPROTECTED, exact_total=lambda run: NONE),
    with_fills(NOISE, mechanism=mechanism, mechanism_choice=mechanism_choice, samplers=samplers),
    with_fills(OUTPUT, row_count_origin=row_count_origin, partitioning=partitioning),
    with_fills(UTILITY, expected_error=expected_error, error_against_noisy=lambda run: NONE, computed_on=computed_on),
    with_fills(REPRODUCIBILITY, reproducible=reproducible),
)
