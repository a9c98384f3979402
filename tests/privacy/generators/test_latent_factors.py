"""Latent factors: one draw of all pairs, and a model of few numbers that is fitted to it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from contracts.contract.contract import Adjacency
from contracts.contract.impossible_cells import Clique
from privacy.accounting.events import DiscreteGaussian
from privacy.generators.generator import CannotGenerate, Options, OutOfTime, Spending, SynthesisTask
from privacy.generators.latent_factors import LatentFactorGenerator
from privacy.generators.p3gm import reach
from privacy.generators.projection import Projected, Projection, check_clip
from privacy.learning.layout import ColumnLayout, RowLayout
from privacy.marginals.graph import CellDomain
from privacy.marginals.latent_factors import LatentFactors, NoisyPairs, _Fit, fit_latent_factors, public_points
from privacy.marginals.residuals import SMOOTHING, Workload, optimal_residuals, pair_residuals
from tests.privacy.generators.small_table import CountedTable, asked, start
from tests.privacy.ledger.ledgers import Place

COLUMNS = CellDomain(tuple(f"c{number:02d}" for number in range(30)), (2, 3, 5) * 10)
FEW = CellDomain(COLUMNS.columns[:9], COLUMNS.shape[:9])


def of_two_factors(rows: int, domain: CellDomain = COLUMNS) -> CountedTable:
    random = np.random.default_rng(5)
    hidden = random.normal(size=(rows, 2))
    columns = [
        np.searchsorted(np.linspace(-1, 1, cells - 1), hidden[:, place % 2] + 0.7 * random.normal(size=rows))
        for place, cells in enumerate(domain.shape)
    ]
    return CountedTable(np.stack(columns, axis=1), domain)


def exact_parts(table: CountedTable) -> dict[Clique, np.ndarray]:
    """The residual part of each column and pair, by the definition: a marginal less what its margins say of it."""
    rows = len(table.rows)
    parts: dict[Clique, np.ndarray] = {}
    for name in table.domain.columns:
        counts = table.exact((name,)).astype(float)
        parts[(name,)] = counts - rows / counts.size
    for pair in combinations(table.domain.columns, 2):
        counts = table.exact(pair).astype(float)
        margins = counts.mean(axis=0, keepdims=True) + counts.mean(axis=1, keepdims=True) - counts.mean()
        parts[pair] = counts - margins
    return parts


def quiet(_done: float) -> None:
    """Progress that nobody looks at."""


def noisy(table: CountedTable, parts: Mapping[Clique, np.ndarray], deviation: float) -> NoisyPairs:
    random = np.random.default_rng(11)
    drawn = {}
    for clique, part in parts.items():
        noise = random.normal(0, deviation, part.shape)
        for axis in range(noise.ndim):
            noise = noise - noise.mean(axis=axis, keepdims=True)
        drawn[clique] = part + noise
    return NoisyPairs.of(table.domain, drawn, dict.fromkeys(parts, deviation**2), float(len(table.rows)))


@pytest.mark.long
def test_mallows_finds_the_number_of_factors_through_the_noise():
    """Two hidden numbers and noise of 60 rows on every number: two factors, and a misfit near 1. None where there are
    none: columns drawn independently. A fit of more would follow the noise."""
    table = of_two_factors(5000)
    found = fit_latent_factors(noisy(table, exact_parts(table), 60.0), quiet)
    assert found.points.shape[1] == 2
    assert found.misfit == pytest.approx(1, abs=0.08)
    random = np.random.default_rng(1)
    apart = CountedTable(np.stack([random.integers(0, cells, 5000) for cells in COLUMNS.shape], axis=1), COLUMNS)
    assert fit_latent_factors(noisy(apart, exact_parts(apart), 60.0), quiet).points.shape[1] == 0


def of_categories(rows: int) -> CountedTable:
    """Cells without an order: which of them is likely depends on two hidden numbers in a way of its own."""
    random = np.random.default_rng(6)
    domain = CellDomain(tuple(f"n{number:02d}" for number in range(24)), (5,) * 24)
    hidden = random.normal(size=(rows, 2))
    columns = []
    for _ in domain.columns:
        logits = hidden @ random.normal(size=(2, 5)) * 2 + random.gumbel(size=(rows, 5))
        columns.append(logits.argmax(axis=1))
    return CountedTable(np.stack(columns, axis=1), domain)


def ranks(found: LatentFactors, shape: Sequence[int]) -> set[int]:
    """The rank of each column's loadings, what all cells have in common taken away."""
    parts = np.split(found.loadings, np.cumsum(shape)[:-1], axis=1)
    return {int(np.linalg.matrix_rank(each - each.mean(axis=1, keepdims=True), tol=1e-3)) for each in parts}


