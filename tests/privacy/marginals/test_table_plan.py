"""Small tables out of a large one, block by block, are what the whole table gives."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.contract.impossible_cells import Clique
from privacy.arrays import Floats
from privacy.marginals import inference as table_plan
from privacy.marginals.inference import ContractionTree, aligned

COLUMNS = tuple("abcdef")


@st.composite
def tables(draw: st.DrawFn) -> tuple[Clique, tuple[int, ...], list[Clique], list[Clique], int, int]:
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=6)))
    columns = COLUMNS[: len(shape)]
    every = [clique for size in range(len(columns) + 1) for clique in combinations(columns, size)]
    chosen = st.lists(st.sampled_from(every), max_size=6, unique=True)
    return (
        columns,
        shape,
        draw(chosen),
        draw(chosen),
        draw(st.sampled_from([1, 7, 40, 10_000])),
        draw(st.integers(0, 99)),
    )


def some_factors(
    columns: Clique, shape: tuple[int, ...], cliques: list[Clique], seed: int
) -> list[tuple[Clique, Floats]]:
    generator = np.random.default_rng(seed)
    size = dict(zip(columns, shape, strict=True))
    return [(clique, generator.normal(size=[size[name] for name in clique])) for clique in cliques]


def whole(columns: Clique, shape: tuple[int, ...], factors: list[tuple[Clique, Floats]]) -> Floats:
    table = np.zeros(shape)
    for clique, values in factors:
        table = table + aligned(values, clique, columns)
    return table


@pytest.mark.long
@settings(max_examples=200, deadline=None)
@given(tables())
def test_sums_and_largest_values_are_those_of_the_whole_table(case: tuple) -> None:
    """Any factors, any cliques, any size of block, with a weight; the empty clique too."""
    columns, shape, inputs, asked, block, seed = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_plan, "BLOCK", block)
        plan = ContractionTree(columns, shape)
    factors = some_factors(columns, shape, inputs, seed)
    (weight,) = some_factors(columns, shape, [columns[:2]], seed + 1)
    logs = whole(columns, shape, factors)
    table = np.exp(logs) * aligned(weight[1], weight[0], columns)
    found = plan.sums(factors, asked, weight)
    for clique in asked:
        gone = tuple(axis for axis, name in enumerate(columns) if name not in clique)
        np.testing.assert_allclose(found[clique], table.sum(axis=gone), rtol=1e-10, atol=1e-10)
        np.testing.assert_array_equal(plan.largest(factors, clique).shape, table.sum(axis=gone).shape)
        np.testing.assert_allclose(plan.largest(factors, clique), logs.max(axis=gone), rtol=1e-12, atol=1e-12)


def test_threads_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of many blocks, in threads and in one loop."""
    shape = (4, 5, 6, 7, 8)
    monkeypatch.setattr(table_plan, "BLOCK", 100)
    plan = ContractionTree(COLUMNS[:5], shape)
    pairs = list(combinations(COLUMNS[:5], 2))
    factors = some_factors(COLUMNS[:5], shape, pairs, 3)
    threaded = plan.sums(factors, pairs)
    monkeypatch.setattr(table_plan, "MANY_BLOCKS", 10**9)
    alone = plan.sums(factors, pairs)
    assert all((threaded[pair] == alone[pair]).all() for pair in pairs)


def test_the_axes_follow_the_asked_order() -> None:
    """A reversed clique gives the transposed table."""
    factors = some_factors(("a", "b", "c"), (2, 3, 4), [("a", "b"), ("c", "b")][:1], 1)
    plan = ContractionTree(("a", "b", "c"), (2, 3, 4))
    found = plan.sums(factors, [("a", "b"), ("b", "a")])
    np.testing.assert_array_equal(found[("a", "b")], found[("b", "a")].T)
    np.testing.assert_array_equal(plan.largest(factors, ("b", "a")), plan.largest(factors, ("a", "b")).T)
