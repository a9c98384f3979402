"""Models against their joint table: marginals, sums by matrix products, and columns drawn given others."""

import hashlib
from itertools import combinations, permutations
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privacy.arrays import Floats
from privacy.marginals import inference
from privacy.marginals.blocks import NothingPossible
from privacy.marginals.graph import CellDomain
from privacy.marginals.inference import (
    BeliefPropagation,
    ContractionTree,
    GraphicalModel,
    lacking,
    sum_onto,
    three_axes,
)
from privacy.marginals.model import conditional_columns, conditional_megabytes, draw_given, elimination
from privacy.marginals.portable import PostProcessingSeed
from tests.privacy.marginals.random_models import joint, models, random_model, summed


@pytest.mark.long
@settings(max_examples=300, deadline=None)
@given(models())
def test_every_marginal_is_that_of_the_joint_table(model: GraphicalModel):
    """All cliques of up to four columns, in and across the nodes of the tree, with impossible cells."""
    table = joint(model)
    cliques = [clique for size in range(5) for clique in combinations(model.domain.columns, size)]
    for clique, found in zip(cliques, model.marginals(cliques), strict=True):
        np.testing.assert_allclose(found, summed(table, model.domain, clique), atol=1e-9 * model.total)


@settings(max_examples=50, deadline=None)
@given(models())
def test_the_axes_follow_the_asked_order(model: GraphicalModel):
    """A permuted clique gives the transposed table."""
    for clique in permutations(model.domain.columns[:3]):
        np.testing.assert_allclose(model.marginal(clique), summed(joint(model), model.domain, clique), atol=1e-6)


