"""Boxes and caps under a normal density, in 60 digits, and Box and Muller's pairs, in 400 bits."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from privacy.noise.random_bytes import SeededBytes
from privacy.noise.rounded_gaussian import BOX_BITS, SLICE_BITS, boxes_of, lies_below, pair_from_bits, rounded_pair
from tests.privacy.noise.noise_statistics import ConstantBytes, ScriptedBytes
from tests.privacy.noise.normal_graph import cell_area

DEVIATIONS = (
    Fraction(2**8),
    Fraction(1000, 3),
    Fraction(13, 10) * 2**20,
    Fraction(2**21) - Fraction(1, 7),
    Fraction(2**28),
    Fraction(2**32),
)
DIGITS = 60


@pytest.mark.parametrize("deviation", DEVIATIONS)
def test_boxes_lie_below_the_graph_and_slices_cover_what_is_left(deviation: Fraction) -> None:
    """Each cell against mpmath in 60 digits: not a box too many, not a slice too few, and not two of them amiss."""
    boxes = boxes_of(deviation)
    width = 1 << boxes.width_bits
    assert deviation / 64 < width <= deviation / 32
    assert boxes.cells.tolist() == list(range(-boxes.farthest, boxes.farthest, width))
    with mpmath.workdps(DIGITS):
        for place, first in enumerate(boxes.cells.tolist()):
            ends = (
                cell_area(deviation, Fraction(first) - Fraction(1, 2)),
                cell_area(deviation, Fraction(first + width) - Fraction(1, 2)),
            )
            top = cell_area(deviation, Fraction(0)) if first == 0 else max(ends)
            floor, cap = (mpmath.mpf(float(areas[place])) for areas in (boxes.floors, boxes.caps))
            assert 0 <= min(ends) - floor < mpmath.mpf(2) ** -BOX_BITS
            assert 0 < floor + cap - top < 2 * mpmath.mpf(2) ** -SLICE_BITS


@pytest.mark.parametrize("deviation", DEVIATIONS)
def test_the_tables_have_a_slot_for_each_box_and_each_slice(deviation: Fraction) -> None:
    """Counted slot after slot; all areas are whole multiples, and the one slice more is the tail's."""
    boxes = boxes_of(deviation)
    firsts, counts = np.unique(boxes.starts[boxes.starts != boxes.empty], return_counts=True)
    filled = boxes.floors > 0
    assert firsts.tolist() == boxes.cells[filled].tolist()
    assert (counts * 2.0**-BOX_BITS).tolist() == boxes.floors[filled].tolist()
    places, counts = np.unique(boxes.slices, return_counts=True)
    assert places.tolist() == list(range(-1, boxes.cells.size))
    assert counts[0] == 1
    assert (counts[1:] * 2.0**-SLICE_BITS).tolist() == boxes.caps.tolist()
    assert boxes.starts.size == 2**BOX_BITS
    assert 0.986 < boxes.floors.sum() < 0.993


@pytest.mark.parametrize("deviation", DEVIATIONS)
def test_the_slice_of_the_square_covers_the_tail(deviation: Fraction) -> None:
    """Beyond the last cell on either side, U = e^(-y^2 / (2 s^2)) is below 2^-25: far below the slice's 2^-22."""
    with mpmath.workdps(DIGITS):
        nearest = (mpmath.mpf(boxes_of(deviation).farthest) - mpmath.mpf(1) / 2) / (
            mpmath.mpf(deviation.numerator) / deviation.denominator
        )
        assert mpmath.exp(-(nearest**2) / 2) < mpmath.mpf(2) ** -25 < mpmath.mpf(2) ** -SLICE_BITS


def test_boxes_of_a_density_a_thousandth_wider_would_not_fit() -> None:
    """The wrong twin of the first test: of s (1 + 1/1000), far fewer than all cells pass."""
    deviation = Fraction(13, 10) * 2**20
    boxes, wider, passed = boxes_of(deviation), deviation * Fraction(1001, 1000), 0
    width = 1 << boxes.width_bits
    for place, first in enumerate(boxes.cells.tolist()):
        ends = [cell_area(wider, Fraction(edge) - Fraction(1, 2)) for edge in (first, first + width)]
        passed += bool(0 <= min(ends) - float(boxes.floors[place]) < 2.0**-BOX_BITS)
    assert passed < 0.95 * boxes.cells.size


