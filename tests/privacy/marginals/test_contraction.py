"""Sums by matrix products are those of the whole table."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privacy.arrays import Floats
from privacy.marginals import contraction
from privacy.marginals.contraction import lacking, sum_onto, three_axes
from privacy.marginals.inference import ContractionTree

COLUMNS = ("a", "b", "c", "d", "e")
SHAPE = (3, 8, 9, 10, 11)
PAIRS = [(one, other) for place, one in enumerate(COLUMNS) for other in COLUMNS[place + 1 :]]
"""Every pair has a factor: three columns are never in one."""


def factors_of(generator: np.random.Generator, spread: float) -> list[tuple[tuple[str, ...], Floats]]:
    sizes = dict(zip(COLUMNS, SHAPE, strict=True))
    wide = ("a", "b", "c", "d")
    factors = [
        (clique, spread * generator.normal(size=[sizes[name] for name in clique])) for clique in [*PAIRS, wide]
    ]
    factors[3][1][0, 1] = -np.inf
    factors[-1][1][1, 2] = -np.inf
    return factors


def whole(factors: list[tuple[tuple[str, ...], Floats]]) -> Floats:
    table = np.zeros(SHAPE)
    for clique, values in factors:
        table = table + values.reshape(
            [size if name in clique else 1 for name, size in zip(COLUMNS, SHAPE, strict=True)]
        )
    return table


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([0.1, 3.0, 30.0]), st.booleans())
def test_sums_are_those_of_the_whole_table(seed: int, spread: float, weighted: bool) -> None:
    """Onto pairs, onto four columns, onto nothing; with impossible cells, and with a weight that is 0 in places."""
    generator = np.random.default_rng(seed)
    factors = factors_of(generator, spread)
    log_table = whole(factors)
    factors.append(((), np.array(-log_table.max())))
    table = np.exp(log_table - log_table.max())
    weight = None
    if weighted:
        values = generator.random((3, 8)) * (generator.random((3, 8)) > 0.3)
        weight = (("a", "b"), values)
        table = table * values[:, :, None, None, None]
    plan = ContractionTree(COLUMNS, SHAPE)
    asked = [(), *PAIRS, ("a", "b", "d", "e"), ("e", "c")]
    found = plan.sums(factors, asked, weight)
    if spread < 10:  # beyond that floats may not hold the products
        assert plan._contracted(factors, frozenset(map(plan._axes, asked)), weight) is not None
    for clique in asked:
        gone = tuple(axis for axis, name in enumerate(COLUMNS) if name not in clique)
        wanted = table.sum(axis=gone)
        wanted = wanted.T if clique == ("e", "c") else wanted
        np.testing.assert_allclose(found[clique], wanted, rtol=1e-10, atol=1e-40)


def test_what_floats_do_not_hold_is_left_to_the_blocks() -> None:
    """Two factors that cancel each other: each alone would overflow relative to its largest value."""
    one, other = np.zeros((10, 11)), np.zeros((9, 11))
    one[:, 3], other[:, 3] = 900.0, -900.0
    one[:, 5], other[:, 5] = -900.0, 900.0
    factors = [(("d", "e"), one), (("c", "e"), other)]
    plan = ContractionTree(COLUMNS, SHAPE)
    assert plan._contracted(factors, frozenset({(2, 3)}), None) is None
    found = plan.sums(factors, [("c", "d")])[("c", "d")]
    np.testing.assert_allclose(found, np.full((9, 10), prod(SHAPE) / 90), rtol=1e-12)


def test_no_axes_are_found_where_a_factor_has_all_of_every_three() -> None:
    assert three_axes(SHAPE, frozenset({(0, 1, 2, 3, 4)})) is None
    assert three_axes(SHAPE, frozenset({(0, 1, 2, 3), (3, 4)})) == (2, 3, 4)
    assert three_axes((2, 2, 2, 2), frozenset({(0, 1)})) is None  # a small table: blocks are as fast


def test_every_factor_goes_to_a_part_that_lacks_one_of_the_three() -> None:
    sets = frozenset({(0, 1, 2, 3), (3, 4), (2, 4), (2, 3), (0,), ()})
    place_of = lacking((2, 3, 4), sets, SHAPE)
    assert all((2, 3, 4)[place] not in axes for axes, place in place_of.items())
    assert place_of[(0, 1, 2, 3)] == 2


@pytest.mark.parametrize("most", [1, 1 << 10, 1 << 30])
def test_how_the_products_are_cut_changes_nothing(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One product a cell of what is summed over, some, or all of it in one product."""
    generator = np.random.default_rng(5)
    parts = [generator.normal(size=shape) for shape in ((1, 8, 1, 10, 11), (1, 8, 9, 1, 11), (3, 1, 9, 10, 1))]
    monkeypatch.setattr(contraction, "MOST_MULTIPLICATIONS", most)
    found = sum_onto(parts, (2, 3, 4), 0, (1, 3, 4))
    assert found is not None
    np.testing.assert_allclose(found, np.exp(parts[0] + parts[1] + parts[2]).sum(axis=(0, 2)), rtol=1e-12)
