"""The plan of moments and of sums alone: what is drawn, and what is foretold of it."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import sqrt
from typing import Any

import pytest

from contracts.domains.addends import LoneSum, ValueMoments
from privacy.statistics.noise_sums import quantile
from privacy.statistics.plan import SIZES, StatisticsPlan, count_error, expected_errors, plan_statistics, rehearse
from tests.contracts.samples import column, contract_of
from tests.privacy.statistics.test_plan import planned

CONTRACT = contract_of(
    column("categories", "string", "sex", values=["f", "m"], nulls={"policy": "map", "to": "f"}),
    column("integer", "integer", "age", bounds=[17, 90], bins={"width": 10}),
    column("decimal", "number", "pay", bounds=["-20", "20"], bins={"width": 5}, nulls={"policy": "map", "to": 0}),
)
SPREAD: list[dict[str, Any]] = [
    {"by": ["sex"], "of": ["count", {"variance": "age"}, {"sd": "age"}, {"sum": "age"}, {"mean": "age"}]}
]
ALONE: list[dict[str, Any]] = [{"by": ["sex"], "of": [{"sum": "age"}, {"sum": "pay"}]}]


def test_moments_are_one_draw_of_three_numbers_or_four() -> None:
    product, plan = planned(tables=SPREAD, contract=CONTRACT)
    (draw,) = plan.draws
    assert isinstance(draw.addends, ValueMoments)
    assert draw.shape == (2, 4)
    assert draw.event.moves == (draw.addends.whole,) == (13 * 73**2,)
    rehearse(product, plan)


def test_what_is_foretold_of_moments_follows_from_their_noise() -> None:
    """In units of the noise of one row, at epsilon 1: sums as weighted, a variance of values spread evenly."""
    product, plan = planned(tables=SPREAD, contract=CONTRACT)
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
def test_sums_alone_cost_what_was_asked_for_and_no_more(adjacency: str) -> None:
    """Ages move by 90, pay from -20 to 20 under replace_one too; half of the charge each."""
    contract = contract_of(*CONTRACT.columns, adjacency=adjacency)
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
