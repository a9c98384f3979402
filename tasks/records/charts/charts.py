"""Inline SVG: bars, intervals, noise curves, heat maps, rank plots. Each scales with the page, without script."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import ceil, exp, floor, log10
from typing import Final

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

from contracts.message import joined, message
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace
from privacy.arrays import Numbers

# --- Lines, areas and texts of the page's charts.


@dataclass(frozen=True)
class Drawing:
    """A figure with words, which each language writes into it.

    Args:
        template: SVG, with a numbered slot in braces for each of the words.
        words: its description, and texts in it.
    """

    template: str
    words: tuple[str, ...]

    def __html__(self) -> str:
        """Return it in English."""
        return Markup(self.template).format(*self.words)

    def __str__(self) -> str:
        """Return it in English."""
        return self.__html__()


def decades(span: tuple[float, float]) -> list[float]:
    """Return the whole powers of ten within a span of logarithms."""
    return [float(power) for power in range(round(np.ceil(span[0])), round(np.floor(span[1])) + 1)]


def short(value: float) -> str:
    """Write a power of ten briefly: 1,000 is 1k."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def line(
    points: Iterable[tuple[float, float]], across: tuple[float, float], up: tuple[float, float] = (0.0, 1.0)
) -> str:
    """Return the path through points; the scales are the numbers at both ends of each axis."""
    drawn = [f"{place(x, across)} {1000 - place(y, up)}" for x, y in points]
    return "M" + "L".join(drawn)


def place(value: float, scale: tuple[float, float]) -> int:
    """Place a value between 0 and 1000 along a scale; what lies outside sticks to its ends."""
    low, high = scale
    return round(1000 * min(1.0, max(0.0, (value - low) / (high - low)))) if high > low else 0


def strip(name: str, content: str) -> Markup:
    """Wrap a chart that is one line high."""
    return Markup(
        f'<svg class="{name}" aria-hidden="true" viewBox="0 0 1000 16" preserveAspectRatio="none">{content}</svg>'
    )


def plot(content: str, box: tuple[int, int, int, int]) -> str:
    """Stretch content in coordinates 0 to 1000 over a part of the figure, in percent: left, top, width, height."""
    x, y, width, height = box
    place = f'x="{x}%" y="{y}%" width="{width}%" height="{height}%"'
    return f'<svg {place} viewBox="0 0 1000 1000" preserveAspectRatio="none">{content}</svg>'


def text(x: float, y: float, text: str, anchor: str, name: str = "tick") -> str:
    """Write a text at a place in percent."""
    return f'<text class="{name}" x="{x:.4g}%" y="{y:.4g}%" text-anchor="{anchor}">{escape(text)}</text>'


def figure(name: str, label: str, content: str, *words: str) -> Drawing:
    """Wrap a chart that stands alone, with its description; further words fill the slots {1}, {2} of its content."""
    return Drawing(f'<svg class="{name}" role="img" aria-label="{{0}}">{content}</svg>', (label, *words))


# --- A table of two ordered axes as a picture.


LEVELS: Final = 64
"""Shades above zero."""
GROUND: Final = "#f3f0e8"
RAMP: Final = ("#d3e9b6", "#97d4b9", "#57b8c1", "#2f93bd", "#2a68a6", "#263f86", "#131b4d")
_LETTER: Final = 0.021
"""How wide a letter of the legend's last number is, of the legend's width."""


@dataclass(frozen=True)
class MapAxis:
    """An axis of a map: its column, and the labels at its two ends."""

    name: str
    first: str
    last: str


@dataclass(frozen=True)
class Map:
    """A map for the page.

    Args:
        source: the picture as a data URI; its first row is the last value of `up`.
        width: in pixels.
        height: in pixels.
        up: the table's first axis, upwards.
        right: its second axis, to the right.
        block: a pixel is the sum of block × block cells.
        label: what it shows, in words.
        scale: the shades of the legend, as a data URI.
        ticks: the numbers below them, drawn.
    """

    source: str
    width: int
    height: int
    up: MapAxis
    right: MapAxis
    block: int
    label: str
    scale: str
    ticks: Markup


