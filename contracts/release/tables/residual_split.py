"""`split: residuals`: what the tables of a release have in common is measured once, and what goes with that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from contracts.reading.scalars import Problem, refuse

MOST_COLUMNS: Final = 12
"""A table of so many columns has 4,096 residuals."""
NOISES: Final = ("auto", "gaussian")
"""Mechanisms whose noise may be Gaussian."""


def check_residuals(
    mechanism: str,
    tables: Sequence[object],
    *,
    method: str,
    consistent: bool,
    keeps_total: bool,
    rule: object | None,
) -> None:
    """Refuse what does not go with `split: residuals`.

    Noise is Gaussian: the least error is known for it alone. Every table is of the contract's own cells, since
    residuals are of one domain. Tables agree by themselves. No count is suppressed, since residuals would tell it.

    Args:
        mechanism: of the product.
        tables: its entries.
        method: by which tables are refined.
        consistent: whether tables are refined together.
        keeps_total: whether a declared total is kept.
        rule: the minimum-frequency rule, if there is one.
    Raises:
        PydanticCustomError: with every problem.
    """
    problems = []
    if mechanism not in NOISES:
        found, remedy = f"split residuals with mechanism {mechanism}", "write `mechanism: auto`, or another split"
        problems.append(Problem(found, " or ".join(NOISES), remedy, ("mechanism",)))
    if rule is not None:
        found, remedy = "`minimum_frequency` with split residuals", "choose `split: optimal`, or drop the rule"
        problems.append(
            Problem(found, "another split: residuals tell of small counts", remedy, ("minimum_frequency",))
        )
    asked = [(place, table) for place, table in enumerate(tables) if getattr(table, "queries", ())]
    if asked and method != "none":
        found, remedy = f"method {method} with tables with `queries`", "drop `refine:`: ranges overlap"
        problems.append(Problem(found, "method none: answers as they were measured", remedy, ("refine", "method")))
    if asked and keeps_total:
        found, remedy = "total invariant with tables with `queries`", "write `total: noisy`, or drop the queries"
        problems.append(Problem(found, "a total that is measured with the ranges", remedy, ("total",)))
    if consistent:
        found, remedy = (
            "`consistent: true` with split residuals",
            "drop it: these tables agree before they are refined",
        )
        problems.append(Problem(found, "tables that are refined one by one", remedy, ("refine", "consistent")))
    for place, table in enumerate(tables):
        problems += _table_problems(table, place)
    if problems:
        refuse(problems)


def _table_problems(table: object, place: int) -> list[Problem]:
    """Return what one entry has that does not go with residuals."""
    given = [name for name in ("hierarchy", "bins") if getattr(table, name, None)]
    given += ["form"] if getattr(table, "form", None) == "sparse" else []
    problems = [
        Problem(
            f"`{name}` with split residuals",
            "whole tables of the contract's cells",
            "publish that table in a release of its own, or choose `split: optimal`",
            ("tables", place, name),
        )
        for name in given
    ]
    columns = getattr(table, "ways", None) or len(getattr(table, "columns", ()))
    if columns > MOST_COLUMNS:
        found, remedy = f"a table of {columns} columns with split residuals", "choose `split: optimal`"
        problems.append(Problem(found, f"at most {MOST_COLUMNS} columns", remedy, ("tables", place)))
    return problems
