"""Plots as SVG files: bars, lines with bands, heat maps, sheets of pictures. They need no library to be drawn."""

from __future__ import annotations

import zlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from math import ceil, floor, log10
from pathlib import Path
from struct import pack
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

COLOURS: Final = ("#1b6ca8", "#d1495b", "#3a7d44", "#edae49", "#7b4b94", "#5c6b73", "#00798c")
WIDTH: Final = 720
HEIGHT: Final = 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 20, 36, 56
_TICKS: Final = 5
_FONT: Final = 'font-family="sans-serif" font-size="12"'


@dataclass(frozen=True)
class Line:
    """One line of a plot.

    Args:
        name: what the legend says.
        points: x and y.
        band: lower and upper y at every x, or nothing.
    """

    name: str
    points: Sequence[tuple[float, float]]
    band: Sequence[tuple[float, float]] = field(default=())


def bars(path: Path, title: str, unit: str, groups: Mapping[str, Mapping[str, tuple[float, float]]]) -> None:
    """Draw bars side by side with their deviations: group -> bar -> (height, deviation)."""
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    top = _nice(max(height + deviation for group in groups.values() for height, deviation in group.values()))
    parts = _frame(title, unit, 0, top)
    slot = (WIDTH - _LEFT - _RIGHT) / len(groups)
    thick = 0.8 * slot / len(names)
    for place, (group, found) in enumerate(groups.items()):
        left = _LEFT + slot * place + 0.1 * slot
        for number, name in enumerate(names):
            if name in found:
                height, deviation = found[name]
                x = left + thick * number
                y, low, high = (
                    _y(value, 0, top) for value in (height, max(height - deviation, 0), height + deviation)
                )
                size = f'width="{0.92 * thick:.1f}" height="{_y(0, 0, top) - y:.1f}"'
                colour = COLOURS[number % len(COLOURS)]
                parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" {size} fill="{colour}"/>')
                parts.append(f'<path d="M{x + 0.46 * thick:.1f} {low:.1f}V{high:.1f}" stroke="#222"/>')
        parts.append(_text(left + 0.4 * slot, HEIGHT - _BOTTOM + 18, group, "middle"))
    _save(path, [*parts, *_legend(names)])


def lines(
    path: Path, title: str, across: str, unit: str, drawn: Sequence[Line], *, marks: Sequence[float] = ()
) -> None:
    """Draw lines over a common axis, with bands; `marks` are dotted verticals."""
    ends = [x for line in drawn for x, _ in line.points]
    highest = max(y for line in drawn for _, y in [*line.points, *((0, high) for _, high in line.band)])
    first, last, top = min(ends), max(ends), _nice(highest)

    def x_of(x: float) -> float:
        return _LEFT + (x - first) / max(last - first, 1e-12) * (WIDTH - _LEFT - _RIGHT)

    parts = _frame(title, unit, 0, top)
    for mark in marks:
        parts.append(f'<path d="M{x_of(mark):.1f} {_TOP}V{HEIGHT - _BOTTOM}" stroke="#888" stroke-dasharray="2 3"/>')
    for number, line in enumerate(drawn):
        colour = COLOURS[number % len(COLOURS)]
        xs = [x_of(x) for x, _ in line.points]
        if line.band:
            up = [f"{x:.1f} {_y(high, 0, top):.1f}" for x, (_, high) in zip(xs, line.band, strict=True)]
            down = [f"{x:.1f} {_y(low, 0, top):.1f}" for x, (low, _) in zip(xs, line.band, strict=True)]
            parts.append(f'<path d="M{"L".join([*up, *down[::-1]])}Z" fill="{colour}" opacity="0.2"/>')
        path_of = "L".join(f"{x:.1f} {_y(y, 0, top):.1f}" for x, (_, y) in zip(xs, line.points, strict=True))
        parts.append(f'<path d="M{path_of}" fill="none" stroke="{colour}" stroke-width="2"/>')
    for share in range(_TICKS + 1):
        x = first + (last - first) * share / _TICKS
        parts.append(_text(x_of(x), HEIGHT - _BOTTOM + 18, f"{x:.4g}", "middle"))
    parts.append(_text(WIDTH / 2, HEIGHT - _BOTTOM + 36, across, "middle"))
    _save(path, [*parts, *_legend([line.name for line in drawn])])


