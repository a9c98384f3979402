"""Exact normal noise, rounded: rint(s N) for an exactly normal N, all of a vector jointly.

A point is drawn uniformly from the area under the density of s N, and its abscissa y is rounded. As y is distributed
as s N, exactly, rint(y) is distributed as rint(s N). Each number takes random bits of its own, so that a vector is
distributed as independent normals, each rounded to the nearest whole number. What is added to whole numbers x gives
rint(x + s N): a function of the Gaussian mechanism's output, and of nothing else, whatever number of coordinates and
draws is looked at together.

The area is cut into boxes of equal area, caps and a tail (`boxes_of`):
    1. BOXES  17 bits choose one of 2^17 areas of 2^-17. Nearly all are boxes. A box is as wide as a cell of 2^k whole
              numbers, and all y of it are equally likely: k more bits give the whole number. No function is computed.
    2. CAPS   Otherwise (one number in 70 to 130) uniform points are drawn from slices that cover what is left, until
              one lies below the graph.
    3. TAIL   The last slice is one of Box and Muller's square that covers the tail. A normal from it counts where it
              lies in the tail.
So no tail is cut off, and no probability is rounded: what the boxes lack, caps and tail have.

Whether a point lies below the graph is seen in float64, from 64 bits of its height and 64 that say where it lies in
the cell. Where the two sides are within 2^-40 of each other, exact arithmetic decides, on the same bits and on as
many more as it takes (`lies_below`). With u = 2^-53, and numpy's exp right to 128 u (it is right to within 2):

* y / s is below 6.1. It is wrong by three roundings (19 u), by u / s for the fraction's own, and by 2^-69 for bits
  that are not known. So y^2 / (2 s^2) is wrong by 6.1 * 21 u + 19 u < 2^-45.8, and its exponential by that and by
  2^-46, relative; what it is multiplied with, and the product, by u each.
* The other side is the area of boxes, which is exact, and a share of the cap's: wrong by 3 u, relative, and by 2^-64
  of a cap for bits that are not known. A cap is 2^12 times as high as the graph at most (in the last cell): 2^-52.

In all less than 2^-44, relative. The margin decides how often exact arithmetic is called (for about one point in
2^33), never how it ends.

Source: points under the graph are von Neumann's (1951), equal boxes with whole slots in a table Marsaglia's (1963,
2004); what is drawn of the tail is Box and Muller's (1958).
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from privacy.noise.binary_expansion import _directed, _exp_minus_bounds, _floor_shifted
from privacy.noise.limits import check_fraction, check_size
from privacy.noise.random_bytes import RandomBytes

# --- Box and Muller's two normals from as many random bits as it takes, rounded to whole numbers without any error.
# The derivation is in docs/derivations.md, "How `rounded_gaussian` draws".


WORD_BITS: Final = 64
Interval: TypeAlias = tuple[int, int]
"""Lower and upper bound, in units of 2^-precision."""

_MOST_BITS: Final = 4096
_GUARD_BITS: Final = 64
_DIGITS_PER_BIT: Final = Fraction(302, 1000)
"""Above log10(2) = 0.30103."""
_EIGHTH: Final = 3
"""Bits of an angle that tell in which eighth of the turn it lies."""
_COSINE_BELOW_SINE: Final = (1, 2, 5, 6)
_COSINE_NEGATIVE: Final = (2, 3, 4, 5)
_SINE_NEGATIVE: Final = (4, 5, 6, 7)


def rounded_pair(first: int, second: int, *, standard_deviation: Fraction, source: RandomBytes) -> tuple[int, int]:
    """Return the whole numbers nearest to X and Y, exactly.

    Args:
        first: the first 64 bits of U.
        second: the first 64 bits of V.
        standard_deviation: s, > 0.
        source: uniform bytes; sixteen are taken as often as the bits so far do not decide.
    Returns:
        The nearest whole number to s R cos(2 pi V), and to s R sin(2 pi V).
    Raises:
        OverflowError: 4,096 bits did not decide: the source is broken.
    """
    for bits in range(WORD_BITS, _MOST_BITS + 1, WORD_BITS):
        pair = pair_from_bits(first, second, bits, standard_deviation=standard_deviation)
        if pair is not None:
            return pair
        more = source.take(2 * WORD_BITS // 8).tobytes()
        half = len(more) // 2
        first = first << WORD_BITS | int.from_bytes(more[:half], "little")
        second = second << WORD_BITS | int.from_bytes(more[half:], "little")
    raise OverflowError(f"{_MOST_BITS} random bits did not decide a normal number; nothing was returned")


def pair_from_bits(first: int, second: int, bits: int, *, standard_deviation: Fraction) -> tuple[int, int] | None:
    """Return both whole numbers, or None where so many bits do not decide them."""
    # U may be 0 as far as these bits tell: its logarithm has no bound yet.
    if first == 0:
        return None
    # More digits than random bits: what is undecided then hangs on the bits, hardly ever on the arithmetic.
    precision = bits + _GUARD_BITS
    radius = _radius(first, bits, precision)
    eighth = second >> (bits - _EIGHTH)
    cosine, sine = _cosine_and_sine(second, eighth, bits, precision)
    if eighth in _COSINE_BELOW_SINE:
        # The nearest axis is the vertical one: distance from it swaps the roles of the two functions.
        cosine, sine = sine, cosine
    along, across = (_rounded(radius, each, standard_deviation, precision) for each in (cosine, sine))
    if along is None or across is None:
        return None
    return -along if eighth in _COSINE_NEGATIVE else along, -across if eighth in _SINE_NEGATIVE else across


def _radius(first: int, bits: int, precision: int) -> Interval:
    """Bound sqrt(-2 log U), which falls as U grows.

    `decimal` rounds quotients in the direction that it is told, and logarithms and roots correctly (half to even),
    so that the next number on either side of those is a rigorous bound.
    """
    down, up = _directed(int(precision * _DIGITS_PER_BIT) + 10)
    whole = Decimal(1 << bits)
    # U lies in [a, a + 1) / 2^n: the upper end gives the least radius, the lower end the largest.
    least = -up.next_plus(up.ln(up.divide(Decimal(first + 1), whole)))
    most = -down.next_minus(down.ln(down.divide(Decimal(first), whole)))
    inner = down.next_minus(down.sqrt(down.multiply(2, max(least, Decimal(0)))))
    outer = up.next_plus(up.sqrt(up.multiply(2, most)))
    return _floor_shifted(max(inner, Decimal(0)), precision), _floor_shifted(outer, precision) + 1


def _cosine_and_sine(second: int, eighth: int, bits: int, precision: int) -> tuple[Interval, Interval]:
    """Bound cosine and sine of the angle's distance from the nearest axis, from 0 to pi / 4.

    The distance is counted from the axis before the angle in even eighths, from the axis after it in odd ones. There
    the cosine falls and the sine grows, so that the ends of the angle's interval give the ends of theirs.
    """
    turn, rest = 1 << (bits - _EIGHTH), second & ((1 << (bits - _EIGHTH)) - 1)
    low, high = (turn - rest - 1, turn - rest) if eighth % 2 else (rest, rest + 1)
    pi_low, pi_high = _pi(precision)
    nearest = _series(2 * pi_low * low >> bits, precision)
    farthest = _series((2 * pi_high * high >> bits) + 1, precision)
    # The bound of `_series` on its own error, in its units.
    slack = 4 * precision
    cosine = max(farthest[0] - slack, 0), nearest[0] + slack
    sine = max(nearest[1] - slack, 0), farthest[1] + slack
    return cosine, sine


def _series(angle: int, precision: int) -> tuple[int, int]:
    """Return cosine and sine of an angle from 0 to 1 by Taylor's series, each wrong by less than 4 * precision units.

    A term is the one before it, whose error counts half or less, times angle^2 / (j (j + 1)) <= 1/2. Of its three
    roundings two count half or less. So each term is wrong by less than 3 units, and what follows the first that is 0
    adds less than 6. There are fewer terms than bits.
    """
    square, found = angle * angle >> precision, [0, 0]
    for place, (term, step) in enumerate(((1 << precision, 1), (angle, 2))):
        sign = 1
        while term:
            found[place] += sign * term
            term = (term * square >> precision) // (step * (step + 1))
            sign, step = -sign, step + 2
    return found[0], found[1]


@lru_cache(maxsize=8)
def _pi(precision: int) -> Interval:
    """Bound pi by Machin's formula, 16 atan(1/5) - 4 atan(1/239), with forty bits to spare for its roundings."""
    spare = 40
    found = 16 * _arctangent(5, precision + spare) - 4 * _arctangent(239, precision + spare)
    slack = 1 << (spare - 10)
    return (found - slack) >> spare, ((found + slack) >> spare) + 1


