"""A model's size with one more clique is that of the whole model, and takes next to no time to know."""

from __future__ import annotations

import time
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privacy.marginals.blocks import blocks
from privacy.marginals.graph import CellDomain, ModelSizes, model_size

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
def test_the_size_with_one_more_clique_is_that_of_the_whole_model(case: tuple) -> None:
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
def test_blocks_are_those_of_the_definition(count: int, drawn: list[tuple[int, int]]) -> None:
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
def test_all_pairs_of_a_wide_tree_are_known_in_seconds() -> None:
    """120 columns in a chain: each of 7,140 pairs closes a cycle of its own."""
    columns = tuple(f"c{place:03d}" for place in range(120))
    domain = CellDomain(columns, tuple(2 + place % 9 for place in range(120)))
    start = time.process_time()
    sizes = ModelSizes(domain, [(columns[place], columns[place - 1 - place % 3]) for place in range(4, 120)])
    assert all(sizes.with_one(pair) > 0 for pair in combinations(columns, 2))
    assert time.process_time() - start < 60
