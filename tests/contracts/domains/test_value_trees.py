"""Trees of counts: every offset in one leaf, few numbers, names that differ, refusals with words."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.domains.lattice import ValueLattice
from contracts.domains.trees import MOST_LEVELS, MOST_NUMBERS, ValueTree, resolution_problems, usual_resolution


def tree_of(width: int, steps: int, *, missing: bool = False) -> ValueTree:
    """Return the tree over so many steps of a quarter, with leaves of some of them."""
    step = Decimal("0.25")
    lattice = ValueLattice("income", Decimal(-3), Decimal(-3) + width * step, step, missing)
    return ValueTree(lattice, steps * step)


@given(st.integers(1, 5000), st.integers(1, 5000), st.booleans())
def test_leaves_hold_every_offset_once_and_both_ends_alone(width: int, steps: int, missing: bool) -> None:
    """Leaves follow each other from 0 to width; the first and the last have one offset, others at most `steps`."""
    tree = tree_of(width, min(steps, width), missing=missing)
    ends = [(tree.first(leaf), tree.last(leaf)) for leaf in range(tree.leaves)]
    assert [place for first, last in ends for place in range(first, last + 1)] == list(range(width + 1))
    assert (ends[0], ends[-1]) == ((0, 0), (width, width))
    assert all(last - first < tree.leaf_steps for first, last in ends)
    assert len(set(tree.part_names)) == tree.parts == sum(tree.level_nodes) + missing


@pytest.mark.parametrize("leaves", [2, 3, 10, 99, 100, 1002, 2001, 60_000, 2**24])
def test_levels_and_fan_out_make_the_error_least(leaves: int) -> None:
    """Against all pairs whose tree has room for the leaves, found by another route."""
    tree = tree_of(leaves - 1, 1)
    assert tree.leaves == leaves
    pairs = [(levels, fan_out) for levels in range(1, 25) for fan_out in range(1, 5000) if fan_out**levels >= leaves]
    least = min([leaves, *(fan_out * levels**3 for levels, fan_out in pairs)])
    assert tree.fan_out * tree.levels**3 == least
    assert tree.level_nodes[-1] == leaves
    assert tree.levels <= MOST_LEVELS
    assert tree.row_moves == (1,) * tree.levels
    assert all(upper == lower * tree.fan_out for upper, lower in pairwise(tree.level_leaves))


@given(st.integers(1, 10**9))
def test_the_usual_resolution_leaves_about_a_thousand_intervals(width: int) -> None:
    lattice = tree_of(width, 1).lattice
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
def test_a_resolution_that_does_not_fit_is_refused_with_words(resolution: str, cells: int, says: str) -> None:
    tree = ValueTree(tree_of(100, 1).lattice, Decimal(resolution))
    (problem,) = resolution_problems(tree, cells)
    assert says in problem.allowed
    assert problem.remedy
    assert not resolution_problems(ValueTree(tree.lattice, Decimal(25)), 2**20)
