"""The plan of a tables release and the split of its charge: the closed form against an optimum; never above it."""

from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from contracts.contract.contract import Contract
from contracts.contract.odcs import load_contract
from contracts.release.spec import ReleaseSpec, load_spec
from privacy.accounting.amounts import ATTO, PICO
from privacy.accounting.calculus import PureCalculus, RenyiCalculus, best_order
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace
from privacy.marginals.residuals import cell_covariance
from privacy.marginals.sensitivity import NoiseKind
from privacy.refine.margin_spaces import spread
from privacy.table_plans.plan import TOTAL_KEY, TablesPlan, plan_tables
from privacy.table_plans.split import optimal_shares, shares_by_weight, weighted_rmse

ADULT = Path(__file__).parents[3] / "examples" / "adult"
CONTRACT = load_contract(ADULT / "adult.odcs.yaml")


def spec(folder: Path, *, epsilon: str = "1", delta: str = "1e-9", **product: object) -> ReleaseSpec:
    terms = {
        "release": "adult-tables",
        "contract": str(ADULT / "adult.odcs.yaml"),
        "source": {"path": str(ADULT / "adult.parquet")},
        "charge": {"account": "adult-1994", "epsilon": epsilon, "delta": delta},
        "product": {
            "kind": "tables",
            "mechanism": "laplace",
            "tables": [["sex"], ["education", "income"]],
            "refine": {"method": "simplex"},
            "total": "noisy",
            **product,
        },
        "publish": {"to": "releases"},
    }
    path = folder / "spec.yaml"
    path.write_text(yaml.safe_dump(terms))
    return load_spec(path)


def test_a_laplace_plan_costs_exactly_the_charge_and_is_pure(tmp_path: Path):
    plan = plan_tables(spec(tmp_path), CONTRACT)
    assert (plan.epsilon, plan.delta) == (PICO, 0)
    assert [draw.key for draw in plan.draws] == ["table:sex", "table:education_x_income"]
    assert [draw.cells for draw in plan.draws] == [2, 32]
    assert sum(draw.share for draw in plan.draws) == 1


@given(epsilon=st.integers(1, 10**7), weights=st.lists(st.integers(1, 50), min_size=1, max_size=3))
def test_no_split_ever_costs_more_than_the_charge(
    tmp_path_factory: pytest.TempPathFactory, epsilon: int, weights: list[int]
):
    names = ["sex", "income", "race"]
    tables = [{"columns": [name], "weight": str(weight)} for name, weight in zip(names, weights, strict=False)]
    written = f"{epsilon / 10**6:.6f}"
    plan = plan_tables(spec(tmp_path_factory.mktemp("spec"), epsilon=written, tables=tables), CONTRACT)
    assert PureCalculus().cost(plan.events) == plan.epsilon <= Fraction(written) * PICO


def test_a_table_of_twice_the_weight_gets_twice_the_budget(tmp_path: Path):
    tables = [{"columns": ["sex"], "weight": 2}, {"columns": ["race"], "weight": 1}]
    first, second = plan_tables(spec(tmp_path, tables=tables), CONTRACT).draws
    assert isinstance(first.event, DiscreteLaplace)
    assert isinstance(second.event, DiscreteLaplace)
    assert float(first.event.inverse_scale / second.event.inverse_scale) == pytest.approx(2, rel=1e-9)
    assert first.half_width < second.half_width


@pytest.mark.parametrize("method", ["none", "simplex", "empirical_bayes", "auto"])
def test_no_total_is_measured_where_tables_have_sums_of_their_own(tmp_path: Path, method: str):
    """The whole charge goes to the tables; only a sparse table, which has no sum, gets a total, and a twentieth."""
    plan = plan_tables(spec(tmp_path, refine={"method": method}), CONTRACT)
    assert [draw.key for draw in plan.draws] == ["table:sex", "table:education_x_income"]
    assert [draw.share for draw in plan.draws] == [Fraction(1, 2)] * 2
    listed = [["sex"], {"columns": ["education", "income"], "form": "sparse"}]
    with_list = plan_tables(spec(tmp_path, tables=listed), CONTRACT)
    assert (with_list.draws[0].key, with_list.draws[0].share) == (TOTAL_KEY, Fraction(1, 20))
    alone = plan_tables(spec(tmp_path, tables=listed, refine={"method": "none"}), CONTRACT)
    assert TOTAL_KEY not in [draw.key for draw in alone.draws]


