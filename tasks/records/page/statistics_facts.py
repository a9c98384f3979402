"""Short facts about the released numbers of a table of statistics, and marks of its cells."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.message import message
from contracts.release.statistics_table import NEAR_ZERO, REFINED
from contracts.release.survey_weight import SurveyWeight
from contracts.release.tables.minimum_frequency import SUPPRESSED
from tasks.records.page.statistics_words import plain_number

PERHAPS_EMPTY: Final = message("perhaps empty")
IMPOSSIBLE: Final = message("declared impossible")
TOO_SMALL: Final = message("suppressed")


def number_facts(
    data: pa.Table,
    near: NDArray[Any],
    impossible: NDArray[Any],
    weight: SurveyWeight | None,
    contract: Contract,
) -> list[tuple[str, str]]:
    """Return all that is told in short of a published table; arguments as of `table_facts`."""
    gone, refined = (
        published_column(data, name) if name in data.column_names else None for name in (SUPPRESSED, REFINED)
    )
    own = table_facts(near, impossible, weight, contract, counted=NEAR_ZERO in data.column_names)
    return [*own, *suppression_facts(gone), *refined_facts(refined)]


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


def published_column(data: pa.Table, name: str) -> NDArray[Any]:
    """Return a column; what is missing, in suppressed cells, as 0."""
    column = data.column(name)
    return np.asarray(pc.fill_null(column, pa.scalar(0).cast(column.type)).to_numpy())


def cell_mark(impossible: bool, suppressed: bool, near: bool) -> str:
    """Say what is to be known of a cell before its numbers."""
    return IMPOSSIBLE if impossible else TOO_SMALL if suppressed else PERHAPS_EMPTY if near else ""
