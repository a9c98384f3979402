"""The plan of statistics: what is drawn, in which order, for what share, and what is foretold of its errors."""

from decimal import Decimal
from fractions import Fraction
from math import sqrt
from typing import Any

import numpy as np
import pytest

from contracts.contract.contract import Contract
from contracts.domains.addends import LoneSum, ValueMoments
from contracts.release.statistics import StatisticsProduct
from privacy.accounting.amounts import PICO, AmountRefused
from privacy.accounting.calculus import PureCalculus, RenyiCalculus
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace
from privacy.statistics import table as refined_counts_module
from privacy.statistics import table as table_values_module
from privacy.statistics.noise_sums import quantile
from privacy.statistics.plan import SIZES, StatisticsPlan, count_error, expected_errors, plan_statistics, rehearse
from privacy.statistics.table import NoisyNumbers, table_values
from tests.contracts.samples import column, contract_of

CONTRACT = contract_of(
    column("categories", "string", "sex", values=["f", "m"], nulls={"policy": "map", "to": "f"}),
    column("integer", "integer", "age", bounds=[0, 90], bins={"width": 10}),
    column("decimal", "number", "pay", bounds=["-5", "20"], bins={"width": 5}, nulls={"policy": "map", "to": 0}),
)
TABLES: list[dict[str, Any]] = [
    {"by": ["sex"], "of": ["count", {"mean": "age"}, {"sum": "pay"}], "weight": 3},
    {"by": ["sex", "age"], "of": ["count"]},
]


def planned(
    mechanism: str = "laplace", epsilon: str = "1", delta: str = "0", contract: Contract = CONTRACT, **terms: Any
) -> tuple[StatisticsProduct, StatisticsPlan]:
    written = {"kind": "statistics", "mechanism": mechanism, "tables": TABLES} | terms
    product = StatisticsProduct.model_validate(written)
    return product, plan_statistics(product, contract, epsilon=Decimal(epsilon), delta=Decimal(delta))


def test_a_table_has_one_draw_for_each_column_or_one_of_counts():
    """In the order of the tables; shares by weight, alike within a table, and one in all."""
    _, plan = planned()
    assert [(draw.key, draw.clique, draw.shape, draw.share) for draw in plan.draws] == [
        ("table:sex/age", ("sex",), (2, 3), Fraction(3, 8)),
        ("table:sex/pay", ("sex",), (2, 2), Fraction(3, 8)),
        ("table:sex_x_age", ("sex", "age"), (2, 11), Fraction(1, 4)),
    ]
    assert [draw.event.moves for draw in plan.draws] == [(90,), (25,), (1,)]
    assert plan.numbers == 6 + 4 + 22
    assert [draw.key for draw in plan.of_table("sex")] == ["table:sex/age", "table:sex/pay"]
    assert (plan.public_total, plan.noise_epsilon, plan.options) == (None, None, None)


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("epsilon", ["0.001", "0.3", "1", "7"])
def test_all_draws_together_cost_what_was_asked_for_at_most(adjacency: str, rows: int, epsilon: str):
    """Laplace noise by pure losses, Gaussian noise by a Rényi account too; and nearly all of it is used."""
    unit = {"kind": "id", "scope": "block", "column": "person", "max_rows_per_unit": rows}
    contract = contract_of(*CONTRACT.columns, adjacency=adjacency, unit=unit)
    _, plan = planned(epsilon=epsilon, contract=contract)
    asked = Decimal(epsilon) * PICO
    assert all(isinstance(event, DiscreteLaplace) for event in plan.events)
    assert plan.epsilon == PureCalculus().cost(plan.events)
    assert asked * Decimal("0.999999") <= plan.epsilon <= asked
    _, plan = planned("gaussian", epsilon, "1e-9", contract)
    assert all(isinstance(event, DiscreteGaussian) for event in plan.events)
    assert plan.delta == 10**9
    assert asked * Decimal("0.98") <= plan.epsilon <= asked
    assert RenyiCalculus(Fraction(12)).cost(plan.events) > 0


def test_a_charge_that_no_draw_gets_a_part_of_is_refused():
    for mechanism, delta in (("laplace", "0"), ("gaussian", "1e-9")):
        with pytest.raises(AmountRefused):
            planned(mechanism, "1e-12", delta)


