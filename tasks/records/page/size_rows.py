"""How many cells of a table have which size, and how far the noise reaches for such cells.

Sizes are the orders of magnitude of refined counts: 1 to 9, 10 to 99, and so on. The reach is relative to them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from contracts.message import message
from tasks.records.charts import charts
from tasks.records.page.words import relative_error


@dataclass(frozen=True)
class SizeRow:
    """How many cells have a size, and how far off such cells may be."""

    sizes: str
    cells: str
    bar: Markup
    error: str


def size_rows(refined: NDArray[Any], half_width: int, *, absent: int = 0, suppressed: str = "") -> list[SizeRow]:
    """Count the cells of each order of magnitude, with the reach of the noise relative to them.

    Args:
        refined: refined counts, any shape.
        half_width: the noise lies within plus or minus this in 95 % of draws.
        absent: how many further cells are 0.
        suppressed: what is known of suppressed cells, whose count reads 0 here; empty where there are none.
    """
    flat = refined.reshape(-1)
    edges = [10**power for power in range(len(str(max(int(flat.max(initial=0)), 1))) + 1)]
    counts = [int(((flat >= low) & (flat < high)).sum()) for low, high in pairwise(edges)]
    small, whole = int((flat < 1).sum()) + absent, bool(np.issubdtype(flat.dtype, np.integer))
    largest = max([*counts, small])
    name = (
        message("suppressed ({threshold}) or 0", threshold=suppressed)
        if suppressed
        else message("below {threshold}", threshold=1)
    )
    rows = [SizeRow(name, f"{small:,}", charts.share_bar(small, largest), "–")] if small else []
    smallest = next((place for place, count in enumerate(counts) if count), len(counts))
    for (low, high), count in list(zip(pairwise(edges), counts, strict=True))[smallest:]:
        error = message("{low} to {high}", low=relative_error(half_width, low), high=relative_error(half_width, high))
        sizes = (
            message("{low} to {high}", low=f"{low:,}", high=f"{high - 1:,}")
            if whole
            else message("{low} to <{high}", low=f"{low:,}", high=f"{high:,}")
        )
        rows.append(SizeRow(sizes, f"{count:,}", charts.share_bar(count, largest), error))
    return rows
