"""A quota of a sum in a spec (`per_unit`): its draws, its price, what a plan foretells, and refusals with words."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import jsonschema
import pytest
import yaml
from pydantic import ValidationError

from contracts.contract.contract import Contract
from contracts.domains.addends import LoneSum
from contracts.domains.lattice import ValueLattice, one_step_wider
from contracts.domains.text import KeyColumn, UnitOrder
from contracts.release.spec import spec_schema
from contracts.release.statistics import StatisticsProduct
from contracts.release.statistics_rules import statistics_problems
from privacy.accounting.events import DiscreteLaplace
from privacy.statistics.plan import StatisticsPlan, expected_errors, plan_statistics
from tests.contracts.release.test_distinct_specs import product_of
from tests.contracts.release.test_statistics import SPEC
from tests.contracts.samples import replaced
from tests.worlds.distinct_counts import laplace
from tests.worlds.statistics import pure

QUOTA = {"sum": "bill", "clip": [0, 500], "step": 2.5, "per_unit": 400}


@pytest.fixture(scope="module")
def stays(tmp_path_factory: pytest.TempPathFactory) -> Contract:
    """At most three stays of a patient."""
    _, contract, _, ledger = laplace().prepared_of(tmp_path_factory.mktemp("stays"), StatisticsPlan)
    ledger.close()
    return contract


def test_a_sum_within_a_quota_is_a_draw_alone_and_a_count_is_another(stays: Contract) -> None:
    """Another column's draw counts the rows where there is one; the snapshot gets ids and places of rows."""
    product = product_of("count", QUOTA)
    (table,) = product.tables
    assert table.draw_keys == ("table:ward/bill", "table:ward")
    lattice = ValueLattice("bill", Decimal(0), Decimal(500), Decimal("2.5"), counts_missing=False)
    assert [addends for _, addends in table.draws(stays)] == [LoneSum(lattice, Decimal(400)), None]
    assert product.lattices(stays) == (lattice, one_step_wider(lattice), KeyColumn("patient"), UnitOrder("patient"))
    (beside,) = product_of("count", QUOTA, {"mean": "age"}).tables
    assert beside.draw_keys == ("table:ward/bill", "table:ward/age")
    assert not list(statistics_problems(product, stays))


def test_units_of_one_row_need_no_order(tmp_path_factory: pytest.TempPathFactory) -> None:
    _, contract, _, ledger = pure().prepared_of(tmp_path_factory.mktemp("rows"), StatisticsPlan)
    ledger.close()
    product = product_of(QUOTA)
    assert all(isinstance(each, ValueLattice) for each in product.lattices(contract))
    assert not list(statistics_problems(product, contract))


def test_the_plan_charges_the_quota_and_foretells_its_interval(stays: Contract) -> None:
    """160 steps in place of 3 rows of 200: the noise of 400 at an epsilon of 1, and that of 3 rows beside it."""
    product = product_of(QUOTA, "count")
    plan = plan_statistics(product, stays, epsilon=Decimal(2), delta=Decimal(0))
    assert [draw.event.moves for draw in plan.draws] == [(160,), (3,)]
    assert isinstance(plan.draws[0].event, DiscreteLaplace)
    summed, counted = expected_errors(product.tables[0], plan.draws)
    assert summed.half_width == pytest.approx(400 * 2.9957, rel=0.01)
    assert counted.half_width == pytest.approx(3 * 2.9957, abs=1)


def test_a_product_is_read_again_from_what_is_written_of_it() -> None:
    """Through JSON, and by the published schema; a sum without a quota is written as before."""
    product = product_of("count", QUOTA)
    assert StatisticsProduct.model_validate(product.model_dump(mode="json")) == product
    assert "per_unit" not in product_of({"sum": "bill"}).model_dump(mode="json")["tables"][0]["of"][0]
    text = replaced(SPEC, ("of: [count, {mean: age}]", f"of: [count, {QUOTA}]".replace("'", "")))
    jsonschema.Draft202012Validator(spec_schema()).validate(yaml.safe_load(text))


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ({"mean": "bill", "per_unit": 400}, "per_unit of a mean"),
        ({"variance": "bill", "per_unit": 400}, "per_unit of a variance"),
        ({"ratio": {"sum": "bill", "per_unit": 400}, "over": {"sum": "age"}}, "per_unit of a ratio"),
        ({"ratio": {"sum": "bill"}, "over": {"sum": "age", "per_unit": 4}}, "per_unit of a ratio"),
        ({"quantiles": [0.5], "of": "bill", "per_unit": 4}, "{quantiles:"),
        ({"distinct": "bill", "per_unit": 4}, "the unknown key 'per_unit'"),
        ({"sum": "bill", "per_units": 4}, "clip, step, per_unit"),
        ({"sum": "bill", "per_unit": "much"}, "'much'"),
        ({"sum": "bill", "per_unit": "inf"}, "'inf'"),
    ],
)
def test_what_has_no_quota_is_refused_with_words(written: Any, says: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(says)):
        product_of(written)


BILL = {"sum": "bill", "clip": [0, 500], "step": 2.5}


@pytest.mark.parametrize(
    ("statistics", "table", "found", "told"),
    [
        ([{**BILL, "per_unit": 0}], {}, "per_unit 0", "at least one step, 2.5"),
        ([{**BILL, "per_unit": -400}], {}, "per_unit -400", "at least one step, 2.5"),
        ([{**BILL, "per_unit": 2}], {}, "per_unit 2", "a finer `step:`"),
        ([{**BILL, "per_unit": 401}], {}, "in steps of 2.5", "write per_unit: 400"),
        ([{**BILL, "per_unit": 1500}], {}, "3 rows of a unit of at most 500 a row", "it bounds nothing"),
        ([{**BILL, "per_unit": "1e12"}], {}, "add no more than 1500", "less than 1500"),
        ([{"sum": "bill", "clip": "private", "per_unit": 400}], {}, "a private clip", "a clip of two ends"),
        ([QUOTA], {"survey_weight": "age"}, "beside a survey weight", "a low clip of the weight"),
        ([QUOTA, {"mean": "bill"}], {}, "beside its mean", "into a table of its own"),
        ([QUOTA, {"sd": "bill"}], {}, "beside its sd", "into a table of its own"),
        ([{"sum": "age", "clip": [1, 90], "step": 0.89, "per_unit": 89}], {}, "from 1 in steps of 0.89", "from 0"),
    ],
)
def test_what_does_not_fit_is_refused_where_it_is_written(
    stays: Contract, statistics: list[Any], table: dict[str, Any], found: str, told: str
) -> None:
    """Once, at the key."""
    ((place, problem),) = statistics_problems(product_of("count", *statistics, **table), stays)
    assert found in problem.found
    assert told in f"{problem.allowed} {problem.remedy}"
    assert problem.at == ("of", 1, "per_unit")
    assert place == ("tables", 0)
