"""Model sizes are known before anything is built, and the trees are junction trees."""

from __future__ import annotations

from itertools import combinations, pairwise
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privacy.marginals.blocks import ModelTooLarge
from privacy.marginals.graph import CellDomain, check_size, junction_tree, maximal_cliques, model_size

ABCD = CellDomain(("a", "b", "c", "d"), (2, 3, 5, 7))


@st.composite
def graphs(draw: st.DrawFn) -> tuple[CellDomain, list[tuple[str, ...]]]:
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=9)))
    domain = CellDomain(tuple("abcdefghi"[: len(shape)]), shape)
    every = [clique for size in (1, 2, 3) for clique in combinations(domain.columns, size)]
    return domain, draw(st.lists(st.sampled_from(every), max_size=12))


@pytest.mark.parametrize(
    ("cliques", "cells"),
    [
        ([], 2 + 3 + 5 + 7),
        ([("a",), ("b",)], 2 + 3 + 5 + 7),
        ([("a", "b"), ("b", "c"), ("c", "d")], 6 + 15 + 35),
        ([("a", "b"), ("b", "c"), ("c", "a")], 30 + 7),
        ([("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")], 2 * 3 * 5 + 2 * 5 * 7),
        ([("a", "b", "c", "d")], 210),
    ],
)
def test_the_size_is_eight_bytes_a_cell_of_the_triangulated_graph(cliques: list[tuple[str, ...]], cells: int) -> None:
    """Worked by hand; the cycle of four gets the cheaper of its two chords."""
    assert model_size(ABCD, cliques) == 8 * cells / 2**20


@pytest.mark.long
@settings(max_examples=300, deadline=None)
@given(graphs())
def test_the_tree_is_what_was_announced_and_has_the_running_intersection(
    graph: tuple[CellDomain, list[tuple[str, ...]]],
) -> None:
    """Its tables take the announced memory, hold every clique, and each column's nodes hang together."""
    domain, cliques = graph
    tree = junction_tree(domain, cliques)
    assert tree.size_mb == pytest.approx(model_size(domain, cliques), rel=1e-12)
    assert {frozenset(node.columns) for node in tree.nodes} == set(map(frozenset, maximal_cliques(domain, cliques)))
    assert all(tree.home(clique) is not None for clique in cliques)
    for column in domain.columns:
        tops = [node for node in tree.nodes if column in node.residual]
        assert len(tops) == 1
    for node in tree.nodes[1:]:
        assert set(node.separator) == set(node.columns) & set(tree.nodes[node.parent].columns)
        assert node.shape == domain.sizes(node.columns)
        assert prod(domain.sizes(node.separator)) * prod(domain.sizes(node.residual)) == prod(node.shape)


@settings(max_examples=100, deadline=None)
@given(graphs(), st.randoms(use_true_random=False))
def test_the_order_of_cliques_and_columns_changes_nothing(graph: tuple[CellDomain, list], shuffle: object) -> None:
    """The same tree from the same edges."""
    domain, cliques = graph
    mixed = [tuple(reversed(clique)) for clique in cliques]
    shuffle.shuffle(mixed)  # type: ignore[attr-defined]
    assert junction_tree(domain, mixed) == junction_tree(domain, cliques)


def test_a_model_above_the_cap_is_refused_with_size_and_cap() -> None:
    """Both numbers are attributes and in the message; at the cap it passes."""
    size = model_size(ABCD, [("a", "b", "c", "d")])
    check_size(ABCD, [("a", "b", "c", "d")], size)
    with pytest.raises(ModelTooLarge, match=r"needs 0\.0 MB, the cap is 0\.0 MB") as refused:
        check_size(ABCD, [("a", "b", "c", "d")], size / 2)
    assert (refused.value.size_mb, refused.value.cap_mb) == (size, size / 2)


def test_a_hundred_columns_are_triangulated_quickly() -> None:
    """A chain with chords: bands of three columns, nothing larger."""
    domain = CellDomain(tuple(f"c{number}" for number in range(100)), (5,) * 100)
    names = domain.columns
    cliques = [*pairwise(names), *zip(names, names[2:], strict=False)]
    assert model_size(domain, cliques) == 8 * 98 * 125 / 2**20
