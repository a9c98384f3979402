"""The plan of a tables release: shares, calibration, and that the whole never costs more than the charge."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from contracts.contract.contract import Contract
from contracts.contract.odcs import load_contract
from contracts.release.spec import ReleaseSpec, load_spec
from privacy.accounting.amounts import ATTO, PICO
from privacy.accounting.calculus import PureCalculus, RenyiCalculus, best_order
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace
from privacy.marginals.residuals import cell_covariance
from privacy.refine.margin_spaces import spread
from privacy.table_plans.plan import TOTAL_KEY, plan_tables

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


def test_a_laplace_plan_costs_exactly_the_charge_and_is_pure(tmp_path: Path) -> None:
    plan = plan_tables(spec(tmp_path), CONTRACT)
    assert (plan.epsilon, plan.delta) == (PICO, 0)
    assert [draw.key for draw in plan.draws] == ["table:sex", "table:education_x_income"]
    assert [draw.cells for draw in plan.draws] == [2, 32]
    assert sum(draw.share for draw in plan.draws) == 1


@given(epsilon=st.integers(1, 10**7), weights=st.lists(st.integers(1, 50), min_size=1, max_size=3))
def test_no_split_ever_costs_more_than_the_charge(
    tmp_path_factory: pytest.TempPathFactory, epsilon: int, weights: list[int]
) -> None:
    names = ["sex", "income", "race"]
    tables = [{"columns": [name], "weight": str(weight)} for name, weight in zip(names, weights, strict=False)]
    written = f"{epsilon / 10**6:.6f}"
    plan = plan_tables(spec(tmp_path_factory.mktemp("spec"), epsilon=written, tables=tables), CONTRACT)
    assert PureCalculus().cost(plan.events) == plan.epsilon <= Fraction(written) * PICO


def test_a_table_of_twice_the_weight_gets_twice_the_budget(tmp_path: Path) -> None:
    tables = [{"columns": ["sex"], "weight": 2}, {"columns": ["race"], "weight": 1}]
    first, second = plan_tables(spec(tmp_path, tables=tables), CONTRACT).draws
    assert isinstance(first.event, DiscreteLaplace)
    assert isinstance(second.event, DiscreteLaplace)
    assert float(first.event.inverse_scale / second.event.inverse_scale) == pytest.approx(2, rel=1e-9)
    assert first.half_width < second.half_width


@pytest.mark.parametrize("method", ["none", "simplex", "empirical_bayes", "auto"])
def test_no_total_is_measured_where_tables_have_sums_of_their_own(tmp_path: Path, method: str) -> None:
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
def test_a_gaussian_plan_fits_an_account_of_the_same_epsilon_and_delta(tmp_path: Path, epsilon: str) -> None:
    plan = plan_tables(spec(tmp_path, epsilon=epsilon, mechanism="gaussian"), CONTRACT)
    assert plan.delta == ATTO // 10**9
    assert plan.epsilon <= Fraction(epsilon) * PICO
    assert plan.epsilon >= Fraction(epsilon) * PICO * Fraction(999, 1000)
    assert all(isinstance(event, DiscreteGaussian) for event in plan.events)
    calculus = RenyiCalculus(best_order(Fraction(epsilon), Fraction(1, 10**9)))
    assert calculus.cost(plan.events) <= calculus.cap(int(Fraction(epsilon) * PICO), plan.delta)


def test_the_adjacency_of_the_contract_sets_the_scale(tmp_path: Path) -> None:
    """replace_one: L1 sensitivity 2, so half the inverse scale for the same ε."""
    replaced: Contract = CONTRACT.model_copy(update={"adjacency": "replace_one"})
    made = spec(tmp_path)
    added, exchanged = (plan_tables(made, contract).events[1] for contract in (CONTRACT, replaced))
    assert isinstance(added, DiscreteLaplace)
    assert isinstance(exchanged, DiscreteLaplace)
    assert added.inverse_scale == pytest.approx(2 * exchanged.inverse_scale)
    assert exchanged.moves == (1, 1)


def test_the_noise_of_a_table_by_its_columns_is_that_of_its_cells(tmp_path: Path) -> None:
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