def _arctangent(inverse: int, precision: int) -> int:
    """Return atan(1 / inverse); each of the fewer than `precision` terms is wrong by less than 3 units."""
    power, found, place = (1 << precision) // inverse, 0, 0
    while power:
        found += (-1) ** place * (power // (2 * place + 1))
        power //= inverse * inverse
        place += 1
    return found


def _rounded(radius: Interval, share: Interval, standard_deviation: Fraction, precision: int) -> int | None:
    """Return the whole number nearest to s times radius times share, or None where the bounds have two."""
    ends = (radius[0] * share[0] >> precision, (radius[1] * share[1] >> precision) + 1)
    whole = standard_deviation.denominator << precision
    low, high = ((2 * standard_deviation.numerator * end + whole) // (2 * whole) for end in ends)
    return low if low == high else None


# --- The area under a normal density, cut into boxes of equal area and what they leave, without any error.
# s, W and the boxes, slices and tail are those of docs/derivations.md, "How `rounded_gaussian` draws".


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


SMALLEST_DEVIATION: Final = Fraction(2**8)
LARGEST_DEVIATION: Final = Fraction(2**32)
_LIMIT_REASON: Final = "below it boxes would fill too little of the area, above it their bits do not fit"
BLOCK: Final = 1 << 17
"""Numbers of which those that no box gave are drawn together."""
_CHUNK: Final = 1 << 15
"""Numbers drawn at once from boxes; their arrays stay in a core's cache."""
_MARGIN: Final = 2.0**-40
_MOST_WORDS: Final = 64
"""Words of y and of a height after which a point that is not decided is refused: a probability below 2^-4000."""
_MOST_ROUNDS: Final = 64
"""Rounds after which too few points are refused: a probability below 2^-180, as a round gives too few once in eight
times at most."""


def rounded_gaussian(size: int, *, standard_deviation: Fraction, source: RandomBytes) -> NDArray[np.int64]:
    """Draw independent normals, exactly, and round each to the nearest whole number.

    Formula:  P(m) = Phi((m + 1/2) / s) - Phi((m - 1/2) / s)

    Args:
        size: how many, >= 0.
        standard_deviation: s, from 2^8 to 2^32 [steps].
        source: uniform bytes; four a number are taken (eight where s >= 2^21), and more for what boxes do not give.
    Returns:
        int64, shape (size,).
    Raises:
        NoiseRefused: an argument is out of its limits; nothing was drawn.
        OverflowError: the source is broken: it does not decide a draw, or gives no points below the graph. No draw
            reaches 76 s: that would take more than 4,096 bits of 0.
    Privacy: added to whole numbers, post-processing of the Gaussian mechanism on them. The time that it takes depends
        on the noise alone.
    Source: the module's docstring.
    """
    check_size("size", size)
    limits = SMALLEST_DEVIATION, LARGEST_DEVIATION
    check_fraction("standard_deviation", standard_deviation, *limits, _LIMIT_REASON)
    boxes, drawn = boxes_of(standard_deviation), np.empty(size, np.int64)
    for start in range(0, size, BLOCK):
        block = drawn[start : start + BLOCK]
        left = [_from_boxes(block[at : at + _CHUNK], boxes, source) + at for at in range(0, block.size, _CHUNK)]
        places = np.concatenate(left)
        block[places] = _from_caps(places.size, boxes, source)
    return drawn


def _from_boxes(drawn: NDArray[np.int64], boxes: Boxes, source: RandomBytes) -> NDArray[np.int64]:
    """Fill an array with draws from boxes; return the places where the bits chose none."""
    word_bits = 8 * boxes.starts.itemsize
    words = source.take(drawn.size * word_bits // 8).view(f"<u{word_bits // 8}")
    # Step 1: the word's top bits choose the slot, its low bits the place in the box's cell: no bit serves twice.
    slots = (words >> (word_bits - BOX_BITS)).astype(np.intp)
    numbers = boxes.starts.take(slots, mode="wrap")
    missing = np.flatnonzero(numbers == boxes.empty)
    numbers += (words & ((1 << boxes.width_bits) - 1)).view(numbers.dtype)
    drawn[:] = numbers
    return missing


def _from_caps(count: int, boxes: Boxes, source: RandomBytes) -> NDArray[np.int64]:
    """Draw from what boxes leave: uniform points of all slices, and of these the first that lie below the graph.

    About half of them do. Those that are tried beyond need are thrown away, whatever they are.
    """
    drawn, done = np.empty(count, np.int64), 0
    for _ in range(_MOST_ROUNDS):
        if done == count:
            return drawn
        # Twice as many tries as points wanted: in their order, so that which are kept does not hang on their value.
        found = _points(2 * (count - done) + 32, boxes, source)[: count - done]
        drawn[done : done + found.size] = found
        done += found.size
    raise OverflowError(f"{_MOST_ROUNDS} rounds gave too few points below the graph; nothing was returned")


def _points(tries: int, boxes: Boxes, source: RandomBytes, *, margin: float = _MARGIN) -> NDArray[np.int64]:
    """Try so many points of slices; return the whole numbers of those below the graph, in their order.

    A wider margin only sends more points to exact arithmetic.
    """
    choices, abscissas, heights = source.take(3 * tries * WORD_BITS // 8).view("<u8").reshape(3, tries)
    count = boxes.slices.size
    # the last 2^64 mod `count` words would make some slices likelier
    fair = choices <= np.uint64((1 << WORD_BITS) // count * count - 1)
    places = boxes.slices.take((choices % np.uint64(count)).view(np.int64))
    part_bits = WORD_BITS - boxes.width_bits
    numbers = boxes.cells.take(places) + (abscissas >> part_bits).view(np.int64)
    scaled = (abscissas & ((1 << part_bits) - 1)) * 2.0**-part_bits
    scaled += numbers - 0.5
    scaled /= float(boxes.standard_deviation)
    graph = np.exp(scaled * scaled * -0.5)
    graph *= boxes.graph_scale
    levels = heights * 2.0**-WORD_BITS
    levels *= boxes.caps.take(places)
    levels += boxes.floors.take(places)
    # exp and the products are right to far less than 2^-40: beyond the margin float64 has decided, within it exact
    # bounds do. A tail's point (place -1) is always decided apart.
    below = levels < graph * (1 - margin)
    undecided = (places < 0) | ~(below | (levels > graph * (1 + margin)))
    for at in np.flatnonzero(undecided).tolist():
        words = int(abscissas[at]), int(heights[at])
        found = _decided(int(places[at]), *words, boxes, source)
        below[at] = found is not None
        numbers[at] = numbers[at] if found is None else found
    return numbers[below & fair]


def _decided(place: int, abscissa: int, height: int, boxes: Boxes, source: RandomBytes) -> int | None:
    """Decide what floats cannot; None where the point does not lie below the graph, or the normal not in the tail."""
    if place < 0:
        # The tail's slice of the square: the first 22 bits of U are 0, the others and V are the two words.
        bits = abscissa >> SLICE_BITS, height
        number = rounded_pair(*bits, standard_deviation=boxes.standard_deviation, source=source)[0]
        return number if not -boxes.farthest <= number < boxes.farthest else None
    part_bits = WORD_BITS - boxes.width_bits
    number = int(boxes.cells[place]) + (abscissa >> part_bits)
    part, height_bits = abscissa & ((1 << part_bits) - 1), WORD_BITS
    for _ in range(_MOST_WORDS):
        found = lies_below(boxes, place, number, (part, part_bits), (height, height_bits))
        if found is not None:
            return number if found else None
        more = source.take(2 * WORD_BITS // 8).tobytes()
        half = len(more) // 2
        part = part << WORD_BITS | int.from_bytes(more[:half], "little")
        height = height << WORD_BITS | int.from_bytes(more[half:], "little")
        part_bits, height_bits = part_bits + WORD_BITS, height_bits + WORD_BITS
    raise OverflowError(f"{_MOST_WORDS * WORD_BITS} random bits did not decide a normal number; nothing was returned")