@pytest.mark.parametrize(("mechanism", "delta"), [("laplace", "0"), ("gaussian", "1e-9")])
def test_errors_are_foretold_as_they_will_be_published(mechanism: str, delta: str):
    """Half widths of the plan are those of the intervals, where nothing cuts them; in a cell of many rows."""
    product, plan = planned(mechanism, "2", delta)
    table = product.tables[0]
    foretold = {(each.statistic, each.rows): each.half_width for each in expected_errors(table, plan.of_table("sex"))}
    assert set(foretold) == {("count", None), ("sum_pay", None), *(("mean_age", size) for size in SIZES)}
    rows = 10_000
    drawn: dict[str | None, NoisyNumbers] = {}
    for draw in plan.of_table("sex"):
        assert draw.addends is not None
        half = rows * draw.addends.width // 2
        values = np.array([[half, half, 0][: draw.addends.parts]] * 2, dtype=np.int64)
        drawn[draw.addends.column] = NoisyNumbers(values, draw.event, draw.addends)
    values = table_values(table, drawn, np.array([False, True]))
    for name, size, margin in (
        ("count", None, 1.0),
        ("sum_pay", None, 1.0),
        ("mean_age", rows, 2e-3),
    ):  # ends have few digits
        half_width = (values[f"{name}_high"][0] - values[f"{name}_low"][0]) / 2
        assert half_width == pytest.approx(foretold[name, size], rel=0.02, abs=margin)  # a piece of q is 1/64 wide
    assert (values["count"][0], values["mean_age"][0], values["sum_pay"][0]) == (rows, 45, 75000)
    assert [values[name][1] for name in ("count", "sum_pay")] == [0, 0]
    assert all(np.isnan(values[f"mean_age{end}"][1]) for end in ("", "_low", "_high"))
    assert values["near_zero"].tolist() == [False, True]


def test_a_count_is_the_average_of_what_the_draws_give():
    """Its interval is narrower than that of each draw, and as wide as it was foretold."""
    product, plan = planned()
    table, draws = product.tables[0], plan.of_table("sex")
    drawn = {
        draw.addends.column: NoisyNumbers(
            np.full((2, draw.addends.parts), 100_000 * place, dtype=np.int64), draw.event, draw.addends
        )
        for place, draw in enumerate(draws, start=1)
        if draw.addends is not None
    }
    values = table_values(table, drawn, np.zeros(2, dtype=bool))  # type: ignore[arg-type]
    alone = [each.counts for each in drawn.values()]
    assert values["count"].tolist() == [round(float(np.mean([each.values[0] for each in alone])))] * 2
    half_width = (values["count_high"][0] - values["count_low"][0]) / 2
    assert half_width < min((each.upper[0] - each.lower[0]) / 2 for each in alone)
    assert half_width == pytest.approx(count_error(draws), abs=1.0)


def test_numbers_without_a_lattice_have_counts_alone():
    event = planned()[1].draws[-1].event
    counted = NoisyNumbers(np.array([-3, 0, 7], dtype=np.int64), event, None)
    assert counted.counts.values.tolist() == [-3, 0, 7]
    for statistic in (counted.sums, counted.means):
        with pytest.raises(ValueError, match="no column was added up"):
            statistic()


def test_a_table_of_very_many_columns_can_be_made_and_its_counts_are_an_average_of_some():
    """Sixty columns with missing values: 180 noises, of which the first sixteen draws' are averaged."""
    names = [f"c{place}" for place in range(60)]
    many = contract_of(
        column("categories", "string", "sex", values=["f", "m"], nulls={"policy": "map", "to": "f"}),
        *(column("integer", "integer", name, bounds=[0, 9], bins={"width": 10}) for name in names),
    )
    wide = [{"by": ["sex"], "of": ["count", *({"mean": name} for name in names)]}]
    product, plan = planned(contract=many, tables=wide)
    rehearse(product, plan)
    assert count_error(plan.draws) == count_error(plan.draws[:16]) < count_error(plan.draws[:15])


