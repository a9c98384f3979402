"""A table of two ordered axes as a picture: one pixel a cell, or a square of cells summed, in logarithmic colours.

The picture is a PNG with a palette, written here byte for byte: the same table gives the same page. The colours run
from light to dark without setting red against green (after ColorBrewer's YlGnBu), and are the same in dark mode.
Source: PNG (ISO/IEC 15948:2004), colour type 3, filter 0.
"""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log10
from typing import Final

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from contracts.message import message
from privacy.arrays import Numbers
from tasks.records.charts import drawing as svg

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
    return Map(picture, sums.shape[1], sums.shape[0], up, right, block, label, legend, _ticks(largest))


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


def _ticks(largest: float) -> Markup:
    """Write the powers of ten, and the largest value, along the legend."""
    span = (0.0, log10(largest))
    last = f"{largest:,.0f}"
    powers = [x for x in svg.decades(span) if x < (0.95 - _LETTER * len(last)) * span[1]]
    texts = [svg.text(svg.place(x, span) / 10, 80, svg.short(10**x), "middle" if x else "start") for x in powers]
    texts.append(svg.text(100, 80, last, "end"))
    return Markup(f'<svg class="ticks" aria-hidden="true">{"".join(texts)}</svg>')


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)