def test_changing_one_factor_gives_what_a_new_tree_gives():
    """Kept messages are those that do not depend on the change."""
    domain = CellDomain(tuple("abcdef"), (2, 3, 2, 4, 3, 2))
    cliques = (("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("f",))
    model, other = (random_model(domain, cliques, seed) for seed in (1, 2))
    propagation = BeliefPropagation(model.tree, model.factors)
    propagation.of_factor(("a", "b"))
    factors = dict(model.factors)
    for clique in cliques:
        factors[clique] = other.factors[clique]
        propagation.update({clique: factors[clique]})
        fresh = BeliefPropagation(model.tree, factors)
        for asked in cliques:
            np.testing.assert_allclose(propagation.of_factor(asked), fresh.of_factor(asked), rtol=1e-12)
        assert propagation.log_partition == pytest.approx(fresh.log_partition, rel=1e-12)


def test_potentials_of_any_size_stay_finite():
    """Two cliques that want opposite ends by 10,000 nats."""
    domain = CellDomain(("a", "b", "c"), (3, 3, 3))
    pull = np.diag([0.0, 5e3, 1e4])
    model = GraphicalModel(domain, (("a", "b"), ("b", "c")), (pull, -pull), 10.0)
    found = model.marginals([("a",), ("a", "c"), ("b", "c")])
    assert all(np.isfinite(values).all() for values in found)
    np.testing.assert_allclose([values.sum() for values in found], 10.0)


def test_nothing_possible_is_said():
    """Contradicting structural zeros have no marginals."""
    domain = CellDomain(("a", "b"), (2, 2))
    first = np.array([0.0, -np.inf])
    model = GraphicalModel(domain, (("a",), ("a", "b")), (first, np.array([[-np.inf] * 2, [0.0, 0.0]])), 5.0)
    with pytest.raises(NothingPossible):
        model.marginal(("b",))


@pytest.mark.parametrize("bad", [np.array([np.nan, 0.0]), np.array([np.inf, 0.0]), np.zeros(3)])
def test_bad_potentials_are_refused(bad: np.ndarray):
    """NaN, plus infinity, a wrong shape."""
    with pytest.raises(ValueError, match="potential"):
        GraphicalModel(CellDomain(("a",), (2,)), (("a",),), (bad,), 1.0)


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
def test_sums_are_those_of_the_whole_table(seed: int, spread: float, weighted: bool):
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


def test_what_floats_do_not_hold_is_left_to_the_blocks():
    """Two factors that cancel each other: each alone would overflow relative to its largest value."""
    one, other = np.zeros((10, 11)), np.zeros((9, 11))
    one[:, 3], other[:, 3] = 900.0, -900.0
    one[:, 5], other[:, 5] = -900.0, 900.0
    factors = [(("d", "e"), one), (("c", "e"), other)]
    plan = ContractionTree(COLUMNS, SHAPE)
    assert plan._contracted(factors, frozenset({(2, 3)}), None) is None
    found = plan.sums(factors, [("c", "d")])[("c", "d")]
    np.testing.assert_allclose(found, np.full((9, 10), prod(SHAPE) / 90), rtol=1e-12)


def test_no_axes_are_found_where_a_factor_has_all_of_every_three():
    assert three_axes(SHAPE, frozenset({(0, 1, 2, 3, 4)})) is None
    assert three_axes(SHAPE, frozenset({(0, 1, 2, 3), (3, 4)})) == (2, 3, 4)
    assert three_axes((2, 2, 2, 2), frozenset({(0, 1)})) is None  # a small table: blocks are as fast


def test_every_factor_goes_to_a_part_that_lacks_one_of_the_three():
    sets = frozenset({(0, 1, 2, 3), (3, 4), (2, 4), (2, 3), (0,), ()})
    place_of = lacking((2, 3, 4), sets, SHAPE)
    assert all((2, 3, 4)[place] not in axes for axes, place in place_of.items())
    assert place_of[(0, 1, 2, 3)] == 2


@pytest.mark.parametrize("most", [1, 1 << 10, 1 << 30])
def test_how_the_products_are_cut_changes_nothing(most: int, monkeypatch: pytest.MonkeyPatch):
    """One product a cell of what is summed over, some, or all of it in one product."""
    generator = np.random.default_rng(5)
    parts = [generator.normal(size=shape) for shape in ((1, 8, 1, 10, 11), (1, 8, 9, 1, 11), (3, 1, 9, 10, 1))]
    monkeypatch.setattr(inference, "MOST_MULTIPLICATIONS", most)
    found = sum_onto(parts, (2, 3, 4), 0, (1, 3, 4))
    assert found is not None
    np.testing.assert_allclose(found, np.exp(parts[0] + parts[1] + parts[2]).sum(axis=(0, 2)), rtol=1e-12)


DOMAIN = CellDomain(("age", "work", "pay", "region", "size"), (3, 2, 4, 2, 3))
CLIQUES = (("age", "work"), ("work", "pay"), ("age", "pay"), ("pay", "region"), ("age", "size"))
GIVEN = ("region", "size")


def model(seed: int = 1) -> GraphicalModel:
    chance = np.random.default_rng(seed)
    potentials = tuple(chance.normal(size=DOMAIN.sizes(clique)) for clique in CLIQUES)
    return GraphicalModel(DOMAIN, CLIQUES, potentials, 1000.0)


def joint_table(made: GraphicalModel) -> np.ndarray:
    logs = np.zeros(DOMAIN.shape)
    for clique, values in made.factors.items():
        shape = [size if name in clique else 1 for name, size in zip(DOMAIN.columns, DOMAIN.shape, strict=True)]
        logs = logs + values.reshape(shape)
    whole = np.exp(logs)
    return np.asarray(whole / whole.sum())


def test_the_steps_multiply_to_the_conditional_distribution():
    """Cell by cell, against the full table: a factor that was lost, or a parent's that was counted, would show."""
    made = model()
    columns = conditional_columns(made, GIVEN)
    product = np.ones(DOMAIN.shape)
    for step in columns.steps:
        weights = step.weights / step.weights.sum(axis=1, keepdims=True)
        table = weights.reshape((*step.shape, weights.shape[1]))
        names = (*step.known, step.column)
        order = np.argsort([DOMAIN.place(name) for name in names])
        shape = [size if name in names else 1 for name, size in zip(DOMAIN.columns, DOMAIN.shape, strict=True)]
        product = product * table.transpose(order).reshape(shape)
    whole = joint_table(made)
    expected = whole / whole.sum(axis=(0, 1, 2), keepdims=True)
    assert np.abs(product - expected).max() < 1e-9


def test_rows_follow_the_conditional_whatever_the_given_columns_are():
    """20,000 rows of each given cell: 0.02 is 5.6 deviations of a share of a half, and the seed is fixed."""
    made, rows = model(2), 60_000
    expected = joint_table(made)
    for region in range(2):
        known = {"region": np.full(rows, region), "size": np.arange(rows) % 3}
        codes = draw_given(conditional_columns(made, GIVEN), known, rows, seed=PostProcessingSeed(5))
        for size in range(3):
            one = known["size"] == size
            table = expected[:, :, :, region, size]
            for axis, name in enumerate(("age", "work", "pay")):
                others = tuple(place for place in range(3) if place != axis)
                share = np.bincount(codes[name][one], minlength=table.shape[axis]) / one.sum()
                assert np.abs(share - table.sum(axis=others) / table.sum()).max() < 0.02


def test_the_same_bytes():
    """Golden digest: another order of elimination, or of streams, would be another release."""
    known = {"region": np.arange(500) % 2, "size": np.arange(500) % 3}
    codes = draw_given(conditional_columns(model(3), GIVEN), known, 500, seed=PostProcessingSeed(11))
    stacked = np.stack([codes[name] for name in DOMAIN.columns]).astype("<i8")
    again = draw_given(conditional_columns(model(3), GIVEN), known, 500, seed=PostProcessingSeed(11))
    assert all(np.array_equal(codes[name], again[name]) for name in DOMAIN.columns)
    assert hashlib.sha256(stacked.tobytes()).hexdigest()[:16] == "073d8e54e47f4fad"


def test_a_given_row_without_any_possible_other_is_refused():
    zeros = np.zeros((4, 2))
    zeros[:, 1] = -np.inf
    made = GraphicalModel(DOMAIN, (("pay", "region"),), (zeros,), 1.0)
    columns = conditional_columns(made, GIVEN)
    known = {"region": np.array([0, 1]), "size": np.array([0, 0])}
    with pytest.raises(NothingPossible):
        draw_given(columns, known, 2, seed=PostProcessingSeed(1))
    assert len(
        draw_given(columns, {"region": np.zeros(1, int), "size": np.zeros(1, int)}, 1, seed=PostProcessingSeed(1))
    )


def test_given_columns_are_never_eliminated():
    """Of a chain each column depends on one other; the memory is that of these tables."""
    chain = [("age", "work"), ("work", "pay"), ("pay", "region")]
    order = list(elimination(DOMAIN, chain, GIVEN))
    assert {column for column, _ in order} == {"age", "work", "pay"}
    assert all(len(known) <= 1 for _, known in order)
    assert conditional_megabytes(DOMAIN, chain, GIVEN) == 8 * (3 * 2 + 2 * 4 + 4 * 2) / 2**20