def heat(path: Path, title: str, names: Sequence[str], maps: Mapping[str, Sequence[Sequence[float | None]]]) -> None:
    """Draw square maps side by side, all on one scale; a cell without a number stays empty."""
    known = [value for grid in maps.values() for row in grid for value in row if value is not None]
    top, side, gap = max([*known, 1e-12]), 26, 150
    width = gap + len(maps) * (side * len(names) + 24)
    parts = [_text(width / 2, 20, title, "middle", bold=True)]
    for place, (label, grid) in enumerate(maps.items()):
        left = gap + place * (side * len(names) + 24)
        parts.append(_text(left + side * len(names) / 2, 42, label, "middle"))
        for row, values in enumerate(grid):
            if place == 0:
                parts.append(_text(gap - 6, 52 + side * row + 17, names[row], "end"))
            for column, value in enumerate(values):
                shade = "#fff" if value is None else f"hsl(205 70% {97 - 62 * value / top:.0f}%)"
                parts.append(
                    f'<rect x="{left + side * column}" y="{52 + side * row}" width="{side}" height="{side}" '
                    f'fill="{shade}" stroke="#fff"><title>{_told(names[row], names[column], value)}</title></rect>'
                )
    bottom = 52 + side * len(names) + 22
    parts.append(_text(gap, bottom, f"white 0, darkest {top:.4g}", "start"))
    _save(path, parts, width=width, height=bottom + 12)


def sheets(path: Path, title: str, sheets_by_name: Mapping[str, NDArray[np.integer[Any]]], *, across: int) -> None:
    """Draw sheets of grey pictures side by side: name -> pictures, shape (count, height, width), 0 to 255."""
    side, gap = 200, 16
    width = gap + len(sheets_by_name) * (side + gap)
    parts = [_text(width / 2, 20, title, "middle", bold=True)]
    tallest = 0.0
    for place, (name, pictures) in enumerate(sheets_by_name.items()):
        count, high, wide = pictures.shape
        rows = count // across
        grid = pictures[: rows * across].reshape(rows, across, high, wide).swapaxes(1, 2)
        left, tall = gap + place * (side + gap), side * rows * high / (across * wide)
        tallest = max(tallest, tall)
        data = b64encode(_png(255 - grid.reshape(rows * high, across * wide))).decode()
        size = f'x="{left}" y="52" width="{side}" height="{tall:.0f}"'
        parts.append(_text(left + side / 2, 42, name, "middle"))
        parts.append(f'<image {size} href="data:image/png;base64,{data}" style="image-rendering:pixelated"/>')
    _save(path, parts, width=width, height=52 + tallest + gap)


def _png(grey: NDArray[np.integer[Any]]) -> bytes:
    """Write a grey picture of 8 bits as PNG."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return pack(">I", len(data)) + kind + data + pack(">I", zlib.crc32(kind + data))

    high, wide = grey.shape
    lines_of = np.concatenate([np.zeros((high, 1), np.uint8), grey.astype(np.uint8)], axis=1).tobytes()
    head = chunk(b"IHDR", pack(">IIBBBBB", wide, high, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(lines_of, 9)) + chunk(b"IEND", b"")


def _told(row: str, column: str, value: float | None) -> str:
    return escape(f"{row} × {column}: {'–' if value is None else f'{value:.4g}'}")


def _frame(title: str, unit: str, low: float, high: float) -> list[str]:
    """Draw the title, the axis and its lines."""
    parts = [_text(WIDTH / 2, 18, title, "middle", bold=True), _text(_LEFT - 8, _TOP - 8, unit, "start")]
    for share in range(_TICKS + 1):
        value = low + (high - low) * share / _TICKS
        y = _y(value, low, high)
        parts.append(f'<path d="M{_LEFT} {y:.1f}H{WIDTH - _RIGHT}" stroke="#ddd"/>')
        parts.append(_text(_LEFT - 6, y + 4, f"{value:.3g}", "end"))
    return parts


def _legend(names: Sequence[str]) -> list[str]:
    """Draw the names under the plot, each with its colour."""
    parts, x = [], float(_LEFT)
    for number, name in enumerate(names):
        parts.append(
            f'<rect x="{x:.0f}" y="{HEIGHT - 14}" width="10" height="10" fill="{COLOURS[number % len(COLOURS)]}"/>'
        )
        parts.append(_text(x + 14, HEIGHT - 5, name, "start"))
        x += 26 + 7 * len(name)
    return parts


def _y(value: float, low: float, high: float) -> float:
    return HEIGHT - _BOTTOM - (value - low) / max(high - low, 1e-12) * (HEIGHT - _TOP - _BOTTOM)


def _nice(value: float) -> float:
    """Round up to two digits."""
    if value <= 0:
        return 1.0
    step = 10.0 ** (floor(log10(value)) - 1)
    return ceil(value / step) * step


def _text(x: float, y: float, text: str, anchor: str, *, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" {_FONT} text-anchor="{anchor}"{weight}>{escape(text)}</text>'


def _save(path: Path, parts: Sequence[str], *, width: float = WIDTH, height: float = HEIGHT) -> None:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    body = "\n".join([head, f'<rect width="{width}" height="{height}" fill="#fff"/>', *parts, "</svg>"])
    path.write_text(body + "\n", encoding="utf-8")
