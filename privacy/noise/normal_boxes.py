"""The area under a normal density, cut into boxes of equal area and what they leave, without any error.

Where (one letter each)
    s   the standard deviation, a rational number, s >= 2^8       f   the density e^(-y^2 / (2 s^2)) / (s sqrt(2 pi))
    W   the width of a cell, the power of two with                j   a cell: the y from j W - 1/2 to (j + 1) W - 1/2,
        s / 64 < W <= s / 32                                          -J <= j < J, with J W >= 6 s
    n   boxes of a cell, whole numbers                            a   slices of a cell's cap, whole numbers

A cell is a strip of W whole numbers, each with what rounds to it. Under the graph of f there lie in cell j

    boxes   n boxes of area 2^-17, on top of each other from 0 up to the height n 2^-17 / W <= min f
    cap     what is between the boxes and the graph; it fits into a slices of area 2^-22 on top of the boxes

and beyond all cells, on both sides, the tail. All boxes together have an area of 0.986 to 0.992. min f and max f are
bounded by directed rounding (`density`), boxes are counted down and slices up. So both are what is claimed here,
whatever floats would say.

Of the tail only its probability matters: it lies beyond 6 s, whose part of Box and Muller's square has U < 2^-25. A
slice of that square is enough, U < 2^-22, of area 2^-22 like the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.noise.binary_expansion import _directed, _exp_minus_bounds, _floor_shifted
from privacy.noise.box_muller import _pi

BOX_BITS: Final = 17
"""A box has the area 2^-17: a slot of the table of all boxes."""
SLICE_BITS: Final = 22
"""A slice of a cap has the area 2^-22."""
_CELL_BITS: Final = 5
_DEVIATIONS: Final = 6
_DIGITS: Final = 25
_HALF: Final = Fraction(1, 2)


@dataclass(frozen=True)
class Boxes:
    """Boxes and caps under one normal density.

    Args:
        standard_deviation: s.
        width_bits: log2 W.
        farthest: J W: the cells hold the whole numbers m with -J W <= m < J W.
        starts: the first whole number of each box's cell, and `empty` in slots without a box; shape (2^17,).
        empty: what stands in an empty slot, less than all starts by more than W.
        slices: the place of each slice's cell in the three arrays below; the last slice is the tail's, -1.
        cells: the first whole number of each cell.
        floors: the area of each cell's boxes, n 2^-17.
        caps: the area of each cell's slices, a 2^-22.
        graph_scale: W f(0), to the nearest float.
    """

    standard_deviation: Fraction
    width_bits: int
    farthest: int
    starts: NDArray[np.int32] | NDArray[np.int64]
    empty: int
    slices: NDArray[np.int64]
    cells: NDArray[np.int64]
    floors: NDArray[np.float64]
    caps: NDArray[np.float64]
    graph_scale: float


@lru_cache(maxsize=16)
def boxes_of(standard_deviation: Fraction) -> Boxes:
    """Cut the area under a normal density.

    Args:
        standard_deviation: s, at least 2^8.
    Returns:
        Boxes, the same object for the same s; its arrays are read-only.
    """
    width_bits = floor(standard_deviation).bit_length() - 1 - _CELL_BITS
    width = 1 << width_bits
    count = ceil(_DEVIATIONS * standard_deviation / width)
    boxes, slices = _counted(standard_deviation, width_bits, count)
    cells = np.arange(-count, count, dtype=np.int64) * width
    starts, empty = _slots(cells, boxes, width)
    found = Boxes(
        standard_deviation,
        width_bits,
        count * width,
        starts,
        empty,
        slices=np.append(np.repeat(np.arange(2 * count), slices), -1),
        cells=cells,
        floors=np.array(boxes) * 2.0**-BOX_BITS,
        caps=np.array(slices) * 2.0**-SLICE_BITS,
        graph_scale=float(_peak(standard_deviation, width_bits, _DIGITS)[0]),
    )
    for array in (found.starts, found.slices, found.cells, found.floors, found.caps):
        array.flags.writeable = False
    return found


def _counted(standard_deviation: Fraction, width_bits: int, count: int) -> tuple[list[int], list[int]]:
    """Count boxes (down) and slices (up) of each cell. The graph rises up to 0, and falls from there."""
    edges = [Fraction(j << width_bits) - _HALF for j in range(-count, count + 1)]
    # Bounds on the graph's height at each edge of a cell; it is monotone between edges, but for the cell around 0.
    heights = [density(edge, standard_deviation, width_bits, _DIGITS) for edge in edges]
    top = _peak(standard_deviation, width_bits, _DIGITS)[1]
    boxes, slices = [], []
    for j in range(2 * count):
        (low_left, up_left), (low_right, up_right) = heights[j], heights[j + 1]
        most = top if edges[j] < 0 < edges[j + 1] else max(up_left, up_right)
        # Boxes from the lower bound, rounded down: none sticks out above the graph.
        boxes.append(_floor_shifted(min(low_left, low_right), BOX_BITS))
        # Slices from the upper bound, rounded up: they cover all of the graph that the boxes leave.
        slices.append(_floor_shifted(most, SLICE_BITS) + 1 - (boxes[-1] << (SLICE_BITS - BOX_BITS)))
    return boxes, slices


def _slots(
    cells: NDArray[np.int64], boxes: list[int], width: int
) -> tuple[NDArray[np.int32] | NDArray[np.int64], int]:
    """Give each box a slot; a word of 32 bits holds a slot and a place in a cell of up to 2^15 whole numbers."""
    # 17 bits of slot and k of place fit one word of 32 bits: the common case, with half of the memory.
    small = width << BOX_BITS <= 1 << 32
    empty = -(2**30) if small else -(2**62)
    placed = np.repeat(cells, boxes)
    slots = np.full(1 << BOX_BITS, empty, np.int64)
    slots[: placed.size] = placed
    return slots.astype(np.int32) if small else slots, empty


def density(y: Fraction, standard_deviation: Fraction, width_bits: int, digits: int) -> tuple[Decimal, Decimal]:
    """Bound W f(y), the area of a cell as high as the graph at y, from below and above."""
    down, up = _directed(digits)
    least, most = _peak(standard_deviation, width_bits, digits)
    low, high = _exp_minus_bounds(y * y / (2 * standard_deviation**2), digits)
    return down.multiply(least, low), up.multiply(most, high)


@lru_cache(maxsize=64)
def _peak(standard_deviation: Fraction, width_bits: int, digits: int) -> tuple[Decimal, Decimal]:
    """Bound W f(0) = W / (s sqrt(2 pi)).

    `decimal` rounds quotients as it is told, and roots correctly (half to even), so that the next number on either
    side of those is a rigorous bound.
    """
    down, up = _directed(digits)
    precision = 4 * digits  # bits: more than so many digits have
    pi_low, pi_high = (Fraction(bound, 1 << precision) for bound in _pi(precision))
    square = (Fraction(1 << width_bits) / standard_deviation) ** 2 / 2
    least, most = square / pi_high, square / pi_low
    lower = down.next_minus(down.sqrt(down.divide(Decimal(least.numerator), Decimal(least.denominator))))
    upper = up.next_plus(up.sqrt(up.divide(Decimal(most.numerator), Decimal(most.denominator))))
    return lower, upper


def lies_below(boxes: Boxes, cell: int, integer: int, part: tuple[int, int], height: tuple[int, int]) -> bool | None:
    """Say whether a point of a cap lies below the graph, or None where so many bits do not tell.

    Args:
        boxes: of the density.
        cell: the cap's place.
        integer: m, the whole number to which y rounds.
        part: y - (m - 1/2) to so many bits: the number that they make, and how many they are.
        height: the share of the cap that is below the point, likewise.
    """
    # The area is a double in units that are powers of two, so that the fraction is exact.
    floor_area, cap_area = Fraction(float(boxes.floors[cell])), Fraction(float(boxes.caps[cell]))
    under, over = (floor_area + cap_area * Fraction(height[0] + end, 1 << height[1]) for end in (0, 1))
    left, right = (integer - _HALF + Fraction(part[0] + end, 1 << part[1]) for end in (0, 1))
    # The graph is highest at the y nearest to 0 and lowest at the farthest: certain if the upper end lies below the
    # lowest, or the lower end above the highest.
    near = Fraction(0) if left < 0 < right else min(abs(left), abs(right))
    digits = _DIGITS + (part[1] + height[1]) // 3
    scale = boxes.standard_deviation, boxes.width_bits, digits
    if over < Fraction(density(max(abs(left), abs(right)), *scale)[0]):
        return True
    return False if under >= Fraction(density(near, *scale)[1]) else None
