"""Relative error against the size of a cell, from the declared noise, over a histogram of the released sizes."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Final

import numpy as np
from numpy.typing import NDArray

from contracts.message import joined, message
from privacy.arrays import Numbers
from tasks.records.charts import drawing as svg

MARKS: Final = (50, 10)
"""Relative errors that are marked [per cent]."""
_BOX: Final = (12, 5, 86, 80)
_TOP: Final = 3.0
_BARS_PER_DECADE: Final = 5
_BARS_REACH: Final = 300
_LAST_WITH_ROOM: Final = 78
"""Right of this place a label would run over the edge [per cent of the width]."""


@dataclass(frozen=True)
class Mark:
    """Where the relative error passes a mark, and how many cells are at least that large.

    Args:
        percent: the relative error.
        size: the cell size [rows].
        cells: released cells of that size or above.
    """

    percent: int
    size: float
    cells: int


@dataclass(frozen=True)
class ErrorPlot:
    """The drawing, and its marks for the words beside it."""

    drawing: svg.Drawing
    marks: tuple[Mark, ...]


def error_plot(values: Numbers, half_width: int) -> ErrorPlot | None:
    """Draw half_width / size over the size, both axes logarithmic; None without noise or without positive cells.

    Args:
        values: released counts.
        half_width: 95 % of noises lie within plus or minus this, ≥ 0 [rows].
    """
    positive = values[values > 0].reshape(-1).astype(np.float64)
    if half_width < 1 or positive.size == 0:
        return None
    marks = tuple(_mark(positive, half_width, percent) for percent in MARKS)
    largest = max(float(positive.max()), 1.5 * marks[-1].size)
    across = (0.0, ceil(4 * log10(largest)) / 4)
    up = (float(min(0, floor(log10(100 * half_width) - across[1]))), _TOP)
    first = max(across[0], log10(100 * half_width) - _TOP)
    ends = [(x, log10(100 * half_width) - x) for x in (first, across[1])]
    under = svg.place(log10(half_width), across)
    content = (
        f'<rect class="band" x="0" y="0" width="{under}" height="1000"/>{_bars(positive, across)}{_grid(across, up)}'
        f'<path class="drop" d="{"".join(_drop(mark, across, up) for mark in marks)}"/>'
        f'<path class="curve" d="{svg.line(ends, across, up)}"/>'
    )
    texts = _ticks(across, up) + "".join(_dot(mark, place, across, up) for place, mark in enumerate(marks, 3))
    sizes = [message("±{percent} % at {size}", percent=mark.percent, size=f"{mark.size:,g}") for mark in marks]
    axes = message("size of the cell"), message("95 % of the noise, relative")
    label, drawn = _label(half_width, marks), svg.plot(content, _BOX) + texts
    return ErrorPlot(svg.figure("errors", label, drawn, *axes, *sizes), marks)


def _mark(positive: NDArray[np.float64], half_width: int, percent: int) -> Mark:
    size = 100 * half_width / percent
    return Mark(percent, size, int((positive >= size).sum()))


def _label(half_width: int, marks: tuple[Mark, ...]) -> str:
    passed = joined(
        message(
            "{percent} % at {size} ({cells} cells are as large)",
            percent=mark.percent,
            size=f"{mark.size:,g}",
            cells=f"{mark.cells:,}",
        )
        for mark in marks
    )
    return message(
        "Relative error against cell size: the noise reaches {width} in 95 % of draws, which is {marks}.",
        width=f"{half_width:,}",
        marks=passed,
    )


def _bars(positive: NDArray[np.float64], across: tuple[float, float]) -> str:
    """Draw how many positive cells have which size, by the square root."""
    steps = max(1, round(across[1] * _BARS_PER_DECADE))
    counts, edges = np.histogram(np.log10(np.maximum(positive, 1)), bins=steps, range=across)
    drawn = []
    for count, low, high in zip(counts, edges[:-1], edges[1:], strict=True):
        height = round(_BARS_REACH * float(np.sqrt(count / counts.max())))
        left, right = svg.place(float(low), across), svg.place(float(high), across)
        drawn.append(f"M{left + 1} 1000V{1000 - height}H{right - 1}V1000Z" if height else "")
    return f'<path class="bars" d="{"".join(drawn)}"/>'


def _grid(across: tuple[float, float], up: tuple[float, float]) -> str:
    lines = [f"M{svg.place(x, across)} 0V1000" for x in svg.decades(across)]
    lines += [f"M0 {1000 - svg.place(y, up)}H1000" for y in svg.decades(up)]
    return f'<path class="grid" d="{"".join(lines)}"/>'


def _drop(mark: Mark, across: tuple[float, float], up: tuple[float, float]) -> str:
    x, y = svg.place(log10(mark.size), across), 1000 - svg.place(log10(mark.percent), up)
    return f"M0 {y}H{x}V1000"


def _dot(mark: Mark, slot: int, across: tuple[float, float], up: tuple[float, float]) -> str:
    """Mark a point of the line, with its size beside it, in a slot of the drawing's words."""
    x = _BOX[0] + _BOX[2] * svg.place(log10(mark.size), across) / 1000
    y = _BOX[1] + _BOX[3] * (1 - svg.place(log10(mark.percent), up) / 1000)
    dot, words = f'<circle cx="{x:.4g}%" cy="{y:.4g}%" r="4"/>', f"{{{slot}}}"
    if x > _LAST_WITH_ROOM:
        return dot + svg.text(x - 1.5, y + 5.5, words, "end", "mark")
    return dot + svg.text(x + 1.5, y - 1.5, words, "start", "mark")


def _ticks(across: tuple[float, float], up: tuple[float, float]) -> str:
    left, top, width, height = _BOX
    below = [
        svg.text(left + width * svg.place(x, across) / 1000, 92, svg.short(10**x), "middle")
        for x in svg.decades(across)
    ]
    beside = [
        svg.text(left - 1, top + height * (1 - svg.place(y, up) / 1000) + 1.5, f"{10**y:g} %", "end")
        for y in svg.decades(up)
    ]
    names = svg.text(98, 98.5, "{1}", "end", "axis") + svg.text(left, 3.5, "{2}", "start", "axis")
    return "".join(below + beside) + names
