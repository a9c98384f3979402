"""Histograms of magnitudes: bins that hold every offset once, and lattices between them."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as some

from contracts.domains.addends import ValueMagnitudes
from contracts.domains.lattice import ValueLattice, lattice_problems

STEPS = some.sampled_from([Decimal("0.01"), Decimal("0.5"), Decimal(1), Decimal(250)])


def over(low: Decimal | int, high: Decimal | int, step: Decimal | int = 1) -> ValueMagnitudes:
    return ValueMagnitudes(ValueLattice("pay", Decimal(low), Decimal(high), Decimal(step), counts_missing=True))


@given(some.integers(-(10**8), 10**8), some.integers(1, 10**9), STEPS)
def test_each_offset_is_in_one_bin(start: int, width: int, step: Decimal) -> None:
    """Bins follow each other from 0 to the width, and are at most half as long as their distance from 0, or one."""
    magnitudes = over(start * step, (start + width) * step, step)
    bins, zero = magnitudes.bins, magnitudes.zero
    assert (bins[0][0], bins[-1][1]) == (0, width)
    assert all(last + 1 == first for (_, last), (first, _) in pairwise(bins))
    assert (zero, zero) in bins
    assert len(bins) == magnitudes.parts == len(magnitudes.part_names) <= 4 * 31
    for first, last in bins:
        nearest = min(abs(first - zero), abs(last - zero))
        assert first <= last
        assert last - first <= nearest / 2


@pytest.mark.parametrize(
    ("bounds", "names"),
    [
        ((0, 6), ["0 to 0", "1 to 1", "2 to 2", "3 to 3", "4 to 4", "5 to 6"]),
        ((-3, 2), ["-3 to -3", "-2 to -2", "-1 to -1", "0 to 0", "1 to 1", "2 to 2"]),
        ((17, 23), ["17 to 17", "18 to 18", "19 to 19", "20 to 20", "21 to 21", "22 to 23"]),
        ((-23, -17), ["-23 to -22", "-21 to -21", "-20 to -20", "-19 to -19", "-18 to -18", "-17 to -17"]),
        ((0, 1), ["0 to 0", "1 to 1"]),
    ],
)
def test_bins_by_hand(bounds: tuple[int, int], names: list[str]) -> None:
    assert list(over(*bounds).part_names) == names


def test_a_narrowed_lattice_is_written_as_any_other_and_read_from_the_whole_one() -> None:
    magnitudes = over(Decimal("-2.5"), Decimal("7.5"), Decimal("0.5"))
    narrowed = magnitudes.narrowed(4, 11)
    assert (narrowed.low, narrowed.high, narrowed.width) == (Decimal("-0.5"), Decimal("3"), 7)
    assert narrowed.to_json() == ValueLattice("pay", narrowed.low, narrowed.high, Decimal("0.5"), True).to_json()
    assert narrowed.name == magnitudes.lattice.name
    assert narrowed.row_moves == (7,)
    assert lattice_problems(narrowed.low, narrowed.high, narrowed.step, 1) == []
    assert narrowed != ValueLattice("pay", narrowed.low, narrowed.high, Decimal("0.5"), True)


@pytest.mark.parametrize(("first", "last"), [(0, 0), (5, 4), (10, 16), (0, 13), (-1, 6), (0, 21)])
def test_a_clip_goes_from_bin_to_bin(first: int, last: int) -> None:
    """Bins of 0 to 20: 0, 1, 2, 3, 4, 5-6, 7-8, 9-12, 13-16, 17-20."""
    with pytest.raises(ValueError, match="from where a bin begins to where one ends"):
        over(0, 20).narrowed(first, last)