def draw_map(values: Numbers, up: MapAxis, right: MapAxis, *, side: int) -> Map:
    """Draw a two-way table of released counts.

    Args:
        values: counts, shape (values of `up`, values of `right`), at least one cell.
        up: the first axis.
        right: the second axis.
        side: pixels that each axis may have, ≥ 1.
    Privacy: reads released values only.
    """
    block = ceil(max(values.shape) / side)
    sums = block_sums(values, block)
    largest = max(float(sums.max()), 10.0)
    picture = address(png(shades(sums, largest)[::-1], palette()))
    legend = address(png(np.arange(1, LEVELS + 1, dtype=np.uint8)[None, :], palette()))
    counted = {
        "up": up.name,
        "right": right.name,
        "above": f"{int((sums > 0).sum()):,}",
        "all": f"{sums.size:,}",
        "largest": f"{float(sums.max()):,.0f}",
    }
    label = (
        message("Map of {up} by {right}: {above} of {all} cells are above zero, the largest {largest}.", **counted)
        if block == 1
        else message(
            "Map of {up} by {right}: {above} of {all} squares are above zero, the largest {largest}.", **counted
        )
    )
    return Map(picture, sums.shape[1], sums.shape[0], up, right, block, label, legend, _legend_ticks(largest))


def block_sums(values: Numbers, block: int) -> Numbers:
    """Sum squares of block × block cells; those at the far ends may be cut off."""
    rows, columns = (np.arange(0, size, block) for size in values.shape)
    sums: Numbers = np.add.reduceat(np.add.reduceat(values, rows, axis=0), columns, axis=1)
    return sums


def shades(values: Numbers, largest: float) -> NDArray[np.uint8]:
    """Return 0 for counts of 0 or less, else 1 (a count of 1) to LEVELS (the largest), by the logarithm."""
    share = np.log10(np.clip(values, 1, largest)) / log10(largest)
    return np.where(values > 0, 1 + np.rint((LEVELS - 1) * share), 0).astype(np.uint8)


def palette() -> list[tuple[int, int, int]]:
    """Return the ground and the LEVELS shades as red, green, blue."""
    anchors = np.array([_rgb(colour) for colour in RAMP], np.float64)
    places = np.linspace(0, len(RAMP) - 1, LEVELS)
    shaded = [np.interp(places, np.arange(len(RAMP)), anchors[:, channel]) for channel in range(3)]
    red, green, blue = (np.rint(channel).astype(int).tolist() for channel in shaded)
    return [_rgb(GROUND), *zip(red, green, blue, strict=True)]


def png(shaded: NDArray[np.uint8], colours: Sequence[tuple[int, int, int]]) -> bytes:
    """Write a PNG file.

    Args:
        shaded: place of each pixel's colour in the palette, shape (height, width).
        colours: the palette, at most 256.
    """
    height, width = shaded.shape
    lines = np.zeros((height, width + 1), np.uint8)  # each line begins with its filter, which is none
    lines[:, 1:] = shaded
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    flat = bytes(part for colour in colours for part in colour)
    chunks = [(b"IHDR", header), (b"PLTE", flat), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, content) for kind, content in chunks)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def address(picture: bytes) -> str:
    """Return a picture as an address that holds all of it."""
    return "data:image/png;base64," + b64encode(picture).decode("ascii")


def _legend_ticks(largest: float) -> Markup:
    """Write the powers of ten, and the largest value, along the legend."""
    span = (0.0, log10(largest))
    last = f"{largest:,.0f}"
    powers = [x for x in decades(span) if x < (0.95 - _LETTER * len(last)) * span[1]]
    texts = [text(place(x, span) / 10, 80, short(10**x), "middle" if x else "start") for x in powers]
    texts.append(text(100, 80, last, "end"))
    return Markup(f'<svg class="ticks" aria-hidden="true">{"".join(texts)}</svg>')


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


HEAT_LEVELS = 8
_RANK_POINTS = 160


def count_bar(count: float, noisy: tuple[float, float, float], scale: tuple[float, float]) -> Markup:
    """Draw a refined count as a bar, with the raw noisy count and its interval as whiskers.

    Args:
        count: the refined count.
        noisy: lower end, noisy count, upper end.
        scale: numbers at the left and the right end.
    """
    zero, end = place(0, scale), place(count, scale)
    low, middle, high = (place(value, scale) for value in noisy)
    bar = f'<rect x="{min(zero, end)}" y="2" width="{abs(end - zero)}" height="12"/>'
    whisker = f'<path d="M{low} 8H{high}M{low} 5v6M{high} 5v6M{middle} 3v10"/>'
    return strip("cb", bar + whisker)


def share_bar(value: float, largest: float) -> Markup:
    """Draw a plain bar from the left end."""
    return strip("cb", f'<rect x="0" y="3" width="{place(value, (0, largest))}" height="10"/>')


def belief_bar(prior: float, low: float, high: float) -> Markup:
    """Draw the range that a belief can move in, with the belief before as a mark; all between 0 and 1."""
    left, mark, right = (place(value, (0, 1)) for value in (low, prior, high))
    track = '<path class="track" d="M0 8H1000"/>'
    band = f'<rect x="{left}" y="3" width="{max(right - left, 2)}" height="10"/><path d="M{mark} 0v16"/>'
    return strip("cb", track + band)