@pytest.mark.parametrize(
    ("terms", "module", "maker"),
    [
        ({}, table_values_module, "estimate_means"),
        ({"refine": {"method": "simplex"}}, refined_counts_module, "negative_l2"),
    ],
)
def test_what_cannot_be_made_fails_before_the_charge(
    monkeypatch: pytest.MonkeyPatch, terms: Any, module: Any, maker: str
):
    """The numbers of one cell, and a refinement where one is asked for, are made of nothing when it is planned."""
    product, plan = planned(**terms)
    rehearse(product, plan)

    def broken(*parts: object, **terms: object) -> None:
        raise OverflowError("no such number")

    monkeypatch.setattr(module, maker, broken)
    with pytest.raises(OverflowError, match="no such number"):
        rehearse(product, plan)
    if terms:
        rehearse(*planned())


PEOPLE = contract_of(
    column("categories", "string", "sex", values=["f", "m"], nulls={"policy": "map", "to": "f"}),
    column("integer", "integer", "age", bounds=[17, 90], bins={"width": 10}),
    column("decimal", "number", "pay", bounds=["-20", "20"], bins={"width": 5}, nulls={"policy": "map", "to": 0}),
)
SPREAD: list[dict[str, Any]] = [
    {"by": ["sex"], "of": ["count", {"variance": "age"}, {"sd": "age"}, {"sum": "age"}, {"mean": "age"}]}
]
ALONE: list[dict[str, Any]] = [{"by": ["sex"], "of": [{"sum": "age"}, {"sum": "pay"}]}]


def test_moments_are_one_draw_of_three_numbers_or_four():
    product, plan = planned(tables=SPREAD, contract=PEOPLE)
    (draw,) = plan.draws
    assert isinstance(draw.addends, ValueMoments)
    assert draw.shape == (2, 4)
    assert draw.event.moves == (draw.addends.whole,) == (13 * 73**2,)
    rehearse(product, plan)


def test_what_is_foretold_of_moments_follows_from_their_noise():
    """In units of the noise of one row, at epsilon 1: sums as weighted, a variance of values spread evenly."""
    product, plan = planned(tables=SPREAD, contract=PEOPLE)
    event, whole = plan.draws[0].event, 13 * 73**2
    told = {(each.statistic, each.rows): each for each in expected_errors(product.tables[0], plan.draws)}
    assert told[("count", None)].half_width == pytest.approx(quantile(event, [1 / whole] * 3, 0.95), rel=0.15)
    assert told[("sum_age", None)].half_width == quantile(event, [each / whole for each in (17, 53.5, 90)], 0.95)
    for rows in SIZES:
        variance = told[("variance_age", rows)]
        margin = quantile(event, [1 / 6, 1 / 3, 1 / 6], 0.95) / whole * 73**2 / rows
        assert variance.half_width == pytest.approx(margin)
        assert variance.clip == 73**2 / 4
        assert told[("sd_age", rows)].half_width == pytest.approx(margin / (2 * 73 / sqrt(12)))
        assert told[("sd_age", rows)].clip == 73 / 2
        mean = quantile(event, [0.5, 0.5], 0.95) / whole * 73 / rows
        assert told[("mean_age", rows)].half_width == pytest.approx(mean)
    assert count_error(plan.draws) == told[("count", None)].half_width


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_sums_alone_cost_what_was_asked_for_and_no_more(adjacency: str):
    """Ages move by 90, pay from -20 to 20 under replace_one too; half of the charge each."""
    contract = contract_of(*PEOPLE.columns, adjacency=adjacency)
    product = planned(tables=ALONE, contract=contract)[0]
    plan: StatisticsPlan = plan_statistics(product, contract, epsilon=Decimal(1), delta=Decimal(0))
    assert all(isinstance(draw.addends, LoneSum) for draw in plan.draws)
    moves = {"add_remove": [(90,), (20,)], "replace_one": [(90, 90), (40,)]}[adjacency]
    assert [draw.event.moves for draw in plan.draws] == moves
    assert [draw.shape for draw in plan.draws] == [(2, 1), (2, 1)]
    assert Fraction(999_999, 10**6) < Fraction(plan.epsilon, 10**12) <= 1
    rehearse(product, plan)
    told = expected_errors(product.tables[0], plan.draws)
    assert [(each.statistic, each.rows) for each in told] == [("sum_age", None), ("sum_pay", None)]
    for error, draw in zip(told, plan.draws, strict=True):
        assert error.half_width == quantile(draw.event, [1.0], 0.95)
