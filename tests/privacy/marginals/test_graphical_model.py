"""Marginals of a model are those of its joint table, whatever the cliques."""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings

from privacy.marginals.blocks import NothingPossible
from privacy.marginals.graph import CellDomain
from privacy.marginals.inference import BeliefPropagation, GraphicalModel
from tests.privacy.marginals.random_models import joint, models, random_model, summed


@pytest.mark.long
@settings(max_examples=300, deadline=None)
@given(models())
def test_every_marginal_is_that_of_the_joint_table(model: GraphicalModel) -> None:
    """All cliques of up to four columns, in and across the nodes of the tree, with impossible cells."""
    table = joint(model)
    cliques = [clique for size in range(5) for clique in combinations(model.domain.columns, size)]
    for clique, found in zip(cliques, model.marginals(cliques), strict=True):
        np.testing.assert_allclose(found, summed(table, model.domain, clique), atol=1e-9 * model.total)


@settings(max_examples=50, deadline=None)
@given(models())
def test_the_axes_follow_the_asked_order(model: GraphicalModel) -> None:
    """A permuted clique gives the transposed table."""
    for clique in permutations(model.domain.columns[:3]):
        np.testing.assert_allclose(model.marginal(clique), summed(joint(model), model.domain, clique), atol=1e-6)


def test_changing_one_factor_gives_what_a_new_tree_gives() -> None:
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


def test_potentials_of_any_size_stay_finite() -> None:
    """Two cliques that want opposite ends by 10,000 nats."""
    domain = CellDomain(("a", "b", "c"), (3, 3, 3))
    pull = np.diag([0.0, 5e3, 1e4])
    model = GraphicalModel(domain, (("a", "b"), ("b", "c")), (pull, -pull), 10.0)
    found = model.marginals([("a",), ("a", "c"), ("b", "c")])
    assert all(np.isfinite(values).all() for values in found)
    np.testing.assert_allclose([values.sum() for values in found], 10.0)


def test_nothing_possible_is_said() -> None:
    """Contradicting structural zeros have no marginals."""
    domain = CellDomain(("a", "b"), (2, 2))
    first = np.array([0.0, -np.inf])
    model = GraphicalModel(domain, (("a",), ("a", "b")), (first, np.array([[-np.inf] * 2, [0.0, 0.0]])), 5.0)
    with pytest.raises(NothingPossible):
        model.marginal(("b",))


def test_the_digest_depends_on_every_bit() -> None:
    """Equal models have equal digests; the smallest change of a potential shows."""
    domain = CellDomain(("a", "b"), (2, 3))
    model, same = (random_model(domain, (("a", "b"),), 3) for _ in range(2))
    changed = np.nextafter(model.potentials[0], 9.0)
    assert model.digest() == same.digest()
    assert model.digest() != GraphicalModel(domain, model.cliques, (changed,), model.total).digest()


@pytest.mark.parametrize("bad", [np.array([np.nan, 0.0]), np.array([np.inf, 0.0]), np.zeros(3)])
def test_bad_potentials_are_refused(bad: np.ndarray) -> None:
    """NaN, plus infinity, a wrong shape."""
    with pytest.raises(ValueError, match="potential"):
        GraphicalModel(CellDomain(("a",), (2,)), (("a",),), (bad,), 1.0)