@pytest.mark.long
def test_cells_along_one_scale_get_loadings_of_rank_one_and_others_do_not():
    """Steps of a number that leans on two hidden ones, under noise: rank 1. Cells that go with both in ways of their
    own, with little noise: more. Rank 1 is then not tried in vain: it fits far worse."""
    table = of_two_factors(5000)
    assert ranks(fit_latent_factors(noisy(table, exact_parts(table), 60.0), quiet), table.domain.shape) == {1}
    apart = of_categories(5000)
    found = fit_latent_factors(noisy(apart, exact_parts(apart), 30.0), quiet)
    assert max(ranks(found, apart.domain.shape)) == 2


@pytest.mark.parametrize(
    ("factors", "cells", "rank"), [(4, 6, 1), (4, 6, 2), (2, 6, 2), (5, 3, 2), (1, 2, 1), (3, 2, 1)]
)
def test_loadings_of_a_rank_have_as_many_free_numbers_as_the_criterion_counts(factors: int, cells: int, rank: int):
    """Another way to count: the rank of the derivative of W S over W and S, cells taken relative to their mean."""
    domain = CellDomain(("a", "b"), (cells, cells))
    sizes, width = np.zeros(2 * cells, np.float32), (2 * cells, 2 * cells)
    fit = _Fit(NoisyPairs(domain, sizes + 1, sizes + 1, np.zeros(width, np.float32), np.zeros(width, np.float32)))
    found = LatentFactors(np.zeros((1, factors)), sizes.astype(float), np.zeros((factors, 2 * cells)), 0.0)
    random = np.random.default_rng(3)
    weights, scores = random.normal(size=(factors, rank)), random.normal(size=(rank, cells))
    centre = np.eye(cells) - 1 / cells
    of_weights = np.kron(np.eye(factors), scores @ centre)
    of_scores = np.kron(weights, centre)
    free = np.linalg.matrix_rank(np.vstack([of_weights, of_scores.T]))
    assert fit.criterion(found, rank) == 2.0 * 2 * free


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("total_is_public", [False, True])
def test_what_is_measured_is_the_optimum_of_its_weights(adjacency: Adjacency, total_is_public: bool):
    """Against the general plan, which looks at all subsets of each table: the same residuals and multipliers."""
    cells = (("a", 3), ("b", 2), ("c", 7), ("d", 1), ("e", 4))
    inverse = sum((Fraction(1, size) for _, size in cells), Fraction(0))
    singles = {(name,): 1 + SMOOTHING * (inverse - Fraction(1, size)) for name, size in cells}
    weights = singles | dict.fromkeys(combinations([name for name, _ in cells], 2), Fraction(1))
    terms = {"adjacency": adjacency, "total_is_public": total_is_public}
    general = optimal_residuals(Workload(cells, tuple(weights), tuple(weights.values())), **terms)  # type: ignore[arg-type]
    assert pair_residuals(cells, **terms) == general  # type: ignore[arg-type]


