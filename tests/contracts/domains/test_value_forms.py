"""Forms of values inside bins: leaves, magnitudes, sums, trees; every offset in one leaf, refusals with words."""

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from math import prod
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from hypothesis import strategies as st

from contracts.domains.addends import (
    LoneSum,
    ValueMagnitudes,
    ValueMoments,
    addend_problems,
    form_problems,
    may_stand_alone,
    moments_of,
)
from contracts.domains.domain import DeclaredDomain
from contracts.domains.lattice import WIDEST, ValueLattice, lattice_problems
from contracts.domains.ordered import DecimalDomain, IntegerDomain
from contracts.domains.trees import (
    MOST_LEAVES,
    MOST_LEVELS,
    MOST_NUMBERS,
    BinTree,
    ValueTree,
    bin_ends,
    bin_tree,
    resolution_problems,
    usual_resolution,
)

TERMS: dict[str, Any] = {"nulls": {"policy": "category"}, "provenance": {"kind": "declared"}}


def whole(edges: list[int]) -> IntegerDomain:
    bounds = [edges[0], edges[-1]]
    return IntegerDomain.model_validate({"kind": "integer", "bounds": bounds, "bins": {"edges": edges}, **TERMS})


def tree_of(domain: DeclaredDomain) -> BinTree:
    tree = bin_tree("pay", domain, 1)
    assert tree is not None
    return tree


@given(st.lists(st.integers(-3000, 3000), min_size=3, max_size=20, unique=True))
def test_leaves_hold_every_offset_once_and_each_bin_is_made_of_whole_leaves(edges: list[int]):
    """Both bounds and 0 have leaves of their own, whatever the bins."""
    edges = sorted(edges)
    domain = whole(edges)
    tree = bin_tree("pay", domain, 1)
    if tree is None:
        assert edges[-1] - edges[0] + 1 <= len(domain.bins)
        return
    ends = [(tree.first(leaf), tree.last(leaf)) for leaf in range(tree.leaves)]
    assert [offset for first, last in ends for offset in range(first, last + 1)] == list(
        range(tree.lattice.width + 1)
    )
    alone = {0, tree.lattice.width} | ({-edges[0]} if edges[0] < 0 < edges[-1] else set())
    assert alone <= {first for first, last in ends if first == last}
    starts = bin_ends(domain.axis, tree)
    assert [edges[0] + tree.first(leaf) for leaf in starts[:-1]] == [low for low, _ in domain.bins]
    assert starts[-1] == tree.leaves
    assert tree.leaves <= MOST_LEAVES + len(domain.bins) + 6
    assert addend_problems(tree, 1) == []
    assert len(set(tree.part_names)) == tree.parts == sum(tree.level_nodes) + 1
    assert tree.row_moves == (1,) * tree.levels


def test_few_values_have_leaves_of_their_own_and_bins_of_one_value_have_no_tree():
    assert tree_of(whole([0, 50, 99])).leaves == 100
    assert bin_tree("pay", whole([0, 1, 2]), 1) is None or tree_of(whole([0, 1, 2])).leaves == 3
    single = IntegerDomain.model_validate({"kind": "integer", "bounds": [0, 9], "bins": {"width": 1}, **TERMS})
    assert bin_tree("pay", single, 1) is None
    cents = DecimalDomain.model_validate(
        {"kind": "decimal", "bounds": ["0", "2.5"], "bins": {"edges": ["0", "0.25", "2.5"]}, **TERMS}
    )
    assert tree_of(cents).lattice.step == Decimal("0.01")
    assert bin_tree("pay", whole([0, 5, 10**9]), 2) is None, "a unit of two rows moves more steps than are counted on"


@pytest.mark.parametrize("cuts", [(), (1, 2), (0, 2, 2), (0, 3, 2), (0, 101), tuple(range(10**4))])
def test_cuts_that_are_no_leaves_are_problems(cuts: tuple[int, ...]):
    """So a grant refuses them before it draws."""
    tree = tree_of(whole([0, 50, 100]))
    if len(cuts) == 10**4:
        tree = tree_of(whole([0, 50, 10**5]))
    assert addend_problems(replace(tree, cuts=cuts), 1)


def test_a_bin_that_begins_inside_a_leaf_is_refused():
    tree = tree_of(whole([0, 50, 99]))
    with pytest.raises(ValueError, match="inside a leaf"):
        bin_ends(whole([0, 50, 99]).axis, replace(tree, cuts=(0, 49, 51)))
    assert all(one < other for one, other in pairwise(tree.cuts))