def dots(chance: int, most: int) -> Markup:
    """Draw 100 guesses as dots, five rows of twenty: right by chance, right by the release, wrong all the same."""
    drawn = []
    for name, low, high in (("chance", 0, chance), ("more", chance, most), ("wrong", most, 100)):
        path = "".join(f"M{10 * (dot // 5) + 5} {10 * (dot % 5) + 5}h0" for dot in range(low, high))
        drawn.append(f'<path class="{name}" d="{path}"/>' if path else "")
    return Markup(f'<svg class="dots" aria-hidden="true" viewBox="0 0 200 50">{"".join(drawn)}</svg>')


def budget_bar(parts: Sequence[tuple[str, float]]) -> Markup:
    """Draw shares of a whole side by side; each has a class that colours it."""
    ends = [0.0, *accumulate(size for _, size in parts)]
    places = [place(end, (0, ends[-1])) for end in ends]
    drawn = [
        f'<rect class="{name}" x="{start}" y="0" width="{end - start}" height="16"/>'
        for (name, _), (start, end) in zip(parts, pairwise(places), strict=True)
    ]
    return strip("budget", "".join(drawn))


def noise_curve(event: DiscreteLaplace | DiscreteGaussian, half_width: int) -> Drawing:
    """Draw the shape of the noise, the part inside plus or minus `half_width` filled."""
    reach = max(3, round(1.9 * half_width))
    points = np.linspace(-reach, reach, 65)
    heights = [_density(event, float(point)) for point in points]
    inside = [(x, y) for x, y in zip(points, heights, strict=True) if abs(x) <= half_width]
    curve = line(zip(points, heights, strict=True), (-reach, reach))
    area = line(inside, (-reach, reach)) + f"V1000H{place(inside[0][0], (-reach, reach))}Z"
    label = message(
        "Shape of the noise: 95 % of it lies between minus {low} and plus {high}.", low=half_width, high=half_width
    )
    shape = plot(f'<path class="area" d="{area}"/><path class="curve" d="{curve}"/>', (2, 4, 96, 74))
    ends = [(-half_width, f"−{half_width:,}"), (half_width, f"+{half_width:,}")] if half_width else []
    marks = [(0, "0"), *ends]
    texts = "".join(text(2 + 0.096 * place(x, (-reach, reach)), 95, mark, "middle") for x, mark in marks)
    return figure("noise", label, shape + texts)


def heat_map(values: Numbers, label: str) -> Drawing:
    """Draw a two-way table as coloured cells, darker for larger; one path for each level."""
    rows, columns = values.shape
    levels = heat_levels(values)
    paths = []
    for level in range(1, HEAT_LEVELS + 1):
        cells = "".join(f"M{x} {y}h1v1h-1z" for y, x in zip(*np.nonzero(levels == level), strict=True))
        paths.append(f'<path class="h{level}" d="{cells}"/>' if cells else "")
    view = f'viewBox="0 0 {columns} {rows}" preserveAspectRatio="none"'
    frame = f'<rect class="frame" x="0" y="0" width="{columns}" height="{rows}"/>'
    template = f'<svg class="heat" role="img" aria-label="{{0}}" {view}>{frame}{"".join(paths)}</svg>'
    return Drawing(template, (label,))


def heat_levels(values: Numbers) -> NDArray[np.int64]:
    """Sort counts into levels 0 (nothing) to `HEAT_LEVELS` (largest), by their square root."""
    largest = float(values.max(initial=0))
    if largest <= 0:
        return np.zeros(values.shape, dtype=np.int64)
    root = np.sqrt(np.maximum(values, 0) / largest)
    return np.ceil(HEAT_LEVELS * root - 1e-9).astype(np.int64)


def rank_plot(values: Numbers, half_width: int) -> Drawing | None:
    """Draw the positive released values from the largest to the smallest, both axes logarithmic.

    The band at the bottom is where a value is smaller than the reach of its noise.
    """
    positive = np.sort(values[values > 0].reshape(-1))[::-1].astype(np.float64)
    if positive.size == 0:
        return None
    places = np.unique(np.geomspace(1, positive.size, _RANK_POINTS).round().astype(np.int64))
    across = (0.0, max(1.0, log10(positive.size)))
    top = max(1.0, float(np.ceil(log10(positive[0]) + 0.05)))
    up = (min(0.0, float(np.floor(log10(positive[-1])))), top)
    curve = line(((log10(place), log10(positive[place - 1])) for place in places), across, up)
    band = 1000 - place(log10(max(half_width, 1)), up)
    band_and_grid = f'<rect class="band" x="0" y="{band}" width="1000" height="{1000 - band}"/>' + _grid(across, up)
    texts = _ticks(across, up) + text(13.5, 5 + 0.082 * min(band + 70, 980), "{3}", "start")
    label = message(
        "Released counts by rank: {cells} positive cells, the largest {largest}; {larger} are larger than the 95 % "
        "reach of their noise, {width}.",
        cells=f"{positive.size:,}",
        largest=f"{positive[0]:,.0f}",
        larger=f"{int((positive > half_width).sum()):,}",
        width=f"{half_width:,}",
    )
    below = message("below ±{width}", width=f"{half_width:,}")
    content = plot(band_and_grid + f'<path class="curve" d="{curve}"/>', (12, 5, 86, 82)) + texts
    return figure("rank", label, content, message("rank"), message("count"), below)