def test_public_points_have_mean_0_and_covariance_1_and_are_always_the_same():
    points = public_points(256, 9)
    np.testing.assert_allclose(points.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(points.T @ points / 256, np.eye(9), atol=1e-5)
    np.testing.assert_array_equal(points, public_points(256, 9))


@pytest.mark.long
def test_pairs_are_far_better_known_than_as_independent_columns(sqlite_place: Place):
    """ε = 1, 5,000 rows, 435 pairs: below 0.6 of the error that exact independent columns have. A single noisy pair
    would be off by more than that; so what is tested is that noise averages out. Measured: 0.46 of it."""
    counts = of_two_factors(5000)
    fitted = start(sqlite_place, LatentFactorGenerator(), asked(COLUMNS)).fit(counts)
    made = CountedTable(fitted.model.sample(5000, seed=1), COLUMNS)
    apart, off = [], []
    for one, other in combinations(COLUMNS.columns, 2):
        exact = counts.exact((one, other))
        independent = np.outer(counts.exact((one,)), counts.exact((other,))) / len(counts.rows)
        apart.append(np.abs(exact - independent).sum())
        off.append(np.abs(exact - made.exact((one, other))).sum())
    assert np.mean(off) < 0.6 * np.mean(apart)


@pytest.mark.long
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_all_of_the_charge_goes_into_one_draw_that_a_second_fit_replays(sqlite_place: Place, adjacency: str):
    total = 2000 if adjacency == "replace_one" else None
    question = asked(FEW, adjacency=adjacency, public_total=total)  # type: ignore[arg-type]
    counts = of_two_factors(2000, FEW)
    run = start(sqlite_place, LatentFactorGenerator(), question)
    fitted = run.fit(counts)
    (event,) = run.drawn()
    assert isinstance(event, DiscreteGaussian)
    assert run.plan.events == (event,)
    assert run.spent() == pytest.approx(Spending(question, None).total, rel=1e-9)
    (draw,) = fitted.of_kind("residuals")
    assert (() in {each.columns for each in draw.residuals}) == (total is None)
    assert abs(fitted.model.rows - 2000) < 200
    counts.counted.clear()
    again = run.fit(counts)
    assert (run.drawn(), counts.counted) == ([event], [])
    values, arrays = fitted.model.to_arrays()
    same, equal = again.model.to_arrays()
    assert values == same
    assert all(np.array_equal(arrays[name], equal[name]) for name in arrays)
    np.testing.assert_array_equal(fitted.model.sample(100, seed=4), again.model.sample(100, seed=4))


@pytest.mark.long
def test_structural_zeros_hold_in_every_row(sqlite_place: Place):
    excluded = np.zeros((2, 3), dtype=bool)
    excluded[1, 2] = True
    counts = of_two_factors(2000, FEW)
    kept = CountedTable(counts.rows[~excluded[counts.rows[:, 0], counts.rows[:, 1]]], FEW)
    question = asked(FEW, impossible={("c00", "c01"): excluded})
    made = start(sqlite_place, LatentFactorGenerator(), question).fit(kept).model.sample(3000, seed=1)
    assert not excluded[made[:, 0], made[:, 1]].any()


@pytest.mark.parametrize("shape", [(3,), (1,), (3, 1, 2)])
def test_odd_tables_give_a_sound_model(sqlite_place: Place, shape: tuple[int, ...]):
    domain = CellDomain(tuple(f"x{place}" for place in range(len(shape))), shape)
    data = np.random.default_rng(1).integers(0, shape, size=(50, len(shape)))
    fitted = start(sqlite_place, LatentFactorGenerator(), asked(domain, epsilon=Fraction(1, 10))).fit(
        CountedTable(data, domain)
    )
    made = fitted.model.sample(20, seed=0)
    assert made.shape == (20, len(shape))
    assert (made < np.array(shape)).all()


def test_what_must_fail_is_refused_by_the_plan():
    """No δ, Laplace noise, more columns than residuals are planned for, a model above the cap: nothing is charged."""

    def plan(question: SynthesisTask, **options: object) -> None:
        LatentFactorGenerator().plan(question, Options.model_validate(options))

    with pytest.raises(CannotGenerate, match=r"its noise is Gaussian.*do: give the charge a delta"):
        plan(asked(COLUMNS, delta=Fraction(0)))
    with pytest.raises(CannotGenerate, match=r"its noise is Gaussian.*leave `noise` out"):
        plan(asked(COLUMNS), noise="laplace")
    many = CellDomain(tuple(f"c{number}" for number in range(511)), (2,) * 511)
    with pytest.raises(CannotGenerate, match=r"511 columns; allowed: at most 510; do: publish fewer columns"):
        plan(asked(many))
    with pytest.raises(CannotGenerate, match=r"all pairs of 100 cells.*max_model_megabytes"):
        plan(asked(COLUMNS), max_model_megabytes=0.1)
    with pytest.raises(CannotGenerate, match="time_limit"):
        plan(asked(COLUMNS), time_limit=0.1)
    nothing = replace(asked(CellDomain(("one",), (1,)), adjacency="replace_one", public_total=5))
    with pytest.raises(CannotGenerate, match="nothing to measure"):
        plan(nothing)


def test_a_time_limit_that_has_passed_draws_nothing(sqlite_place: Place):
    ticking = LatentFactorGenerator(clock=iter(range(0, 100, 5)).__next__)
    run = start(sqlite_place, ticking, asked(COLUMNS), time_limit=2)
    with pytest.raises(OutOfTime, match="run the same spec again"):
        run.fit(of_two_factors(100))
    assert run.drawn() == []


NUMBERS = RowLayout(tuple(ColumnLayout(f"x{place}", "category", np.eye(3)) for place in range(3)))


@pytest.mark.parametrize("spread", [0.0, 1e-12, 1e-3])
def test_rows_that_are_alike_have_a_bound_at_which_sums_are_exact(spread: float):
    """A norm just above the least that a plan takes; the fit ended here with one charged run in a hundred."""
    projection = Projection(NUMBERS, NUMBERS.names, 2, 3e-4)
    check_clip(projection)
    random = np.random.default_rng(5)
    for _ in range(200):
        axes = np.linalg.qr(random.normal(size=(9, 2)))[0]
        half, alike, even = np.full(9, 0.5), np.full(2, spread), np.ones(9)
        projected = Projected(half, axes, alike, 100.0, half, even)
        bound = reach(projection, projected)
        assert bound <= projection.bound
        assert projection.embedding(half, axes, bound=bound).bound == bound