@pytest.mark.parametrize("epsilon", ["0.1", "1", "8"])
def test_a_gaussian_plan_fits_an_account_of_the_same_epsilon_and_delta(tmp_path: Path, epsilon: str):
    plan = plan_tables(spec(tmp_path, epsilon=epsilon, mechanism="gaussian"), CONTRACT)
    assert plan.delta == ATTO // 10**9
    assert plan.epsilon <= Fraction(epsilon) * PICO
    assert plan.epsilon >= Fraction(epsilon) * PICO * Fraction(999, 1000)
    assert all(isinstance(event, DiscreteGaussian) for event in plan.events)
    calculus = RenyiCalculus(best_order(Fraction(epsilon), Fraction(1, 10**9)))
    assert calculus.cost(plan.events) <= calculus.cap(int(Fraction(epsilon) * PICO), plan.delta)


def test_the_adjacency_of_the_contract_sets_the_scale(tmp_path: Path):
    """replace_one: L1 sensitivity 2, so half the inverse scale for the same ε."""
    replaced: Contract = CONTRACT.model_copy(update={"adjacency": "replace_one"})
    made = spec(tmp_path)
    added, exchanged = (plan_tables(made, contract).events[1] for contract in (CONTRACT, replaced))
    assert isinstance(added, DiscreteLaplace)
    assert isinstance(exchanged, DiscreteLaplace)
    assert added.inverse_scale == pytest.approx(2 * exchanged.inverse_scale)
    assert exchanged.moves == (1, 1)


def test_the_noise_of_a_table_by_its_columns_is_that_of_its_cells(tmp_path: Path):
    """The operator of that noise, applied to one cell, gives the covariance of that cell with every cell."""
    tables = [["sex", "race"], ["sex", "income"], ["race"]]
    product = {"mechanism": "gaussian", "split": "residuals", "tables": tables}
    residuals = plan_tables(spec(tmp_path, **product), CONTRACT).residuals
    assert residuals is not None
    table = spec(tmp_path, **product).tables_product.tables[0]
    sizes = {name: CONTRACT.shape((name,))[0] for name in table.columns}
    one = np.zeros((1, *sizes.values()))
    one[0, 0, 1] = 1
    by_columns = residuals.noise_by_columns(table)
    assert by_columns is not None
    found = spread(by_columns, one)[0]
    for cell in np.ndindex(found.shape):
        same = {name for name, at, own in zip(table.columns, cell, (0, 1), strict=True) if at == own}
        exact = cell_covariance(table.columns, sizes, residuals.variances, same=same)  # type: ignore[union-attr]
        assert found[cell] == pytest.approx(float(exact) + (cell == (0, 1)) / 12, rel=1e-9)


WEIGHTS = (Fraction(1), Fraction(7, 2), Fraction(1, 50), Fraction(2))
CELLS = (2, 32, 4096, 100_000)


def loss(shares: np.ndarray, noise: NoiseKind, weights: tuple[Fraction, ...], cells: tuple[int, ...]) -> float:
    """The expected weighted squared error, up to a factor, from the variance of each noise written out."""
    variance = 2 / shares**2 if noise == "laplace" else 1 / (2 * shares)
    return float(np.dot(np.array(weights, float) * np.array(cells), variance))


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_the_closed_form_is_the_numerical_optimum(noise: NoiseKind):
    """A general minimiser over the simplex, from several starts, finds the same shares and no smaller loss."""
    closed = np.array(optimal_shares(WEIGHTS, CELLS, noise), float)
    least = loss(closed, noise, WEIGHTS, CELLS)

    def of_logs(logs: np.ndarray) -> float:
        exponent = np.exp(logs - logs.max())
        return float(np.log(loss(exponent / exponent.sum(), noise, WEIGHTS, CELLS)))

    rng = np.random.default_rng(1)
    for _ in range(5):
        found = minimize(of_logs, rng.normal(size=4), method="BFGS", options={"gtol": 1e-10}).x
        shares = np.exp(found - found.max())
        assert np.allclose(shares / shares.sum(), closed, rtol=1e-4)
    for shares in rng.dirichlet(np.ones(4), 1000):
        assert loss(shares, noise, WEIGHTS, CELLS) >= least * (1 - 1e-9)


@pytest.mark.parametrize("wrong", ["laplace", "gaussian"])
def test_the_optimum_of_the_other_noise_is_no_optimum(wrong: NoiseKind):
    """What the first test would say of the wrong root."""
    right: NoiseKind = "gaussian" if wrong == "laplace" else "laplace"
    shares = np.array(optimal_shares(WEIGHTS, CELLS, wrong), float)
    best = np.array(optimal_shares(WEIGHTS, CELLS, right), float)
    assert loss(shares, right, WEIGHTS, CELLS) > 1.05 * loss(best, right, WEIGHTS, CELLS)


