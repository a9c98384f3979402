"""Model sizes are known before anything is built, also with one clique more; the trees are junction trees."""

import time
from itertools import combinations, pairwise
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privacy.marginals.blocks import ModelTooLarge, blocks
from privacy.marginals.graph import CellDomain, ModelSizes, check_size, junction_tree, maximal_cliques, model_size

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
def test_the_size_is_eight_bytes_a_cell_of_the_triangulated_graph(cliques: list[tuple[str, ...]], cells: int):
    """Worked by hand; the cycle of four gets the cheaper of its two chords."""
    assert model_size(ABCD, cliques) == 8 * cells / 2**20


@pytest.mark.long
@settings(max_examples=300, deadline=None)
@given(graphs())
def test_the_tree_is_what_was_announced_and_has_the_running_intersection(
    graph: tuple[CellDomain, list[tuple[str, ...]]],
):
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
def test_the_order_of_cliques_and_columns_changes_nothing(graph: tuple[CellDomain, list], shuffle: object):
    """The same tree from the same edges."""
    domain, cliques = graph
    mixed = [tuple(reversed(clique)) for clique in cliques]
    shuffle.shuffle(mixed)  # type: ignore[attr-defined]
    assert junction_tree(domain, mixed) == junction_tree(domain, cliques)


def test_a_model_above_the_cap_is_refused_with_size_and_cap():
    """Both numbers are attributes and in the message; at the cap it passes."""
    size = model_size(ABCD, [("a", "b", "c", "d")])
    check_size(ABCD, [("a", "b", "c", "d")], size)
    with pytest.raises(ModelTooLarge, match=r"needs 0\.0 MB, the cap is 0\.0 MB") as refused:
        check_size(ABCD, [("a", "b", "c", "d")], size / 2)
    assert (refused.value.size_mb, refused.value.cap_mb) == (size, size / 2)


def test_a_hundred_columns_are_triangulated_quickly():
    """A chain with chords: bands of three columns, nothing larger."""
    domain = CellDomain(tuple(f"c{number}" for number in range(100)), (5,) * 100)
    names = domain.columns
    cliques = [*pairwise(names), *zip(names, names[2:], strict=False)]
    assert model_size(domain, cliques) == 8 * 98 * 125 / 2**20


COLUMNS = tuple("abcdefghij")


@st.composite
def models(draw: st.DrawFn) -> tuple[CellDomain, list[tuple[str, ...]], tuple[str, ...]]:
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=4, max_size=10)))
    domain = CellDomain(COLUMNS[: len(shape)], shape)
    every = [clique for size in (1, 2, 3) for clique in combinations(domain.columns, size)]
    known = draw(st.lists(st.sampled_from(every), max_size=12))
    return domain, known, draw(st.sampled_from(every))


@pytest.mark.long
@settings(max_examples=400, deadline=None)
@given(models())
def test_the_size_with_one_more_clique_is_that_of_the_whole_model(case: tuple):
    """Whether the clique is known already, or touches no block, one, several, or several connected parts."""
    domain, known, clique = case
    sizes = ModelSizes(domain, known)
    assert sizes.size == pytest.approx(model_size(domain, known), rel=1e-12)
    assert sizes.with_one(clique) == pytest.approx(model_size(domain, [*known, clique]), rel=1e-12)


def reached(edges: set[frozenset[int]], start: int, without: int | None = None) -> set[int]:
    found, waiting = {start}, [start]
    while waiting:
        column = waiting.pop()
        new = {next(iter(edge - {column})) for edge in edges if column in edge} - found - {without}
        found |= new
        waiting += new
    return found


def blocks_by_definition(edges: set[frozenset[int]]) -> set[frozenset[int]]:
    """Two edges that meet in a column are in one block if their other ends are connected without it."""
    label = {edge: edge for edge in edges}
    for one, other in combinations(edges, 2):
        if len(one & other) == 1:
            (column,) = one & other
            (end,), (other_end,) = one - other, other - one
            if other_end in reached(edges, end, column):
                gone, kept = label[other], label[one]
                label = {edge: kept if each == gone else each for edge, each in label.items()}
    return {frozenset().union(*(edge for edge in edges if label[edge] == each)) for each in label.values()}


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 9), st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=14))
def test_blocks_are_those_of_the_definition(count: int, drawn: list[tuple[int, int]]):
    """And one more edge makes one block of those between its ends."""
    edges = {frozenset((one, other)) for one, other in drawn if one != other and max(one, other) < count}
    neighbours = [sum(1 << other for other in range(count) if {one, other} in edges) for one in range(count)]
    found = blocks(neighbours)
    named = [frozenset(column for column in range(count) if mask >> column & 1) for mask in found.masks]
    assert len(named) == len(set(named))
    assert set(named) == blocks_by_definition(edges)
    for one, other in combinations(range(count), 2):
        assert (found.part_of[one] == found.part_of[other]) == (other in reached(edges, one))
        if found.part_of[one] == found.part_of[other]:
            joined = frozenset({one, other}).union(*(named[block] for block in found.between(one, other)))
            assert joined in blocks_by_definition(edges | {frozenset((one, other))})


@pytest.mark.long
def test_all_pairs_of_a_wide_tree_are_known_in_seconds():
    """120 columns in a chain: each of 7,140 pairs closes a cycle of its own."""
    columns = tuple(f"c{place:03d}" for place in range(120))
    domain = CellDomain(columns, tuple(2 + place % 9 for place in range(120)))
    start = time.process_time()
    sizes = ModelSizes(domain, [(columns[place], columns[place - 1 - place % 3]) for place in range(4, 120)])
    assert all(sizes.with_one(pair) > 0 for pair in combinations(columns, 2))
    assert time.process_time() - start < 60
