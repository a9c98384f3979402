"""How numbers enter a vector: in proportion to their values, or by the places of their bins; public, no row is read.

Where (one letter each)
    n   bins of a column      i   the place of a value's bin, from 0

    scaled    (middle of bin i - lowest) / (highest - lowest)        the column's declared bounds
    bins      (i + 1/2) / n

Amounts of money span several powers of ten. In proportion to their bounds nearly all of them lie next to 0, where a
decoder and a normal vector tell them apart no more. Who declares bins that grow says by them on which scale amounts
differ. So by their places the rows spread as the bins do: over edges 1, 2, 5, 10, ... that is their logarithm.

Every entry stays in [0, 1], and so do the norm bound and the noise: only the table that codes are looked up in is
another one, a function of the contract and the options. The way back is that of every number: the nearest bin, and a
value inside it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Literal

import numpy as np

from privacy.learning.layout import ColumnLayout, RowLayout

NumberEntry = Literal["auto", "bins", "scaled"]
"""An option of generators: by bins, scaled by the bounds, or by bins where those are far from even."""
UNEVEN: Final = 10
"""Bins are far from even where their middles lie more than so many times as far apart in one place as in another."""


def entering(layout: RowLayout, numbers: NumberEntry) -> RowLayout:
    """Return the layout with those numbers by bins that are to enter so; names, cells and entries stay the same.

    Args:
        layout: numbers scaled by their bounds, as the contract has them.
        numbers: the option.
    """
    return RowLayout(tuple(_by_bins(each) if _enters_by_bins(each, numbers) else each for each in layout.columns))


def entry_notes(declared: RowLayout | None, used: RowLayout) -> tuple[str, ...]:
    """Name the numbers that enter by the places of their bins, for a plan; nothing where none does.

    Args:
        declared: as the contract has them.
        used: as a generator takes them.
    """
    names = () if declared is None else (each.name for each in used.columns if each is not declared.column(each.name))
    listed = ", ".join(names)
    return (f"numbers that enter by the places of their bins: {listed}",) if listed else ()


def _enters_by_bins(column: ColumnLayout, numbers: NumberEntry) -> bool:
    if column.kind != "number" or numbers == "scaled":
        return False
    apart = np.diff(column.points)
    # One bin or two have no distances to compare.
    return numbers == "bins" or bool(apart.size > 1 and apart.max() > UNEVEN * apart.min())


def _by_bins(column: ColumnLayout) -> ColumnLayout:
    """Return the column with its bins at even distances; the cell of nulls stays as it is."""
    table, bins = column.table.copy(), column.points.size
    table[:bins, 0] = (np.arange(bins) + 0.5) / bins
    return replace(column, table=table)
