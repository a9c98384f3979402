"""Inline SVG: bars, intervals, noise curves, heat maps, rank plots. Each scales with the page, without script."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from math import exp, log10

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from contracts.message import message
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace
from privacy.arrays import Numbers
from tasks.records.charts import drawing as svg

HEAT_LEVELS = 8
_RANK_POINTS = 160


def count_bar(count: float, noisy: tuple[float, float, float], scale: tuple[float, float]) -> Markup:
    """Draw a refined count as a bar, with the raw noisy count and its interval as whiskers.

    Args:
        count: the refined count.
        noisy: lower end, noisy count, upper end.
        scale: numbers at the left and the right end.
    """
    zero, end = svg.place(0, scale), svg.place(count, scale)
    low, middle, high = (svg.place(value, scale) for value in noisy)
    bar = f'<rect x="{min(zero, end)}" y="2" width="{abs(end - zero)}" height="12"/>'
    whisker = f'<path d="M{low} 8H{high}M{low} 5v6M{high} 5v6M{middle} 3v10"/>'
    return svg.strip("cb", bar + whisker)


def share_bar(value: float, largest: float) -> Markup:
    """Draw a plain bar from the left end."""
    return svg.strip("cb", f'<rect x="0" y="3" width="{svg.place(value, (0, largest))}" height="10"/>')


def belief_bar(prior: float, low: float, high: float) -> Markup:
    """Draw the range that a belief can move in, with the belief before as a mark; all between 0 and 1."""
    left, mark, right = (svg.place(value, (0, 1)) for value in (low, prior, high))
    track = '<path class="track" d="M0 8H1000"/>'
    band = f'<rect x="{left}" y="3" width="{max(right - left, 2)}" height="10"/><path d="M{mark} 0v16"/>'
    return svg.strip("cb", track + band)


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
    places = [svg.place(end, (0, ends[-1])) for end in ends]
    drawn = [
        f'<rect class="{name}" x="{start}" y="0" width="{end - start}" height="16"/>'
        for (name, _), (start, end) in zip(parts, pairwise(places), strict=True)
    ]
    return svg.strip("budget", "".join(drawn))


def noise_curve(event: DiscreteLaplace | DiscreteGaussian, half_width: int) -> svg.Drawing:
    """Draw the shape of the noise, the part inside plus or minus `half_width` filled."""
    reach = max(3, round(1.9 * half_width))
    points = np.linspace(-reach, reach, 65)
    heights = [_density(event, float(point)) for point in points]
    inside = [(x, y) for x, y in zip(points, heights, strict=True) if abs(x) <= half_width]
    curve = svg.line(zip(points, heights, strict=True), (-reach, reach))
    area = svg.line(inside, (-reach, reach)) + f"V1000H{svg.place(inside[0][0], (-reach, reach))}Z"
    label = message(
        "Shape of the noise: 95 % of it lies between minus {low} and plus {high}.", low=half_width, high=half_width
    )
    shape = svg.plot(f'<path class="area" d="{area}"/><path class="curve" d="{curve}"/>', (2, 4, 96, 74))
    ends = [(-half_width, f"−{half_width:,}"), (half_width, f"+{half_width:,}")] if half_width else []
    marks = [(0, "0"), *ends]
    texts = "".join(svg.text(2 + 0.096 * svg.place(x, (-reach, reach)), 95, mark, "middle") for x, mark in marks)
    return svg.figure("noise", label, shape + texts)


def heat_map(values: Numbers, label: str) -> svg.Drawing:
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
    return svg.Drawing(template, (label,))


def heat_levels(values: Numbers) -> NDArray[np.int64]:
    """Sort counts into levels 0 (nothing) to `HEAT_LEVELS` (largest), by their square root."""
    largest = float(values.max(initial=0))
    if largest <= 0:
        return np.zeros(values.shape, dtype=np.int64)
    root = np.sqrt(np.maximum(values, 0) / largest)
    return np.ceil(HEAT_LEVELS * root - 1e-9).astype(np.int64)


def rank_plot(values: Numbers, half_width: int) -> svg.Drawing | None:
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
    curve = svg.line(((log10(place), log10(positive[place - 1])) for place in places), across, up)
    band = 1000 - svg.place(log10(max(half_width, 1)), up)
    band_and_grid = f'<rect class="band" x="0" y="{band}" width="1000" height="{1000 - band}"/>' + _grid(across, up)
    texts = _ticks(across, up) + svg.text(13.5, 5 + 0.082 * min(band + 70, 980), "{3}", "start")
    label = message(
        "Released counts by rank: {cells} positive cells, the largest {largest}; {larger} are larger than the 95 % "
        "reach of their noise, {width}.",
        cells=f"{positive.size:,}",
        largest=f"{positive[0]:,.0f}",
        larger=f"{int((positive > half_width).sum()):,}",
        width=f"{half_width:,}",
    )
    below = message("below ±{width}", width=f"{half_width:,}")
    content = svg.plot(band_and_grid + f'<path class="curve" d="{curve}"/>', (12, 5, 86, 82)) + texts
    return svg.figure("rank", label, content, message("rank"), message("count"), below)


def _grid(across: tuple[float, float], up: tuple[float, float]) -> str:
    lines = [f"M{svg.place(x, across)} 0V1000" for x in svg.decades(across)]
    lines += [f"M0 {1000 - svg.place(y, up)}H1000" for y in svg.decades(up)]
    return f'<path class="grid" d="{"".join(lines)}"/>'


def _ticks(across: tuple[float, float], up: tuple[float, float]) -> str:
    below = [svg.text(12 + 0.086 * svg.place(x, across), 94, svg.short(10**x), "middle") for x in svg.decades(across)]
    beside = [
        svg.text(11, 5 + 0.082 * (1000 - svg.place(y, up)) + 1.5, svg.short(10**y), "end") for y in svg.decades(up)
    ]
    names = svg.text(98, 99.5, "{1}", "end", "axis") + svg.text(12, 3.5, "{2}", "start", "axis")
    return "".join(below + beside) + names


def _density(event: DiscreteLaplace | DiscreteGaussian, x: float) -> float:
    """Height of the noise's probability at x, against the one at zero."""
    if isinstance(event, DiscreteLaplace):
        return exp(-abs(x) * float(event.inverse_scale))
    return exp(-x * x / (2 * float(event.sigma_squared)))