@pytest.mark.long
@given(
    st.lists(st.tuples(st.fractions(Fraction(1, 10**6), 10**6), st.integers(1, 2**24)), min_size=1, max_size=40),
    st.sampled_from(["laplace", "gaussian"]),
)
def test_shares_add_up_to_one_and_grow_with_importance(tables: list[tuple[Fraction, int]], noise: NoiseKind):
    weights, cells = zip(*tables, strict=True)
    shares = optimal_shares(weights, cells, noise)
    assert sum(shares) == 1
    assert min(shares) > 0
    ranked = sorted(zip([w * n for w, n in tables], shares, strict=True))
    assert all(after[1] >= before[1] - Fraction(len(tables) + 1, PICO) for before, after in pairwise(ranked))


@pytest.mark.parametrize(("weights", "cells"), [((), ()), ((Fraction(0),), (1,)), ((Fraction(1),), (0,))])
def test_weights_and_cells_out_of_range_are_refused(weights: tuple[Fraction, ...], cells: tuple[int, ...]):
    with pytest.raises(ValueError, match="above 0"):
        optimal_shares(weights, cells, "laplace")


def test_by_weight_reads_no_cells():
    assert shares_by_weight((Fraction(3), Fraction(1))) == (Fraction(3, 4), Fraction(1, 4))


def plan(folder: Path, **terms: object) -> TablesPlan:
    return plan_tables(spec(folder, **terms), CONTRACT)  # type: ignore[arg-type]


def error(made: TablesPlan) -> float:
    tables = made.draws
    return weighted_rmse([Fraction(1)] * len(tables), [t.cells for t in tables], [t.variance for t in tables])


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_an_optimal_plan_errs_less_and_costs_no_more(tmp_path: Path, mechanism: str):
    """All 105 two-way tables of the example, of 4 to 1,600 cells."""
    even = plan(tmp_path, tables="all 2-way", mechanism=mechanism)
    best = plan(tmp_path, tables="all 2-way", mechanism=mechanism, split="optimal")
    assert len(best.draws) == len(even.draws) == 105
    assert best.epsilon <= PICO
    assert best.epsilon == pytest.approx(even.epsilon, rel=1e-5)
    assert error(best) < 0.9 * error(even)
    assert best.expected_rmse == {mechanism: pytest.approx(error(best))}
    shares = [draw.share for draw in best.draws]
    assert sum(shares) == 1


@given(weights=st.lists(st.decimals("0.000001", "1000000", places=6), min_size=3, max_size=3))
def test_no_optimal_split_ever_costs_more_than_the_charge(
    tmp_path_factory: pytest.TempPathFactory, weights: list[object]
):
    tables = [{"columns": [n], "weight": str(w)} for n, w in zip(["sex", "income", "race"], weights, strict=True)]
    made = plan(tmp_path_factory.mktemp("spec"), tables=tables, split="optimal")
    assert PureCalculus().cost(made.events) == made.epsilon <= PICO


def test_auto_takes_the_noise_with_the_less_expected_error(tmp_path: Path):
    """Few tables at a small delta: Laplace. Many: Gaussian, whose error grows with the root of their number."""
    few = plan(tmp_path, mechanism="auto", tables=[["sex"]])
    many = plan(tmp_path, mechanism="auto", tables="all 2-way")
    assert (few.mechanism, few.delta) == ("laplace", 0)
    assert (many.mechanism, many.delta) == ("gaussian", 10**9)
    for made, other in ((few, "gaussian"), (many, "laplace")):
        named = plan(tmp_path, mechanism=made.mechanism, tables="all 2-way" if made is many else [["sex"]])
        assert named.draws == made.draws
        assert set(made.expected_rmse) == {"laplace", "gaussian"}
        assert made.expected_rmse[made.mechanism] == named.expected_rmse[made.mechanism]
        assert made.expected_rmse[made.mechanism] < made.expected_rmse[other]  # type: ignore[index]


@pytest.mark.parametrize("terms", [{"delta": "0"}, {"epsilon": "0.000000000001"}])
def test_auto_is_laplace_where_gaussian_noise_cannot_be_paid(tmp_path: Path, terms: dict[str, str]):
    """Without a delta, and where no rho fits."""
    made = plan(tmp_path, mechanism="auto", tables=[["sex"]], refine={"method": "none"}, **terms)
    assert set(made.expected_rmse) == {"laplace"}
    assert all(isinstance(event, DiscreteLaplace) for event in made.events)


def test_auto_is_laplace_on_a_pure_account(tmp_path: Path):
    made = plan_tables(spec(tmp_path, mechanism="auto", tables="all 2-way"), CONTRACT, pure_account=True)
    assert (made.mechanism, made.delta, set(made.expected_rmse)) == ("laplace", 0, {"laplace"})