@pytest.mark.parametrize("deviation", [Fraction(1000, 3), Fraction(13, 10) * 2**20, Fraction(2**28)])
def test_points_next_to_the_graph_are_decided_by_their_bits_and_by_no_fewer(deviation: Fraction) -> None:
    """Heights one unit of their last bit below, at and above the graph, of 64, 128 and 192 bits, in five cells. The
    bits at the graph leave it open; one unit less lies below; one more above. A y of as many bits is known too."""
    boxes, generator = boxes_of(deviation), np.random.default_rng(1)
    middle = boxes.cells.size // 2
    for cell in (0, middle // 2, middle - 1, middle, middle + 40):
        whole = int(boxes.cells[cell]) + int(generator.integers(1 << boxes.width_bits))
        for bits in (64, 128, 192):
            part = int(generator.integers(1 << 40)) << (bits - 40) | int(generator.integers(1 << 20))
            with mpmath.workprec(600):
                y = Fraction(whole) - Fraction(1, 2) + Fraction(2 * part + 1, 2 << bits)
                share = (cell_area(deviation, y) - float(boxes.floors[cell])) / float(boxes.caps[cell])
                height = int(share * 2**bits)
            y_bits = (part << 64) + (1 << 63), bits + 64
            assert lies_below(boxes, cell, whole, y_bits, (height - 1, bits)) is True
            assert lies_below(boxes, cell, whole, y_bits, (height, bits)) is None
            assert lies_below(boxes, cell, whole, y_bits, (height + 1, bits)) is False
            assert lies_below(boxes, cell, whole, (part >> (bits - 16), 16), (height - 1, bits)) is None


def test_a_y_that_may_be_0_has_the_top_of_the_graph_above_it() -> None:
    """The first bit of y - (m - 1/2) at m = 0: on both sides of y = 0 the graph's top is not an end's height."""
    deviation = Fraction(2**8)
    boxes = boxes_of(deviation)
    cell = boxes.cells.tolist().index(0)
    with mpmath.workprec(400):
        top = (cell_area(deviation, Fraction(0)) - float(boxes.floors[cell])) / float(boxes.caps[cell])
        end = (cell_area(deviation, Fraction(1, 2)) - float(boxes.floors[cell])) / float(boxes.caps[cell])
        between, above = int((top + end) / 2 * 2**80), int(top * 2**80) + 1
    assert lies_below(boxes, cell, 0, (0, 0), (between, 80)) is None
    assert lies_below(boxes, cell, 0, (0, 0), (above, 80)) is False
    assert lies_below(boxes, cell, 0, (0, 0), (int(end * 2**80) - 1, 80)) is True


def exactly(first: int, second: int, bits: int, deviation: Fraction) -> set[tuple[int, int]]:
    """What the ends of U's and V's intervals give, each in 400 bits."""
    with mpmath.workprec(400):
        scale, found = mpmath.mpf(deviation.numerator) / deviation.denominator, set()
        for a, b in ((first, second), (first + 1, second), (first, second + 1), (first + 1, second + 1)):
            radius = mpmath.sqrt(-2 * mpmath.log(mpmath.mpf(a) / 2**bits))
            angle = 2 * mpmath.pi * mpmath.mpf(b) / 2**bits
            along, across = scale * radius * mpmath.cos(angle), scale * radius * mpmath.sin(angle)
            found.add((int(mpmath.nint(along)), int(mpmath.nint(across))))
        return found


@pytest.mark.parametrize("deviation", [Fraction(13, 10) * 2**20, Fraction(2) ** 28, Fraction(5, 4), Fraction(1, 8)])
def test_every_pair_is_what_its_bytes_give_in_400_bits(deviation: Fraction) -> None:
    """500 pairs against mpmath on the same bytes; with the factor (1 + 10^-6) one in three would differ."""
    differ = 0
    for first, second in SeededBytes(1).take(16 * 500).view("<u8").reshape(500, 2).tolist():
        found = rounded_pair(first, second, standard_deviation=deviation, source=ScriptedBytes())
        assert found in exactly(first, second, 64, deviation)
        differ += found not in exactly(first, second, 64, deviation * Fraction(1_000_001, 1_000_000))
    assert deviation < 2**20 or differ > 500 / 3


def test_bits_that_do_not_decide_are_followed_by_more() -> None:
    """Words whose interval holds a half integer: what comes next decides, either way."""
    deviation, near = Fraction(2) ** 28, []
    for along, across in ((12_345_678, -401), (3, 987_654_321)):
        with mpmath.workprec(600):
            uniform = mpmath.exp(
                -((along + mpmath.mpf(1) / 2) ** 2 + mpmath.mpf(across) ** 2) / (2 * mpmath.mpf(2) ** 56)
            )
            turn = mpmath.atan2(across, along + mpmath.mpf(1) / 2) / (2 * mpmath.pi) % 1
            near.append((int(uniform * 2**192), int(turn * 2**192)))
    for first, second in near:
        words = first >> 128, second >> 128
        assert pair_from_bits(*words, 64, standard_deviation=deviation) is None
        found = set()
        for further in (0, 2**64 - 1):
            script = list(further.to_bytes(8, "little") + (second >> 64 & 2**64 - 1).to_bytes(8, "little"))
            tail = [list(SeededBytes(4).take(16)) for _ in range(3)]
            pair = rounded_pair(*words, standard_deviation=deviation, source=ScriptedBytes(script, *tail))
            assert {pair} == exactly(words[0] << 64 | further, second >> 64, 128, deviation)
            found.add(pair)
        assert len(found) == 2


def test_a_broken_source_is_refused_and_gives_no_infinite_noise() -> None:
    with pytest.raises(OverflowError, match="4096"):
        rounded_pair(0, 0, standard_deviation=Fraction(2**20), source=ConstantBytes(0))