STEPS = some.sampled_from([Decimal("0.01"), Decimal("0.5"), Decimal(1), Decimal(250)])


def over(low: Decimal | int, high: Decimal | int, step: Decimal | int = 1) -> ValueMagnitudes:
    return ValueMagnitudes(ValueLattice("pay", Decimal(low), Decimal(high), Decimal(step), counts_missing=True))


@given(some.integers(-(10**8), 10**8), some.integers(1, 10**9), STEPS)
def test_each_offset_is_in_one_bin(start: int, width: int, step: Decimal):
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
def test_bins_by_hand(bounds: tuple[int, int], names: list[str]):
    assert list(over(*bounds).part_names) == names


def test_a_narrowed_lattice_is_written_as_any_other_and_read_from_the_whole_one():
    magnitudes = over(Decimal("-2.5"), Decimal("7.5"), Decimal("0.5"))
    narrowed = magnitudes.narrowed(4, 11)
    assert (narrowed.low, narrowed.high, narrowed.width) == (Decimal("-0.5"), Decimal("3"), 7)
    assert narrowed.to_json() == ValueLattice("pay", narrowed.low, narrowed.high, Decimal("0.5"), True).to_json()
    assert narrowed.name == magnitudes.lattice.name
    assert narrowed.row_moves == (7,)
    assert lattice_problems(narrowed.low, narrowed.high, narrowed.step, 1) == []
    assert narrowed != ValueLattice("pay", narrowed.low, narrowed.high, Decimal("0.5"), True)


@pytest.mark.parametrize(("first", "last"), [(0, 0), (5, 4), (10, 16), (0, 13), (-1, 6), (0, 21)])
def test_a_clip_goes_from_bin_to_bin(first: int, last: int):
    """Bins of 0 to 20: 0, 1, 2, 3, 4, 5-6, 7-8, 9-12, 13-16, 17-20."""
    with pytest.raises(ValueError, match="from where a bin begins to where one ends"):
        over(0, 20).narrowed(first, last)


def lattice(low: str, high: str, step: str = "1", *, missing: bool = False) -> ValueLattice:
    return ValueLattice("pay", Decimal(low), Decimal(high), Decimal(step), counts_missing=missing)


def handed_out(moments: ValueMoments, offset: int) -> list[int]:
    """The three parts of a row, as the docstring says."""
    width, whole = moments.lattice.width, moments.whole
    at_low, at_high = whole * (width - offset) ** 2 // width**2, whole * offset**2 // width**2
    return [at_low, whole - at_low - at_high, at_high]


@given(width=st.integers(1, 10**9), share=st.floats(0, 1), rows=st.integers(1, 1000))
def test_a_row_hands_out_all_steps_and_none_below_zero(width: int, share: float, rows: int):
    """Whatever the width: squares of up to 10^9 steps are rounded down, and what is left is never below 0."""
    moments = moments_of(lattice("0", str(width)), rows)
    parts = handed_out(moments, round(share * width))
    assert min(parts) >= 0
    assert sum(parts) == moments.whole <= WIDEST // rows
    assert moments.row_moves == (moments.whole,)
    assert form_problems(moments, rows) == []


