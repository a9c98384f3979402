"""Lines, areas and texts of the page's charts.

Lines and areas live in stretched coordinates (0 to 1000) and keep their stroke width; text stays text, placed in
percent. A chart that stands beside its numbers is hidden from screen readers; one that stands alone is described.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup, escape


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
