"""Variances and sums alone in a spec: their names, the form of each draw, and refusals with words."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from pydantic import ValidationError

from contracts.contract.contract import Contract
from contracts.domains.addends import LoneSum, ValueMoments
from contracts.domains.lattice import ValueLattice, one_step_wider
from contracts.domains.trees import ValueTree
from contracts.release.statistics import Statistic, StatisticsProduct
from contracts.release.statistics_rules import statistics_problems
from privacy.statistics.plan import StatisticsPlan
from tests.worlds.statistics import StatisticsScenario, gaussian

AWAY = {"sum": "age", "clip": [18, 90]}


@pytest.fixture(scope="module")
def stays(tmp_path_factory: pytest.TempPathFactory) -> Contract:
    """The contract of stays: ages of 0 to 99 that may be missing, bills of 0 to 900."""
    return contract_of(StatisticsScenario(), tmp_path_factory)


@pytest.fixture(scope="module")
def units(tmp_path_factory: pytest.TempPathFactory) -> Contract:
    """The same with three rows a unit."""
    return contract_of(gaussian(), tmp_path_factory)


def contract_of(scenario: StatisticsScenario, folders: pytest.TempPathFactory) -> Contract:
    _, contract, _, ledger = scenario.prepared_of(folders.mktemp("stays"), StatisticsPlan)
    ledger.close()
    return contract


def product_of(*statistics: Any, by: tuple[str, ...] = ("ward",)) -> StatisticsProduct:
    """Read a product of one table."""
    return StatisticsProduct.model_validate({"kind": "statistics", "tables": [{"by": by, "of": list(statistics)}]})


def forms(contract: Contract, *statistics: Any) -> list[type[object]]:
    product = product_of(*statistics)
    assert not list(statistics_problems(product, contract))
    return [type(each) for _, each in product.tables[0].draws(contract)]


def test_a_variance_has_three_columns_and_no_draw_of_its_own(stays: Contract) -> None:
    """Sum, mean, variance and deviation of a column come of one draw, under the column's name."""
    product = product_of("count", {"mean": "age"}, {"variance": "age"}, {"sd": "age"}, {"sum": "age"})
    (table,) = product.tables
    assert table.of[2].published == ("variance_age", "variance_age_low", "variance_age_high")
    assert table.of[3].published == ("sd_age", "sd_age_low", "sd_age_high")
    ((key, moments),) = table.draws(stays)
    assert (key, moments) == ("table:ward/age", ValueMoments(table.lattices(stays)[0], 7 * 99**2))
    assert StatisticsProduct.model_validate(product.model_dump(mode="json")) == product


def test_steps_of_moments_are_shared_by_the_rows_of_a_unit(units: Contract) -> None:
    """Bills have 90,000 steps: their squares are rounded to what a unit's three rows may move together."""
    ((_, moments),) = product_of({"sd": "bill", "step": "0.01"}).tables[0].draws(units)
    assert isinstance(moments, ValueMoments)
    assert (moments.whole, moments.exact) == (10**9 // 3, False)


@pytest.mark.parametrize(
    ("statistics", "wanted"),
    [
        ([AWAY], [LoneSum]),
        ([AWAY, "count"], [ValueLattice]),
        ([AWAY, {"mean": "age"}], [ValueLattice]),
        ([AWAY, {"variance": "age"}], [ValueMoments]),
        ([AWAY, {"sum": "bill"}], [LoneSum, ValueLattice]),
        ([AWAY, {"mean": "bill"}], [LoneSum, ValueLattice]),
        ([AWAY, {"quantiles": [0.5], "of": "age"}], [LoneSum, ValueTree]),
        ([AWAY, {"ratio": {"sum": "bill"}, "over": {"sum": "age"}}], [ValueLattice, ValueLattice]),
        ([{"sum": "age", "clip": [18, 90], "step": 4}], [ValueLattice]),
        ([{"sum": "age"}], [ValueLattice]),
    ],
)
def test_a_sum_is_drawn_alone_where_nothing_asks_for_a_count_and_noise_is_saved(
    stays: Contract, statistics: list[Any], wanted: list[type[object]]
) -> None:
    """From spec and contract alone; a clip that begins at 0 or between two steps has two numbers."""
    assert forms(stays, *statistics) == wanted


@pytest.mark.parametrize(
    ("statistics", "told"),
    [
        ([{"variance": "age"}, {"ratio": {"sum": "bill"}, "over": {"sum": "age"}}], "a ratio of 'age' in one table"),
        ([{"sd": "ward"}], "a column without bounds"),
        ([{"variance": "age", "clip": [18, 90]}, {"mean": "age", "clip": [0, 90]}], "another clip of 'age'"),
        ([{"variance": "age", "clip": [18, 200]}], "[18, 200]"),
        ([{"variance": "agee"}], "the column 'agee'"),
    ],
)
def test_what_does_not_fit_the_contract_is_told(stays: Contract, statistics: list[Any], told: str) -> None:
    problems = [problem for _, problem in statistics_problems(product_of(*statistics), stays)]
    assert len(problems) == 1
    assert told in problems[0].found
    assert problems[0].remedy


@pytest.mark.parametrize(
    ("statistic", "told"),
    [
        ({"variance": "age", "resolution": 1}, "the unknown key 'resolution'"),
        ({"variance": ["age", "bill"]}, "the name of one column"),
        ({"variance": "age", "sd": "age"}, "allowed"),
        ({"var": "age"}, "allowed"),
        ({"sd": None}, "a sd of no column"),
        ({"ratio": {"variance": "age"}, "over": {"sum": "bill"}}, "allowed"),
    ],
)
def test_a_form_that_is_none_is_refused(statistic: Any, told: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Statistic.model_validate(statistic)
    assert told in str(caught.value) or told == "allowed"


def test_a_lattice_is_the_same_in_every_form(stays: Contract) -> None:
    """Offsets stand in the snapshot under the lattice, so that forms share them."""
    found = [product_of(*each).lattices(stays) for each in ([AWAY], [AWAY, {"variance": "age"}], [AWAY, "count"])]
    lattice = replace(found[0][0], low=Decimal(18), high=Decimal(90))
    assert found[0] == found[1] == found[2] == (lattice, one_step_wider(lattice))
