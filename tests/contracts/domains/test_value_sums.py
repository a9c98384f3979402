"""Forms of adding up: what a row adds, how far it moves them, and which form a table needs."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.domains.addends import LoneSum, ValueMoments, form_problems, may_stand_alone, moments_of
from contracts.domains.lattice import WIDEST, ValueLattice


def lattice(low: str, high: str, step: str = "1", *, missing: bool = False) -> ValueLattice:
    return ValueLattice("pay", Decimal(low), Decimal(high), Decimal(step), counts_missing=missing)


def handed_out(moments: ValueMoments, offset: int) -> list[int]:
    """The three parts of a row, as the docstring says."""
    width, whole = moments.lattice.width, moments.whole
    at_low, at_high = whole * (width - offset) ** 2 // width**2, whole * offset**2 // width**2
    return [at_low, whole - at_low - at_high, at_high]


@given(width=st.integers(1, 10**9), share=st.floats(0, 1), rows=st.integers(1, 1000))
def test_a_row_hands_out_all_steps_and_none_below_zero(width: int, share: float, rows: int) -> None:
    """Whatever the width: squares of up to 10^9 steps are rounded down, and what is left is never below 0."""
    moments = moments_of(lattice("0", str(width)), rows)
    parts = handed_out(moments, round(share * width))
    assert min(parts) >= 0
    assert sum(parts) == moments.whole <= WIDEST // rows
    assert moments.row_moves == (moments.whole,)
    assert form_problems(moments, rows) == []


@pytest.mark.parametrize(("width", "whole"), [(1, 65536), (73, 13 * 73**2), (256, 65536), (31622, 31622**2)])
def test_squares_are_whole_steps_where_they_fit(width: int, whole: int) -> None:
    """The least multiple of W^2 from 65,536 on: then no part is rounded."""
    moments = moments_of(lattice("0", str(width)), 1)
    assert (moments.whole, moments.exact) == (whole, True)
    for offset in {0, 1, width // 2, width}:
        p = Fraction(offset, width)
        assert handed_out(moments, offset) == [whole * (1 - p) ** 2, whole * 2 * p * (1 - p), whole * p**2]
    assert not moments_of(lattice("0", "31623"), 1).exact
    assert moments_of(lattice("0", "31622"), 2).whole == WIDEST // 2


@given(width=st.integers(31_623, 10**6), offsets=st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_rounded_squares_lower_a_variance_by_less_than_is_allowed_for(width: int, offsets: list[float]) -> None:
    """By fractions: means are off by less than 1/2U of the clip, and a variance lies in (true - 1.25/U, true]."""
    moments = moments_of(lattice("0", str(width)), 10_000)
    assert not moments.exact
    places = [round(each * width) for each in offsets]
    a, b, c = (sum(column) for column in zip(*(handed_out(moments, each) for each in places), strict=True))
    total = len(places) * moments.whole
    mean = Fraction(sum(places), len(places) * width)
    variance = Fraction(sum(each * each for each in places), len(places) * width**2) - mean**2
    assert abs((c + Fraction(b, 2)) / total - mean) < Fraction(1, 2 * moments.whole)
    found = (Fraction(a) * c - Fraction(b * b, 4)) / total**2
    assert variance - Fraction(5, 4 * moments.whole) < found <= variance


def test_a_sum_alone_moves_by_the_farthest_value() -> None:
    for low, high, step, reach, both in (
        ("17", "90", "1", 90, False),
        ("-500", "200", "10", 50, True),
        ("-90", "-20", "0.5", 180, False),
    ):
        alone = LoneSum(lattice(low, high, step, missing=True))
        assert (alone.reach, alone.row_moves, alone.both_signs) == (reach, (reach,), both)
        assert (alone.parts, alone.low_steps) == (1, int(Fraction(low) / Fraction(step)))
        assert alone.to_json()["alone"] is True


def test_a_sum_stands_alone_where_that_has_less_noise_and_fits_whole_steps() -> None:
    """At 0 both forms have the same noise; an end between two steps, or too far away, has no whole steps."""
    assert may_stand_alone(lattice("17", "90"), 1)
    assert may_stand_alone(lattice("-5", "5"), 1)
    assert not may_stand_alone(lattice("0", "90"), 1)
    assert not may_stand_alone(lattice("-90", "0"), 1)
    assert not may_stand_alone(lattice("1", "7", "2"), 1)
    far = lattice("999999999", "1000000000")
    assert may_stand_alone(far, 1)
    assert not may_stand_alone(far, 2)


def test_forms_that_cannot_be_are_told() -> None:
    assert form_problems(LoneSum(lattice("1", "7", "2")), 1)[0].allowed == "a lower end of whole steps"
    for whole in (0, -5, WIDEST + 1):
        assert "steps of all rows" in form_problems(ValueMoments(lattice("0", "7"), whole), 1)[0].allowed
    assert form_problems(LoneSum(lattice("999999999", "1000000000")), 2)
    assert form_problems(lattice("0", "7"), 1) == []
