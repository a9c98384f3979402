"""Leaves inside bins: every offset in one leaf, every bin in whole leaves, spikes alone."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.domains.addends import addend_problems
from contracts.domains.domain import DeclaredDomain
from contracts.domains.ordered import DecimalDomain, IntegerDomain
from contracts.domains.trees import MOST_LEAVES, BinTree, bin_ends, bin_tree

TERMS: dict[str, Any] = {"nulls": {"policy": "category"}, "provenance": {"kind": "declared"}}


def whole(edges: list[int]) -> IntegerDomain:
    bounds = [edges[0], edges[-1]]
    return IntegerDomain.model_validate({"kind": "integer", "bounds": bounds, "bins": {"edges": edges}, **TERMS})


def tree_of(domain: DeclaredDomain) -> BinTree:
    tree = bin_tree("pay", domain, 1)
    assert tree is not None
    return tree


@given(st.lists(st.integers(-3000, 3000), min_size=3, max_size=20, unique=True))
def test_leaves_hold_every_offset_once_and_each_bin_is_made_of_whole_leaves(edges: list[int]) -> None:
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


def test_few_values_have_leaves_of_their_own_and_bins_of_one_value_have_no_tree() -> None:
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
def test_cuts_that_are_no_leaves_are_problems(cuts: tuple[int, ...]) -> None:
    """So a grant refuses them before it draws."""
    tree = tree_of(whole([0, 50, 100]))
    if len(cuts) == 10**4:
        tree = tree_of(whole([0, 50, 10**5]))
    assert addend_problems(replace(tree, cuts=cuts), 1)


def test_a_bin_that_begins_inside_a_leaf_is_refused() -> None:
    tree = tree_of(whole([0, 50, 99]))
    with pytest.raises(ValueError, match="inside a leaf"):
        bin_ends(whole([0, 50, 99]).axis, replace(tree, cuts=(0, 49, 51)))
    assert all(one < other for one, other in pairwise(tree.cuts))
