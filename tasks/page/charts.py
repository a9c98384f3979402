"""Inline SVG: bars, intervals, noise curves, heat maps, rank plots.

Every chart scales with the page without script: lines and areas live in stretched coordinates (0 to 1000) and keep
their stroke width; text stays text, placed in percent. A chart that stands beside its numbers is hidden from screen
readers; one that stands alone carries a description.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from math import exp, log10

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace

HEAT_LEVELS = 8
_RANK_POINTS = 160
Counts = NDArray[np.int64] | NDArray[np.float64]


def count_bar(count: float, noisy: tuple[float, float, float], scale: tuple[float, float]) -> Markup:
    """Draw a refined count as a bar, with the raw noisy count and its interval as whiskers.

    Args:
        count: the refined count.
        noisy: lower end, noisy count, upper end.
        scale: numbers at the left and the right end.
    """
    zero, end = _across(0, scale), _across(count, scale)
    low, middle, high = (_across(value, scale) for value in noisy)
    bar = f'<rect x="{min(zero, end)}" y="2" width="{abs(end - zero)}" height="12"/>'
    whisker = f'<path d="M{low} 8H{high}M{low} 5v6M{high} 5v6M{middle} 3v10"/>'
    return _strip("cb", bar + whisker)


def share_bar(value: float, largest: float) -> Markup:
    """Draw a plain bar from the left end."""
    return _strip("cb", f'<rect x="0" y="3" width="{_across(value, (0, largest))}" height="10"/>')


def belief_bar(prior: float, low: float, high: float) -> Markup:
    """Draw the range that a belief can move in, with the belief before as a mark; all between 0 and 1."""
    left, mark, right = (_across(value, (0, 1)) for value in (low, prior, high))
    track = '<path class="track" d="M0 8H1000"/>'
    band = f'<rect x="{left}" y="3" width="{max(right - left, 2)}" height="10"/><path d="M{mark} 0v16"/>'
    return _strip("cb", track + band)


def budget_bar(parts: Sequence[tuple[str, float]]) -> Markup:
    """Draw shares of a whole side by side; each has a class that colours it."""
    ends = [0.0, *accumulate(size for _, size in parts)]
    places = [_across(end, (0, ends[-1])) for end in ends]
    drawn = [
        f'<rect class="{name}" x="{start}" y="0" width="{end - start}" height="16"/>'
        for (name, _), (start, end) in zip(parts, pairwise(places), strict=True)
    ]
    return _strip("budget", "".join(drawn))


def noise_curve(event: DiscreteLaplace | DiscreteGaussian, half_width: int) -> Markup:
    """Draw the shape of the noise, the part inside plus or minus `half_width` filled."""
    reach = max(3, round(1.9 * half_width))
    points = np.linspace(-reach, reach, 65)
    heights = [_density(event, float(point)) for point in points]
    inside = [(x, y) for x, y in zip(points, heights, strict=True) if abs(x) <= half_width]
    curve = _line(zip(points, heights, strict=True), (-reach, reach))
    area = _line(inside, (-reach, reach)) + f"V1000H{_across(inside[0][0], (-reach, reach))}Z"
    label = f"Shape of the noise: 95 % of it lies between minus {half_width} and plus {half_width}."
    plot = _plot(f'<path class="area" d="{area}"/><path class="curve" d="{curve}"/>', (2, 4, 96, 74))
    ends = [(-half_width, f"−{half_width:,}"), (half_width, f"+{half_width:,}")] if half_width else []
    marks = [(0, "0"), *ends]
    texts = "".join(_text(2 + 0.096 * _across(x, (-reach, reach)), 95, text, "middle") for x, text in marks)
    return _figure("noise", label, plot + texts)


def heat_map(values: Counts, label: str) -> Markup:
    """Draw a two-way table as coloured cells, darker for larger; one path for each level."""
    rows, columns = values.shape
    levels = heat_levels(values)
    paths = []
    for level in range(1, HEAT_LEVELS + 1):
        cells = "".join(f"M{x} {y}h1v1h-1z" for y, x in zip(*np.nonzero(levels == level), strict=True))
        paths.append(f'<path class="h{level}" d="{cells}"/>' if cells else "")
    view = f'viewBox="0 0 {columns} {rows}" preserveAspectRatio="none"'
    frame = f'<rect class="frame" x="0" y="0" width="{columns}" height="{rows}"/>'
    return Markup(f'<svg class="heat" role="img" aria-label="{escape(label)}" {view}>{frame}{"".join(paths)}</svg>')


def heat_levels(values: Counts) -> NDArray[np.int64]:
    """Sort counts into levels 0 (nothing) to `HEAT_LEVELS` (largest), by their square root."""
    largest = float(values.max(initial=0))
    if largest <= 0:
        return np.zeros(values.shape, dtype=np.int64)
    root = np.sqrt(np.maximum(values, 0) / largest)
    return np.ceil(HEAT_LEVELS * root - 1e-9).astype(np.int64)


def rank_plot(values: Counts, half_width: int) -> Markup:
    """Draw the positive released values from the largest to the smallest, both axes logarithmic.

    The band at the bottom is where a value is smaller than the reach of its noise.
    """
    positive = np.sort(values[values > 0].reshape(-1))[::-1].astype(np.float64)
    if positive.size == 0:
        return Markup("")
    places = np.unique(np.geomspace(1, positive.size, _RANK_POINTS).round().astype(np.int64))
    across = (0.0, max(1.0, log10(positive.size)))
    top = max(1.0, float(np.ceil(log10(positive[0]) + 0.05)))
    up = (min(0.0, float(np.floor(log10(positive[-1])))), top)
    line = _line(((log10(place), log10(positive[place - 1])) for place in places), across, up)
    band = 1000 - _across(log10(max(half_width, 1)), up)
    plot = f'<rect class="band" x="0" y="{band}" width="1000" height="{1000 - band}"/>' + _grid(across, up)
    texts = _ticks(across, up) + _text(13.5, 5 + 0.082 * min(band + 70, 980), f"below ±{half_width:,}", "start")
    label = (
        f"Released counts by rank: {positive.size:,} positive cells, the largest {positive[0]:,.0f}; "
        f"{int((positive > half_width).sum()):,} are larger than the 95 % reach of their noise, {half_width:,}."
    )
    return _figure("rank", label, _plot(plot + f'<path class="curve" d="{line}"/>', (12, 5, 86, 82)) + texts)


def _grid(across: tuple[float, float], up: tuple[float, float]) -> str:
    lines = [f"M{_across(x, across)} 0V1000" for x in _decades(across)]
    lines += [f"M0 {1000 - _across(y, up)}H1000" for y in _decades(up)]
    return f'<path class="grid" d="{"".join(lines)}"/>'


def _ticks(across: tuple[float, float], up: tuple[float, float]) -> str:
    below = [_text(12 + 0.086 * _across(x, across), 94, _short(10**x), "middle") for x in _decades(across)]
    beside = [_text(11, 5 + 0.082 * (1000 - _across(y, up)) + 1.5, _short(10**y), "end") for y in _decades(up)]
    names = _text(98, 99.5, "rank", "end", "axis") + _text(12, 3.5, "count", "start", "axis")
    return "".join(below + beside) + names


def _decades(span: tuple[float, float]) -> list[float]:
    return [float(power) for power in range(round(np.ceil(span[0])), round(np.floor(span[1])) + 1)]


def _short(value: float) -> str:
    """Write a power of ten briefly: 1,000 is 1k."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def _density(event: DiscreteLaplace | DiscreteGaussian, x: float) -> float:
    """Height of the noise's probability at x, against the one at zero."""
    if isinstance(event, DiscreteLaplace):
        return exp(-abs(x) * float(event.inverse_scale))
    return exp(-x * x / (2 * float(event.sigma_squared)))


