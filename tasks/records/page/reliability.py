"""How reliable each cell is, by a letter, as statistical offices mark their estimates; and how many cells have which.

The reach of a cell is the larger distance from its published count to an end of its 95 % interval, over the count.
So the letter never promises more than the interval does, also where refinement moved the count from its middle.

| letter | reach at most | means |
|---|---|---|
| A | 5 % | excellent |
| B | 10 % | very good |
| C | 20 % | good |
| D | 33 % | acceptable |
| E | 67 % | use with caution |
| F | beyond | too unreliable to be used by itself |

Source: letters as in Statistics Canada's standard table symbols (A to D acceptable or better, E use with caution, F
too unreliable to be published). The limits of D and E are twice its limits of the coefficient of variation, 16.5 %
and 33.3 %, because a 95 % interval reaches about two coefficients to each side. The limits of A, B and C are ours.
Noise alone counts, no sampling error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from contracts.message import message
from tasks.records.charts import charts

LIMITS: Final = (("A", 5), ("B", 10), ("C", 20), ("D", 33), ("E", 67))
"""Each letter with the largest reach that has it [per cent of the published count]; beyond the last it is F."""
WORST: Final = "F"
_MEANS: Final = {
    "A": message("excellent"),
    "B": message("very good"),
    "C": message("good"),
    "D": message("acceptable"),
    "E": message("use with caution"),
    WORST: message("too unreliable to be used by itself"),
}


@dataclass(frozen=True)
class Grade:
    """How many cells of a table have a letter.

    Args:
        letter: the letter.
        reach: the reaches that have it.
        means: in words.
        number: how many cells.
        bar: their share, drawn.
    """

    letter: str
    reach: str
    means: str
    number: int
    bar: Markup


def letters(counts: NDArray[Any], lower: NDArray[Any], upper: NDArray[Any]) -> NDArray[np.str_]:
    """Give each cell its letter.

    Args:
        counts: published counts, any shape [units].
        lower, upper: ends of the 95 % intervals of the exact counts, same shape [units].
    Returns:
        Letters, same shape; F for a count of 0 or below, and no letter ("") where both ends are the count itself:
        the cell has no noise, such as one that is declared impossible.
    Privacy: post-processing.
    """
    reach = np.maximum(np.asarray(upper) - counts, counts - np.asarray(lower)).astype(np.float64)
    found = np.full(np.shape(counts), WORST)
    for letter, percent in reversed(LIMITS):
        found[(100 * reach <= percent * np.asarray(counts, dtype=np.float64)) & (np.asarray(counts) > 0)] = letter
    found[reach <= 0] = ""
    return found


def grades(found: NDArray[np.str_]) -> list[Grade]:
    """Count the cells of each letter, in the order of the letters; empty where no cell has one."""
    cells = {letter: int((found == letter).sum()) for letter in _MEANS}
    most, reaches = max(cells.values()), dict(LIMITS)
    if not most:
        return []
    return [
        Grade(
            letter,
            f"≤ {reaches[letter]} %" if letter in reaches else f"> {LIMITS[-1][1]} %",
            _MEANS[letter],
            number,
            charts.share_bar(number, most),
        )
        for letter, number in cells.items()
    ]
