"""How accurate a version is, in one figure and one sentence for the first screen of its page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from contracts.message import message
from tasks.records.page.dense_view import TableView
from tasks.records.page.reliability import LIMITS
from tasks.records.page.statistics_view import StatisticsView
from tasks.records.values import Values

GOOD: Final = LIMITS[:3]
"""Letters that the first screen counts as reliable."""


@dataclass(frozen=True)
class ErrorAtAGlance:
    """How far off published numbers are.

    Args:
        figure: a number, or a few words.
        says: what it means.
    """

    figure: str
    says: str


def error_at_a_glance(values: Values, tables: Sequence[TableView | StatisticsView]) -> ErrorAtAGlance:
    """Say how accurate a version is: the share of reliable cells, or the reach of the noise.

    Args:
        values: the record's fields by "section.name".
        tables: what the page shows of the tables; empty where there are none.
    Privacy: post-processing; of published numbers and declared noise alone.
    """
    counts = [table for table in tables if isinstance(table, TableView)]
    statistics = [table for table in tables if isinstance(table, StatisticsView) and table.expected]
    cells = sum(grade.number for table in counts for grade in table.grades)
    reaches = sorted(reach for reach in map(_reach, _stated(values)) if reach is not None)
    if cells:
        good = [letter for letter, _ in GOOD]
        reliable = sum(grade.number for table in counts for grade in table.grades if grade.letter in good)
        return ErrorAtAGlance(
            message("{share} of 100 cells", share=100 * reliable // cells),
            message(
                "are within {percent} % of the exact count in 95 % of draws (letters {first} to {last} below)",
                percent=GOOD[-1][1],
                first=good[0],
                last=good[-1],
            ),
        )
    if statistics:
        return ErrorAtAGlance(
            statistics[0].expected[0],
            message("in 95 % of draws, from the noise alone; the tables tell of the others"),
        )
    if reaches:
        ends = {f"{reaches[0]:,}", f"{reaches[-1]:,}"}
        figure = (
            f"±{reaches[0]:,}"
            if len(ends) == 1
            else message("±{low} to ±{high}", low=f"{reaches[0]:,}", high=f"{reaches[-1]:,}")
        )
        return ErrorAtAGlance(figure, message("reach of the noise on each measured count, in 95 % of draws"))
    return ErrorAtAGlance(
        message("not published"), message("a score on the confidential rows would tell more of them")
    )


def _stated(values: Values) -> Sequence[Any]:
    stated = values["utility.expected_error"]
    return stated if isinstance(stated, list) else ()


def _reach(error: Any) -> int | None:
    """Return the reach of the noise on a count [rows]; None of what is no count."""
    reach = error.get("half_width_95")
    return reach if isinstance(reach, int) else None