def _line(
    points: Iterable[tuple[float, float]], across: tuple[float, float], up: tuple[float, float] = (0.0, 1.0)
) -> str:
    drawn = [f"{_across(x, across)} {1000 - _across(y, up)}" for x, y in points]
    return "M" + "L".join(drawn)


def _across(value: float, scale: tuple[float, float]) -> int:
    """Place a value between 0 and 1000 along a scale; what lies outside sticks to its ends."""
    low, high = scale
    return round(1000 * min(1.0, max(0.0, (value - low) / (high - low)))) if high > low else 0


def _strip(name: str, content: str) -> Markup:
    return Markup(
        f'<svg class="{name}" aria-hidden="true" viewBox="0 0 1000 16" preserveAspectRatio="none">{content}</svg>'
    )


def _plot(content: str, box: tuple[int, int, int, int]) -> str:
    """Stretch content in coordinates 0 to 1000 over a part of the figure, in percent: left, top, width, height."""
    x, y, width, height = box
    place = f'x="{x}%" y="{y}%" width="{width}%" height="{height}%"'
    return f'<svg {place} viewBox="0 0 1000 1000" preserveAspectRatio="none">{content}</svg>'


def _text(x: float, y: float, text: str, anchor: str, name: str = "tick") -> str:
    return f'<text class="{name}" x="{x:.4g}%" y="{y:.4g}%" text-anchor="{anchor}">{escape(text)}</text>'


def _figure(name: str, label: str, content: str) -> Markup:
    return Markup(f'<svg class="{name}" role="img" aria-label="{escape(label)}">{content}</svg>')
