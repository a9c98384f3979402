"""The largest variance of a set of tables: near the bound, and near what a search without the bound finds."""

from fractions import Fraction
from itertools import combinations
from math import exp, prod, sqrt

import numpy as np
import pytest
from scipy.optimize import minimize

from contracts.contract.contract import Adjacency
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace
from privacy.marginals.count_noise import half_width, variance
from privacy.marginals.residual_basis import residual_moves
from privacy.marginals.residuals import WORST_VARIANCE_LEAST_BITS as LEAST_BITS
from privacy.marginals.residuals import (
    Workload,
    cell_covariance,
    cost_factor,
    optimal_residuals,
    residual_variances,
    subsets,
    worst_case_workload,
)

ADULT = {"age": 9, "work": 8, "edu": 16, "marital": 7, "job": 15, "race": 5, "sex": 2, "hours": 10, "income": 2}


def _workload(sizes: dict[str, int], tables: tuple[tuple[str, ...], ...], seed: int | None = None) -> Workload:
    source = np.random.default_rng(seed)
    weights = tuple(Fraction(1) if seed is None else Fraction(int(source.integers(1, 100)), 10) for _ in tables)
    return Workload(tuple(sizes.items()), tables, weights)


def _all(sizes: dict[str, int], ways: tuple[int, ...]) -> tuple[tuple[str, ...], ...]:
    return tuple(table for size in ways for table in combinations(sizes, size))


def _worst(workload: Workload, shared: Workload, adjacency: Adjacency, *, public: bool) -> float:
    """The largest weighted variance of what is measured for other weights, at a cost of one half."""
    measured = optimal_residuals(shared, adjacency=adjacency, total_is_public=public, least_bits=LEAST_BITS)
    norm = sum(move**2 for move in residual_moves(measured, adjacency, 1))
    variances = residual_variances(measured, Fraction(norm))
    pairs = zip(workload.tables, workload.weights, strict=True)
    return float(max(w * cell_covariance(t, workload.sizes, variances, same=set(t)) for t, w in pairs))


@pytest.mark.parametrize(
    ("adjacency", "public"), [("add_remove", False), ("replace_one", False), ("replace_one", True)]
)
@pytest.mark.parametrize(
    ("sizes", "ways", "seed"),
    [
        (ADULT, (2,), None),
        (ADULT, (1, 2, 3), None),
        (ADULT, (1, 2, 3), 7),
        ({"a": 2, "one": 1, "b": 30}, (1, 2), 3),
        ({f"x{number}": 2 for number in range(14)}, (1, 2), None),
    ],
)
def test_the_largest_variance_is_within_a_part_in_two_hundred_of_the_bound(
    sizes: dict[str, int], ways: tuple[int, ...], seed: int | None, adjacency: Adjacency, public: bool
):
    """Whole-number multipliers included; nothing is below the bound, and the sum's own plan is above."""
    workload = _workload(sizes, _all(sizes, ways), seed)
    shared, bound = worst_case_workload(workload, adjacency=adjacency, total_is_public=public)
    found = _worst(workload, shared, adjacency, public=public)
    assert bound * (1 - 1e-9) <= found
    paid = _paid(workload, shared, adjacency, public=public)
    assert 1 - 1e-9 <= found / paid <= 1.005
    assert adjacency == "replace_one" or bound == pytest.approx(paid)
    assert _worst(workload, workload, adjacency, public=public) >= bound * (1 - 1e-9)


def _paid(workload: Workload, shared: Workload, adjacency: Adjacency, *, public: bool) -> float:
    """Return h squared at the weights found: the least of plans that pay for each residual by its largest move."""
    mixture = [
        float(share / weight) * prod(workload.sizes[name] for name in table)
        for share, weight, table in zip(shared.weights, workload.weights, workload.tables, strict=True)
    ]
    height = 0.0
    for part in workload.gains():
        shape = [workload.sizes[name] for name in part]
        spread = prod(1 - 1 / cells for cells in shape)
        adds = sum(
            part_of
            / sum(mixture)
            * float(weight)
            * spread
            / prod(workload.sizes[name] for name in table if name not in part) ** 2
            for part_of, weight, table in zip(mixture, workload.weights, workload.tables, strict=True)
            if set(part) <= set(table)
        )
        if part or not public:
            height += sqrt(spread * float(cost_factor(shape, adjacency)) * adds)
    return height**2


