"""Short facts about the released numbers of a table of statistics."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.message import message
from contracts.release.survey_weight import SurveyWeight
from tasks.records.page.statistics_words import plain_number


def table_facts(
    near: NDArray[Any], impossible: NDArray[Any], weight: SurveyWeight | None, contract: Contract, *, counted: bool
) -> list[tuple[str, str]]:
    """Name the survey weight, and say how many cells are near zero or impossible.

    Args:
        near: cells whose count cannot be told from 0.
        impossible: cells that the contract excludes; as many.
        weight: the survey weight, if rows have one.
        contract: its bounds are in the contract.
        counted: whether the table tells how many rows a cell has.
    """
    found: list[tuple[str, str]] = []
    if weight is not None:
        high = plain_number(weight.lattice(contract).high)
        told = message("{column}, up to {high}: counts are sums of it", column=weight.column, high=high)
        found.append((message("Survey weight"), told))
    if counted:
        some, every = f"{int((near & ~impossible).sum()):,}", f"{near.size:,}"
        found.append(
            (message("Cells whose count cannot be told from 0"), message("{some} of {all}", some=some, all=every))
        )
    if impossible.any():
        found.append((message("Cells declared impossible"), f"{int(impossible.sum()):,}"))
    return found


def suppression_facts(suppressed: NDArray[Any] | None) -> list[tuple[str, str]]:
    """Say how many cells a minimum-frequency rule suppresses; nothing where there is no rule."""
    if suppressed is None:
        return []
    some, every = f"{int(suppressed.sum()):,}", f"{suppressed.size:,}"
    return [
        (message("Cells suppressed by the minimum-frequency rule"), message("{some} of {all}", some=some, all=every))
    ]


def refined_facts(refined: NDArray[Any] | None) -> list[tuple[str, str]]:
    """Say what refined counts add up to; nothing where there are none."""
    return (
        [] if refined is None else [(message("Refined counts (count_refined) add up to"), f"{refined.sum():,.10g}")]
    )
