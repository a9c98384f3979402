"""The search's approximate inverse: exact where it can be, and worth its price."""

from itertools import combinations

import numpy as np
import pytest

from privacy.marginals import estimation as quasi_newton
from privacy.marginals.estimation import Measured, Redundancy, Scaling, estimate, product, shared_columns
from privacy.marginals.graph import CellDomain
from tests.privacy.marginals.random_models import joint, random_model, summed


def test_shared_columns_are_singles_and_common_sets():
    """Columns of one clique alone are not shared; a clique inside another is."""
    cliques = [("a", "b", "c"), ("b", "c", "d"), ("d",), ("e", "f")]
    assert shared_columns(cliques) == [("b",), ("c",), ("d",), ("b", "c")]


def test_the_inverse_is_exact_for_copies_of_one_column():
    """Three cliques that are one column seen through one-cell columns: the second derivative is m 11ᵀ + ridge."""
    domain = CellDomain(("a", "p", "q"), (3, 1, 1))
    cliques = [("a",), ("a", "p"), ("a", "q")]
    redundancy = Redundancy(domain, cliques, [slice(0, 3), slice(3, 6), slice(6, 9)])
    counts, ridge = np.array([5.0, 1.0, 40.0]), np.repeat([0.5, 2.0, 7.0], 3)
    exact = np.kron(np.ones((3, 3)), np.diag(counts)) + np.diag(ridge)
    scaling = redundancy.scaled(np.tile(counts, 3), ridge)
    gradient = np.random.default_rng(1).normal(size=9)
    np.testing.assert_allclose(exact @ scaling(gradient), gradient, atol=1e-12)


@pytest.mark.long
def test_without_what_is_shared_the_search_is_several_times_longer(monkeypatch: pytest.MonkeyPatch):
    """All pairs of six columns, little noise: iterations with the inverse and with a cell-by-cell scaling."""
    domain = CellDomain(tuple("abcdef"), (3, 4, 5, 2, 3, 4))
    generator = np.random.default_rng(2)
    pairs = tuple(combinations(domain.columns, 2))
    truth = joint(random_model(domain, pairs, 4)) * 50
    measured = [
        Measured(pair, np.rint(summed(truth, domain, pair) + generator.normal(size=domain.sizes(pair))), 1.0)
        for pair in pairs
    ]
    quick = estimate(domain, measured, total=truth.sum())
    monkeypatch.setattr(Scaling, "__call__", lambda self, gradient: gradient / self._weight)
    slow = estimate(domain, measured, total=truth.sum())
    assert quick.converged
    assert 2 * quick.iterations < slow.iterations


def test_the_recursion_is_the_inverse_on_what_it_remembers():
    """After a full set of steps on a quadratic the product solves it (the secant equations)."""
    generator = np.random.default_rng(3)
    root = generator.normal(size=(6, 6))
    matrix = root @ root.T + np.eye(6)
    moved = [generator.normal(size=6) for _ in range(3)]
    changes = [(step, matrix @ step, 1.0 / float(step @ matrix @ step)) for step in moved]
    found = product(matrix @ moved[-1], changes, lambda gradient: gradient)
    np.testing.assert_allclose(found, moved[-1], atol=1e-10)
    assert quasi_newton.MEMORY >= 10
