"""The fitted model is the optimum of the loss, at every noise level."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize, nnls

from contracts.contract.impossible_cells import Clique
from privacy.arrays import Floats
from privacy.marginals.blocks import ModelTooLarge, NothingPossible
from privacy.marginals.estimation import Measured, StructuralZeros, combine, estimate, estimate_total
from privacy.marginals.graph import CellDomain
from tests.privacy.marginals.random_models import joint, random_model, summed

ABC = CellDomain(("a", "b", "c"), (2, 3, 4))


def loss_of(table: Floats, domain: CellDomain, measurements: list[Measured]) -> float:
    return sum(
        float(((summed(table, domain, one.clique) - one.values) ** 2).sum()) / (2 * one.variance)
        for one in measurements
    )


def best_loss(
    domain: CellDomain, measurements: list[Measured], total: float, possible: Floats | None = None
) -> float:
    """The smallest loss over all joint tables: non-negative least squares with the total as a very heavy row."""
    cells = domain.cells()
    rows, wanted = [], []
    for one in measurements:
        for cell in range(one.values.size):
            indicator = np.zeros(one.values.size)
            indicator[cell] = 1.0
            shape = [
                size if name in one.clique else 1 for name, size in zip(domain.columns, domain.shape, strict=True)
            ]
            table = np.broadcast_to(indicator.reshape(shape), domain.shape)
            rows.append(table.reshape(-1) / np.sqrt(2 * one.variance))
            wanted.append(one.values.reshape(-1)[cell] / np.sqrt(2 * one.variance))
    heavy = 1e5 * max(abs(np.array(rows)).max(), 1e-3)
    matrix = np.vstack([*rows, np.full(cells, heavy)])
    if possible is not None:
        matrix = matrix[:, possible.reshape(-1)]
    return float(nnls(matrix, np.array([*wanted, heavy * total]))[1] ** 2)


def penalised(table: Floats, domain: CellDomain, measurements: list[Measured], temperature: float) -> float:
    """What is minimised, on a whole joint table of positive cells."""
    total = table.sum()
    share = table[table > 0] / total
    return loss_of(table, domain, measurements) + temperature * float(total) * float(share @ np.log(share))


def noisy(
    truth: Floats, domain: CellDomain, clique: Clique, variance: float, generator: np.random.Generator
) -> Measured:
    noise = np.sqrt(variance) * generator.normal(size=domain.sizes(clique))
    return Measured(clique, np.rint(summed(truth, domain, clique) + noise), variance)


PAIRS_AND_MORE = [("a",), ("b",), ("a", "b"), ("b", "c"), ("a", "c"), ("a", "b", "c")]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32),
    st.sampled_from([1e-4, 1.0, 1e4]),
    st.lists(st.sampled_from(PAIRS_AND_MORE), min_size=1, max_size=5),
)
def test_the_loss_is_that_of_the_best_table(seed: int, variance: float, cliques: list[Clique]):
    """Against non-negative least squares over the joint table, which knows nothing of potentials. The entropy term
    can cost at most temperature · total · log(cells), and the gap comes on top."""
    generator = np.random.default_rng(seed)
    truth = joint(random_model(ABC, (("a", "b", "c"),), seed))
    measured = [noisy(truth, ABC, one, variance * float(generator.choice([1.0, 4.0])), generator) for one in cliques]
    found = estimate(ABC, measured, total=truth.sum())
    best = best_loss(ABC, measured, float(truth.sum()))
    loss = loss_of(joint(found.model), ABC, measured)
    assert found.converged
    assert best - 1e-3 * (1 + best) <= loss
    assert loss <= best * (1 + 1e-3) + found.temperature * truth.sum() * np.log(24) + found.gap


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 2**32),
    st.sampled_from([1.0, 100.0]),
    st.lists(st.sampled_from(PAIRS_AND_MORE), min_size=1, max_size=4, unique=True),
)
def test_what_is_minimised_is_what_a_general_solver_minimises(seed: int, variance: float, cliques: list[Clique]):
    """Sequential quadratic programming over the joint table; the gap bounds the difference."""
    generator = np.random.default_rng(seed)
    truth = joint(random_model(ABC, (("a", "b", "c"),), seed))
    total = float(truth.sum())
    measured = [noisy(truth, ABC, clique, variance, generator) for clique in cliques]
    found = estimate(ABC, measured, total=total, steps=1, temperature=1 / variance**0.5, tolerance=1e-6)
    solved = minimize(
        lambda share: penalised(total * share.reshape(ABC.shape), ABC, measured, found.temperature),
        np.full(24, 1 / 24),
        method="SLSQP",
        bounds=[(1e-12, 1.0)] * 24,
        constraints={"type": "eq", "fun": lambda share: share.sum() - 1},
        options={"maxiter": 500, "ftol": 1e-12},
    )
    ours = penalised(joint(found.model), ABC, measured, found.temperature)
    assert ours <= solved.fun + found.gap + 1e-6 * (1 + abs(solved.fun))


def test_a_warm_start_changes_the_way_and_not_the_answer():
    """From the model before the last pair, from nothing, and from a wrong model."""
    generator = np.random.default_rng(5)
    truth = joint(random_model(ABC, (("a", "b", "c"),), 5)) * 100
    measured = [noisy(truth, ABC, pair, 25.0, generator) for pair in combinations(ABC.columns, 2)]
    before = estimate(ABC, measured[:-1], total=truth.sum()).model
    wrong = random_model(ABC, (("a", "b"), ("b", "c")), 9, scale=5.0)
    tables = [
        estimate(ABC, measured, total=truth.sum(), start=start, tolerance=1e-6).model.marginal(ABC.columns)
        for start in (None, before, wrong)
    ]
    np.testing.assert_allclose(tables[1], tables[0], atol=0.05)
    np.testing.assert_allclose(tables[2], tables[0], atol=0.05)


def test_no_measurement_gives_the_uniform_table():
    """Also under structural zeros, uniform over what is possible."""
    found = estimate(ABC, [], total=24.0)
    np.testing.assert_allclose(found.model.marginal(("a", "b", "c")), 1.0)
    diagonal = np.eye(2, 3, dtype=bool)
    zeros = [StructuralZeros(("a", "b"), diagonal)]
    table = estimate(ABC, [], total=16.0, structural_zeros=zeros).model.marginal(("a", "b"))
    np.testing.assert_allclose(table, np.where(diagonal, 0.0, 4.0))


def test_structural_zeros_hold_exactly_and_are_fitted_around():
    """A measured pair with two impossible cells, the mask given with its columns the other way round."""
    impossible = np.zeros((3, 2), dtype=bool)
    impossible[0, 1] = impossible[2, 0] = True
    measured = [Measured(("a", "b"), np.array([[10, 20, 5], [3, 40, 30]]), 1.0)]
    found = estimate(ABC, measured, total=100.0, structural_zeros=[StructuralZeros(("b", "a"), impossible)])
    table = found.model.marginal(("a", "b"))
    assert (table[impossible.T] == 0).all()
    np.testing.assert_allclose(table[~impossible.T], [10.0, 20.0, 40.0, 30.0], atol=0.2)


def test_contradictory_measurements_meet_in_the_weighted_mean():
    """Twice the same table, variances 1 and 3."""
    measured = [Measured(("a",), np.array([60, 40]), 1.0), Measured(("a",), np.array([20, 80]), 3.0)]
    found = estimate(ABC, measured, total=100.0, tolerance=1e-4)
    np.testing.assert_allclose(found.model.marginal(("a",)), [50.0, 50.0], atol=0.1)


def test_the_total_is_weighted_by_inverse_variances_of_the_sums():
    """Sums 100 with variance 2 and 130 with variance 3 · 2 = 6: (100/2 + 130/6) / (1/2 + 1/6) = 107.5."""
    measured = [Measured(("a",), np.array([60, 40]), 1.0), Measured(("b",), np.array([60, 40, 30]), 2.0)]
    assert estimate_total(measured) == pytest.approx(107.5)
    assert estimate_total([Measured((), np.array(-5), 1.0)]) == 0.0
    assert estimate(ABC, measured).model.total == pytest.approx(107.5)


def test_a_total_alone_and_a_total_of_zero():
    """A measured total says nothing about the shape; without rows every marginal is zero."""
    found = estimate(ABC, [Measured((), np.array(48), 1.0)])
    np.testing.assert_allclose(found.model.marginal(("b",)), 16.0)
    empty = estimate(ABC, [Measured(("a",), np.array([-3, 2]), 4.0)], total=0)
    np.testing.assert_array_equal(empty.model.marginal(("a", "c")), 0.0)


def test_measurements_of_one_clique_are_combined():
    """In any order of its columns; the loss keeps its shape."""
    table = np.arange(6.0).reshape(2, 3)
    merged = combine(ABC, [Measured(("a", "b"), table, 2.0), Measured(("b", "a"), table.T + 3, 1.0)])
    values, variance = merged[("a", "b")]
    np.testing.assert_allclose(values, table + 2)
    assert variance == pytest.approx(2 / 3)


def test_one_category_and_disconnected_columns():
    """A constant column adds nothing, columns in no measurement stay uniform."""
    domain = CellDomain(("k", "x", "y", "z"), (1, 2, 2, 3))
    measured = [Measured(("k", "x"), np.array([[30, 70]]), 1.0), Measured(("z",), np.array([50, 30, 20]), 1.0)]
    model = estimate(domain, measured, total=100, tolerance=1e-5).model
    expected = np.einsum("x,y,z->xyz", [0.3, 0.7], [0.5, 0.5], [50.0, 30.0, 20.0])
    np.testing.assert_allclose(model.marginal(("x", "y", "z")), expected, atol=0.05)


def test_bad_input_is_refused_by_name():
    """Unknown columns, wrong shapes, bad numbers, a model above the cap, nothing possible."""
    with pytest.raises(ValueError, match="no column 'q'"):
        estimate(ABC, [Measured(("q",), np.zeros(2), 1.0)])
    with pytest.raises(ValueError, match="a have shape"):
        estimate(ABC, [Measured(("a",), np.zeros(3), 1.0)])
    with pytest.raises(ValueError, match="variance of a"):
        Measured(("a",), np.zeros(2), 0.0)
    with pytest.raises(ValueError, match="values of a"):
        Measured(("a",), np.array([1.0, np.nan]), 1.0)
    with pytest.raises(ModelTooLarge):
        estimate(ABC, [Measured(("a", "b"), np.zeros((2, 3)), 1.0)], total=5, cap_mb=1e-6)
    with pytest.raises(NothingPossible):
        estimate(ABC, [], total=5, structural_zeros=[StructuralZeros(("a",), np.ones(2, dtype=bool))])


@pytest.mark.parametrize("variance", [1e-4, 1e-2, 1.0, 1e4, 1e8])
@pytest.mark.parametrize("total", [1, 1000, 10_000_000])
def test_no_noise_level_stalls(variance: float, total: int):
    """All pairs of three columns, skewed counts, from next to no noise to noise above the total."""
    generator = np.random.default_rng(7)
    truth = joint(random_model(ABC, (("a", "b", "c"),), 3, scale=2.0))
    truth *= total / truth.sum()
    measured = [noisy(truth, ABC, pair, variance, generator) for pair in combinations(ABC.columns, 2)]
    found = estimate(ABC, measured, total=total)
    assert found.converged
    assert found.iterations < 500
    best = best_loss(ABC, measured, float(total))
    assert found.loss <= best * (1 + 1e-3) + found.temperature * total * np.log(24) + found.gap


def test_noise_of_very_different_sizes_is_weighed():
    """A pair measured to within a hundredth of a row beside one-way tables with noise of 10,000: the pair decides."""
    pair = np.array([[500, 20, 0], [0, 80, 400]])
    measured = [
        Measured(("a", "b"), pair, 1e-4),
        Measured(("a",), np.array([9000, -7000]), 1e8),
        Measured(("c",), np.array([100, 100, 200, 600]), 1.0),
    ]
    found = estimate(ABC, measured, total=1000)
    assert found.converged
    np.testing.assert_allclose(found.model.marginal(("a", "b")), pair, atol=1.0)


def test_each_step_fits_closer():
    """The misfit falls with the steps, and the answer of one step is nearer to uniform than that of four."""
    generator = np.random.default_rng(11)
    truth = joint(random_model(ABC, (("a", "b", "c"),), 4)) * 10
    measured = [noisy(truth, ABC, pair, 400.0, generator) for pair in combinations(ABC.columns, 2)]
    losses = [
        estimate(ABC, measured, total=truth.sum(), steps=steps, temperature=0.05, tolerance=1e-6).loss
        for steps in (1, 2, 4, 8)
    ]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] >= best_loss(ABC, measured, float(truth.sum())) * (1 - 1e-6)
    with pytest.raises(ValueError, match="step"):
        estimate(ABC, measured, steps=0)


def test_measurements_that_structural_zeros_contradict_still_have_an_answer():
    """A third of exactly measured rows lies in impossible cells: the rest is lifted evenly, as least squares says."""
    impossible = np.zeros((2, 3), dtype=bool)
    impossible[0, 0] = True
    values = np.array([[300, 100, 100], [100, 200, 100]])
    measured = [Measured(("a", "b"), values, 1e-4)]
    found = estimate(ABC, measured, total=900, structural_zeros=[StructuralZeros(("a", "b"), impossible)])
    assert found.converged
    table = found.model.marginal(("a", "b"))
    np.testing.assert_allclose(table, np.where(impossible, 0.0, values + 60.0), atol=0.5)
