"""Maps of the page: a table of counts, or a statistic, by one column of places with declared shapes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.contract.labels import DescribedCells
from contracts.message import message
from tasks.records.charts.place_map import PlaceMap, place_map, shapes_of
from tasks.records.page.first_screen import written
from tasks.records.page.published_tables import PublishedCounts
from tasks.records.page.statistics_words import brief


def counts_map(contract: DescribedCells, table: PublishedCounts) -> PlaceMap | None:
    """Draw a table by one column of places; a suppressed count is no number. None where no shapes are declared."""
    if shapes_of(contract, table.columns) is None or not isinstance(contract, Contract):
        return None
    counts, gone = table.counts, table.suppressed
    known = np.ones(counts.shape, np.bool_) if gone is None else ~gone
    texts = [
        f"{written(count)} ({written(low)} – {written(high)})" if told else "–"
        for count, low, high, told in zip(counts, table.lower, table.upper, known, strict=True)
    ]
    ends = "0", written(counts[known].max(initial=0))
    what = message("refined counts")
    return place_map(
        contract, table.columns[0], counts, known=known, from_zero=True, texts=texts, what=what, ends=ends
    )


def statistic_map(
    contract: Contract,
    by: Sequence[str],
    what: str,
    values: NDArray[np.float64],
    intervals: tuple[NDArray[np.float64], NDArray[np.float64]],
    *,
    known: NDArray[np.bool_],
    never_negative: bool,
) -> PlaceMap | None:
    """Draw a statistic by one column of places. None where no shapes are declared.

    Args:
        contract: declares the shapes.
        by: the table's columns.
        what: the statistic, for people.
        values: its value in each place.
        intervals: lower and upper ends, each like `values`.
        known: where noise alone cannot have made the number; elsewhere none is drawn.
        never_negative: whether the scale begins at 0, if no value lies below.
    """
    if shapes_of(contract, by) is None:
        return None
    from_zero = never_negative and bool((values[known] >= 0).all())
    texts = [
        f"{brief(value)} ({brief(low)} – {brief(high)})" if told else "–"
        for value, low, high, told in zip(values, *intervals, known, strict=True)
    ]
    told = values[known] if known.any() else np.zeros(1)
    ends = "0" if from_zero else brief(float(told.min())), brief(float(told.max()))
    return place_map(contract, by[0], values, known=known, from_zero=from_zero, texts=texts, what=what, ends=ends)