@pytest.mark.parametrize("seed", range(3))
def test_a_search_over_all_precisions_finds_nothing_better(seed: int):
    """A second minimum, of a smooth maximum over the variances themselves: neither below the bound nor far above."""
    sizes = {"a": 2, "b": 3, "c": 4}
    tables = (("a", "b"), ("b", "c"), ("a",), ("c",))
    workload = _workload(sizes, tables, seed)
    _, bound = worst_case_workload(workload, adjacency="add_remove", total_is_public=False)
    parts = sorted({part for table in tables for part in subsets(table)}, key=len)
    cost = [prod(1 - 1 / sizes[name] for name in part) for part in parts]

    def largest(logs: np.ndarray, sharp: float | None) -> float:
        shares = np.exp(logs) / np.exp(logs).sum()
        s = {part: p / share for part, p, share in zip(parts, cost, shares, strict=True)}
        values = np.array(
            [
                float(w)
                * sum(
                    s[part]
                    * prod(1 - 1 / sizes[n] for n in part)
                    / prod(sizes[n] for n in table if n not in part) ** 2
                    for part in subsets(table)
                )
                for table, w in zip(tables, workload.weights, strict=True)
            ]
        )
        if sharp is None:
            return float(values.max())
        return float(values.max() + np.log(np.exp(sharp * (values - values.max())).sum()) / sharp)

    start = np.zeros(len(parts))
    for sharp in (3.0, 30.0, 300.0, 3000.0):
        start = minimize(lambda logs, sharp=sharp: largest(logs, sharp), start, method="BFGS").x
    assert bound * (1 - 1e-9) <= largest(start, None) <= bound * 1.003


def test_the_bound_is_above_what_any_one_table_needs():
    """No plan for all tables is better for one of them than a plan for that one: the bound knows of all of them."""
    workload = _workload(ADULT, _all(ADULT, (1, 2, 3)))
    _, bound = worst_case_workload(workload, adjacency="add_remove", total_is_public=False)
    alone = []
    for table in workload.tables:
        _, own = worst_case_workload(
            Workload(workload.cells, (table,), (Fraction(1),)), adjacency="add_remove", total_is_public=False
        )
        alone.append(own)
    assert max(alone) < 0.5 * bound


LAPLACE = [DiscreteLaplace(Fraction(t).limit_denominator(10**6), (1,)) for t in (0.02, 0.1, 0.5, 1, 3, 12)]
GAUSSIAN = [DiscreteGaussian(Fraction(s).limit_denominator(10**6), (1,)) for s in (0.05, 0.5, 2, 30, 4000, 9000)]


def mass(event: DiscreteLaplace | DiscreteGaussian) -> tuple[np.ndarray, np.ndarray]:
    """The distribution by its definition, on a support that holds all but 1e-30 of it."""
    support = np.arange(-4000, 4001)
    if isinstance(event, DiscreteLaplace):
        weight = exp(-float(event.inverse_scale)) ** np.abs(support)
    else:
        weight = np.exp(-(support.astype(float) ** 2) / (2 * float(event.sigma_squared)))
    return support, weight / weight.sum()


@pytest.mark.parametrize("event", LAPLACE + GAUSSIAN)
def test_the_variance_is_that_of_the_distribution(event: DiscreteLaplace | DiscreteGaussian):
    support, weight = mass(event)
    assert variance(event) == pytest.approx(float(np.sum(weight * support**2)), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999])
@pytest.mark.parametrize("event", LAPLACE + GAUSSIAN)
def test_the_half_width_is_the_smallest_that_covers(event: DiscreteLaplace | DiscreteGaussian, confidence: float):
    support, weight = mass(event)
    q = half_width(event, confidence)
    assert weight[np.abs(support) <= q].sum() >= confidence - 1e-9
    if q and variance(event) < 64**2:
        assert weight[np.abs(support) < q].sum() < confidence


def test_a_confidence_outside_its_range_is_refused():
    for confidence in (0, 1, -0.5, 2):
        with pytest.raises(ValueError, match="confidence"):
            half_width(LAPLACE[0], confidence)
