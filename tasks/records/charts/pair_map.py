"""A picture of all pairs of columns that fits the page, however many columns there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from contracts.message import message
from tasks.records.charts import charts
from tasks.records.charts.charts import Drawing

MOST_NUMBERS: Final = 12
MOST_NAMES: Final = 40


@dataclass(frozen=True)
class PairCell:
    """One pair: what stands in its cell, what a pointer on it shows, and how dark it is (0 to `HEAT_LEVELS`)."""

    text: str
    label: str
    level: int


@dataclass(frozen=True)
class PairMap:
    """All pairs of columns.

    Args:
        rows: each column's name with its cells; columns are numbered by their place. Empty where a picture stands.
        picture: plain squares, where the columns are too many for names.
    """

    rows: list[tuple[str, list[PairCell]]]
    picture: Drawing | None


def pair_map(
    names: Sequence[str], darkness: NDArray[np.float64], texts: Sequence[Sequence[str]], label: str
) -> PairMap:
    """Draw a matrix over pairs of columns: with numbers, with names only, or as plain squares, as they fit.

    Args:
        names: the columns.
        darkness: at least 0, shape (columns, columns); the largest is the darkest.
        texts: the number of each pair, as it is written; empty for none.
        label: what the picture shows, in words.
    """
    if len(names) > MOST_NAMES:
        return PairMap([], charts.heat_map(darkness, label))
    levels = charts.heat_levels(darkness)
    rows = []
    for place, name in enumerate(names):
        cells = [
            PairCell(
                text if len(names) <= MOST_NUMBERS else "",
                message("{one} × {other}: {noise}", one=name, other=other, noise=text or message("none")),
                int(level),
            )
            for other, text, level in zip(names, texts[place], levels[place], strict=True)
        ]
        rows.append((name, cells))
    return PairMap(rows, None)
