"""The page's pictures: maps pixel by pixel, and where the error of a cell passes its marks."""

import re
import struct
import zlib
from base64 import b64decode

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tasks.records.charts.charts import LEVELS, MapAxis, block_sums, draw_map, error_plot, palette, png, shades
from tasks.records.page.dense_view import room

UP, RIGHT = MapAxis("north", "0", "2"), MapAxis("east", "0", "3")
TABLE = np.array([[0, 1, 10, 0], [0, 0, 100, 0], [5, 0, -3, 1000]])


def pixels(picture: bytes) -> tuple[NDArray[np.uint8], bytes]:
    """Read a PNG by its specification: palette indices and palette. Every checksum must hold."""
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, place = {}, 8
    while place < len(picture):
        (length,) = struct.unpack(">I", picture[place : place + 4])
        kind, content = picture[place + 4 : place + 8], picture[place + 8 : place + 8 + length]
        (checksum,) = struct.unpack(">I", picture[place + 8 + length : place + 12 + length])
        assert checksum == zlib.crc32(kind + content)
        chunks[kind] = content
        place += 12 + length
    assert list(chunks) == [b"IHDR", b"PLTE", b"IDAT", b"IEND"]
    width, height, *form = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert form == [8, 3, 0, 0, 0]
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, width + 1)
    assert not lines[:, 0].any()
    return lines[:, 1:], chunks[b"PLTE"]


def picture(address: str) -> tuple[NDArray[np.uint8], bytes]:
    assert address.startswith("data:image/png;base64,")
    return pixels(b64decode(address.partition(",")[2], validate=True))


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 100))
def test_a_png_holds_its_pixels(height: int, width: int, seed: int):
    shaded = np.random.default_rng(seed).integers(0, LEVELS + 1, (height, width)).astype(np.uint8)
    found, colours = pixels(png(shaded, palette()))
    assert np.array_equal(found, shaded)
    assert len(colours) == 3 * (LEVELS + 1)


def test_a_map_shows_the_last_value_on_top_and_nothing_below_zero():
    """The first axis rises, as on a map; zeros and negative counts show the ground; larger counts are darker."""
    made = draw_map(TABLE, UP, RIGHT, side=8)
    found, _ = picture(made.source)
    assert (made.width, made.height, made.block) == (4, 3, 1)
    five, ten = shades(np.array([5, 10]), 1000.0).tolist()
    assert 1 < five < ten < LEVELS
    assert found.tolist() == [[five, 0, 0, LEVELS], [0, 0, shades(np.array([100]), 1000.0)[0], 0], [0, 1, ten, 0]]
    assert "5 of 12 cells are above zero, the largest 1,000" in made.label
    assert picture(made.scale)[0].tolist() == [list(range(1, LEVELS + 1))]


@pytest.mark.parametrize(
    ("largest", "powers"), [(1_319_092, ["1", "10", "100", "1k", "10k"]), (1000, ["1", "10", "100"])]
)
def test_the_legend_writes_no_power_under_its_last_number(largest: int, powers: list[str]):
    made = draw_map(np.array([[0, largest]]), UP, RIGHT, side=4)
    assert re.findall(r">([^<>]+)</text>", made.ticks) == [*powers, f"{largest:,}"]


def test_the_same_table_gives_the_same_map():
    assert draw_map(TABLE, UP, RIGHT, side=8) == draw_map(TABLE.copy(), UP, RIGHT, side=8)


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 12))
def test_blocks_hold_every_cell_once(rows: int, columns: int, side: int):
    """Sums of squares, those at the ends cut off, computed cell by cell; no more pixels than there is room for."""
    values = np.arange(rows * columns).reshape(rows, columns)
    made = draw_map(values, UP, RIGHT, side=side)
    assert max(made.width, made.height) <= side
    sums = np.zeros((made.height, made.width), np.int64)
    for row, column in np.ndindex(rows, columns):
        sums[row // made.block, column // made.block] += values[row, column]
    assert np.array_equal(block_sums(values, made.block), sums)


@given(st.lists(st.floats(-10, 1e9), min_size=1, max_size=50))
def test_shades_follow_the_counts(values: list[float]):
    """Larger counts are never lighter; what is above zero is never blank, what is not always is."""
    counts = np.sort(np.array(values))
    found = shades(counts, max(10.0, float(counts.max())))
    assert (np.diff(found.astype(int)) >= 0).all()
    assert ((found > 0) == (counts > 0)).all()
    assert found.max() <= LEVELS


def test_the_colours_darken_evenly():
    """Whoever sees no hues still sees the order: luminance falls from each shade to the next."""
    linear = [[(part / 255) ** 2.2 for part in colour] for colour in palette()]
    luminance = np.array(linear) @ [0.2126, 0.7152, 0.0722]
    assert (np.diff(luminance) < 0).all()


def test_many_maps_share_the_page():
    """All of them together have no more than 256 × 256 pixels."""
    assert room(1).side == 256
    for tables in (1, 2, 7, 64, 500):
        assert tables * room(tables).side ** 2 <= 256 * 256


def test_the_error_plot_marks_where_the_noise_is_a_tenth_and_a_half():
    """Noise that reaches 9 is a half of 18 and a tenth of 90."""
    plot = error_plot(np.array([0, 5, 18, 20, 90, 2000, -3]), 9)
    assert plot is not None
    assert [(mark.percent, mark.size, mark.cells) for mark in plot.marks] == [(50, 18, 4), (10, 90, 2)]
    drawn = str(plot.drawing)
    assert "±50 % at 18" in drawn
    assert "10 % at 90 (2 cells are as large)" in drawn


def test_the_error_line_falls_by_a_decade_a_decade():
    """From 1000 % at a tenth of the reach: on these axes, from (1, 1000 %) to (10,000, 0.1 %), a diagonal."""
    plot = error_plot(np.array([10_000]), 10)
    assert plot is not None
    assert '<path class="curve" d="M0 0L1000 1000"/>' in str(plot.drawing)


def test_a_label_without_room_to_its_right_stands_to_the_left():
    """The noise is a tenth at 630, near the right edge, where 1,000 is the largest size that is drawn."""
    plot = error_plot(np.array([250]), 63)
    assert plot is not None
    found = dict(re.findall(r'text-anchor="(\w+)">±(\d+) %', str(plot.drawing)))
    assert found == {"start": "50", "end": "10"}


@given(st.lists(st.floats(-5, 1e7), min_size=1, max_size=30), st.integers(0, 10**6))
def test_the_error_plot_stays_inside(values: list[float], half_width: int):
    """Lines and bars stay within the plot, marks and texts within the figure; no noise or no count, no plot."""
    counts = np.array(values)
    plot = error_plot(counts, half_width)
    assert (plot is None) == (half_width < 1 or not (counts > 0).any())
    if plot is not None:
        drawn = str(plot.drawing)
        paths = re.findall(r' d="([^"]*)"', drawn)
        assert all(-1 <= float(number) <= 1001 for path in paths for number in re.findall(r"-?[\d.]+", path))
        percents = re.findall(r'(?:c?[xy])="(-?[\d.e+]+)%"', drawn)
        assert all(0 <= float(number) <= 100 for number in percents)


@pytest.mark.parametrize("counts", [np.zeros((2, 2)), np.full((2, 2), 0.25), np.array([[3]])])
def test_small_counts_have_maps_too(counts: NDArray[np.float64]):
    found, _ = picture(draw_map(counts, UP, RIGHT, side=4).source)
    assert (found > 0).all() == (counts > 0).all()