@pytest.mark.parametrize(("width", "whole"), [(1, 65536), (73, 13 * 73**2), (256, 65536), (31622, 31622**2)])
def test_squares_are_whole_steps_where_they_fit(width: int, whole: int):
    """The least multiple of W^2 from 65,536 on: then no part is rounded."""
    moments = moments_of(lattice("0", str(width)), 1)
    assert (moments.whole, moments.exact) == (whole, True)
    for offset in {0, 1, width // 2, width}:
        p = Fraction(offset, width)
        assert handed_out(moments, offset) == [whole * (1 - p) ** 2, whole * 2 * p * (1 - p), whole * p**2]
    assert not moments_of(lattice("0", "31623"), 1).exact
    assert moments_of(lattice("0", "31622"), 2).whole == WIDEST // 2


@given(width=st.integers(31_623, 10**6), offsets=st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_rounded_squares_lower_a_variance_by_less_than_is_allowed_for(width: int, offsets: list[float]):
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


def test_a_sum_alone_moves_by_the_farthest_value():
    for low, high, step, reach, both in (
        ("17", "90", "1", 90, False),
        ("-500", "200", "10", 50, True),
        ("-90", "-20", "0.5", 180, False),
    ):
        alone = LoneSum(lattice(low, high, step, missing=True))
        assert (alone.reach, alone.row_moves, alone.both_signs) == (reach, (reach,), both)
        assert (alone.parts, alone.low_steps) == (1, int(Fraction(low) / Fraction(step)))
        assert alone.to_json()["alone"] is True


def test_a_sum_stands_alone_where_that_has_less_noise_and_fits_whole_steps():
    """At 0 both forms have the same noise; an end between two steps, or too far away, has no whole steps."""
    assert may_stand_alone(lattice("17", "90"), 1)
    assert may_stand_alone(lattice("-5", "5"), 1)
    assert not may_stand_alone(lattice("0", "90"), 1)
    assert not may_stand_alone(lattice("-90", "0"), 1)
    assert not may_stand_alone(lattice("1", "7", "2"), 1)
    far = lattice("999999999", "1000000000")
    assert may_stand_alone(far, 1)
    assert not may_stand_alone(far, 2)


def test_forms_that_cannot_be_are_told():
    assert form_problems(LoneSum(lattice("1", "7", "2")), 1)[0].allowed == "a lower end of whole steps"
    for whole in (0, -5, WIDEST + 1):
        assert "steps of all rows" in form_problems(ValueMoments(lattice("0", "7"), whole), 1)[0].allowed
    assert form_problems(LoneSum(lattice("999999999", "1000000000")), 2)
    assert form_problems(lattice("0", "7"), 1) == []


def quarter_tree(width: int, steps: int, *, missing: bool = False) -> ValueTree:
    """Return the tree over so many steps of a quarter, with leaves of some of them."""
    step = Decimal("0.25")
    lattice = ValueLattice("income", Decimal(-3), Decimal(-3) + width * step, step, missing)
    return ValueTree(lattice, steps * step)


@given(st.integers(1, 5000), st.integers(1, 5000), st.booleans())
def test_leaves_hold_every_offset_once_and_both_ends_alone(width: int, steps: int, missing: bool):
    """Leaves follow each other from 0 to width; the first and the last have one offset, others at most `steps`."""
    tree = quarter_tree(width, min(steps, width), missing=missing)
    ends = [(tree.first(leaf), tree.last(leaf)) for leaf in range(tree.leaves)]
    assert [place for first, last in ends for place in range(first, last + 1)] == list(range(width + 1))
    assert (ends[0], ends[-1]) == ((0, 0), (width, width))
    assert all(last - first < tree.leaf_steps for first, last in ends)
    assert len(set(tree.part_names)) == tree.parts == sum(tree.level_nodes) + missing


@pytest.mark.parametrize("leaves", [2, 3, 10, 99, 100, 1002, 2001, 60_000, 2**24])
def test_levels_and_fan_out_make_the_error_least(leaves: int):
    """Against all pairs whose tree has room for the leaves, found by another route."""
    tree = quarter_tree(leaves - 1, 1)
    assert tree.leaves == leaves
    pairs = [(levels, fan_out) for levels in range(1, 25) for fan_out in range(1, 5000) if fan_out**levels >= leaves]
    least = min([leaves, *(fan_out * levels**3 for levels, fan_out in pairs)])
    assert tree.fan_out * tree.levels**3 == least
    assert tree.level_nodes[-1] == leaves
    assert tree.levels <= MOST_LEVELS
    assert tree.row_moves == (1,) * tree.levels
    assert all(upper == lower * tree.fan_out for upper, lower in pairwise(tree.level_leaves))


@given(st.integers(1, 10**9))
def test_the_usual_resolution_leaves_about_a_thousand_intervals(width: int):
    lattice = quarter_tree(width, 1).lattice
    tree = ValueTree(lattice, usual_resolution(lattice))
    assert (tree.leaf_steps - 1) * 1024 < width <= tree.leaf_steps * 1024
    assert not resolution_problems(tree, 1)


@pytest.mark.parametrize(
    ("resolution", "cells", "says"),
    [
        ("0", 1, "a multiple of the step, 0.25"),
        ("-0.25", 1, "a multiple of the step, 0.25"),
        ("0.3", 1, "a multiple of the step, 0.25"),
        ("26", 1, "at most the length of the clip"),
        ("0.25", MOST_NUMBERS // 101, f"at most {MOST_NUMBERS:,} numbers"),
        ("0.25", prod((2**20, 2**20)), f"at most {MOST_NUMBERS:,} numbers"),
    ],
)
def test_a_resolution_that_does_not_fit_is_refused_with_words(resolution: str, cells: int, says: str):
    tree = ValueTree(quarter_tree(100, 1).lattice, Decimal(resolution))
    (problem,) = resolution_problems(tree, cells)
    assert says in problem.allowed
    assert problem.remedy
    assert not resolution_problems(ValueTree(tree.lattice, Decimal(25)), 2**20)