def _grid(across: tuple[float, float], up: tuple[float, float]) -> str:
    lines = [f"M{place(x, across)} 0V1000" for x in decades(across)]
    lines += [f"M0 {1000 - place(y, up)}H1000" for y in decades(up)]
    return f'<path class="grid" d="{"".join(lines)}"/>'


def _ticks(across: tuple[float, float], up: tuple[float, float]) -> str:
    below = [text(12 + 0.086 * place(x, across), 94, short(10**x), "middle") for x in decades(across)]
    beside = [text(11, 5 + 0.082 * (1000 - place(y, up)) + 1.5, short(10**y), "end") for y in decades(up)]
    names = text(98, 99.5, "{1}", "end", "axis") + text(12, 3.5, "{2}", "start", "axis")
    return "".join(below + beside) + names


def _density(event: DiscreteLaplace | DiscreteGaussian, x: float) -> float:
    """Height of the noise's probability at x, against the one at zero."""
    if isinstance(event, DiscreteLaplace):
        return exp(-abs(x) * float(event.inverse_scale))
    return exp(-x * x / (2 * float(event.sigma_squared)))


# --- Relative error against the size of a cell, from the declared noise, over a histogram of the released sizes.


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

    drawing: Drawing
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
    under = place(log10(half_width), across)
    content = (
        f'<rect class="band" x="0" y="0" width="{under}" height="1000"/>{_bars(positive, across)}{_grid(across, up)}'
        f'<path class="drop" d="{"".join(_drop(mark, across, up) for mark in marks)}"/>'
        f'<path class="curve" d="{line(ends, across, up)}"/>'
    )
    texts = _log_ticks(across, up) + "".join(_dot(mark, place, across, up) for place, mark in enumerate(marks, 3))
    sizes = [message("±{percent} % at {size}", percent=mark.percent, size=f"{mark.size:,g}") for mark in marks]
    axes = message("size of the cell"), message("95 % of the noise, relative")
    label, drawn = _label(half_width, marks), plot(content, _BOX) + texts
    return ErrorPlot(figure("errors", label, drawn, *axes, *sizes), marks)


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
        left, right = place(float(low), across), place(float(high), across)
        drawn.append(f"M{left + 1} 1000V{1000 - height}H{right - 1}V1000Z" if height else "")
    return f'<path class="bars" d="{"".join(drawn)}"/>'


def _drop(mark: Mark, across: tuple[float, float], up: tuple[float, float]) -> str:
    x, y = place(log10(mark.size), across), 1000 - place(log10(mark.percent), up)
    return f"M0 {y}H{x}V1000"


def _dot(mark: Mark, slot: int, across: tuple[float, float], up: tuple[float, float]) -> str:
    """Mark a point of the line, with its size beside it, in a slot of the drawing's words."""
    x = _BOX[0] + _BOX[2] * place(log10(mark.size), across) / 1000
    y = _BOX[1] + _BOX[3] * (1 - place(log10(mark.percent), up) / 1000)
    dot, words = f'<circle cx="{x:.4g}%" cy="{y:.4g}%" r="4"/>', f"{{{slot}}}"
    if x > _LAST_WITH_ROOM:
        return dot + text(x - 1.5, y + 5.5, words, "end", "mark")
    return dot + text(x + 1.5, y - 1.5, words, "start", "mark")


def _log_ticks(across: tuple[float, float], up: tuple[float, float]) -> str:
    left, top, width, height = _BOX
    below = [text(left + width * place(x, across) / 1000, 92, short(10**x), "middle") for x in decades(across)]
    beside = [
        text(left - 1, top + height * (1 - place(y, up) / 1000) + 1.5, f"{10**y:g} %", "end") for y in decades(up)
    ]
    names = text(98, 98.5, "{1}", "end", "axis") + text(left, 3.5, "{2}", "start", "axis")
    return "".join(below + beside) + names
