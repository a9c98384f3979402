"""Exact normal noise, rounded: rint(s N) for an exactly normal N, all of a vector jointly.

A point is drawn uniformly from the area under the density of s N, and its abscissa y is rounded. As y is distributed
as s N, exactly, rint(y) is distributed as rint(s N). Each number takes random bits of its own, so that a vector is
distributed as independent normals, each rounded to the nearest whole number. What is added to whole numbers x gives
rint(x + s N): a function of the Gaussian mechanism's output, and of nothing else, whatever number of coordinates and
draws is looked at together.

The area is cut into boxes of equal area, caps and a tail (`normal_boxes`):
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

from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.noise.box_muller import WORD_BITS, rounded_pair
from privacy.noise.limits import check_fraction, check_size
from privacy.noise.normal_boxes import BOX_BITS, SLICE_BITS, Boxes, boxes_of, lies_below
from privacy.noise.random_bytes import RandomBytes

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
