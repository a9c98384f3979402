"""Quantiles, variances and quotas in a spec: their form, their names and draws, and refusals with words."""

import re
from dataclasses import replace
from decimal import Decimal
from typing import Any

import jsonschema
import pytest
import yaml
from pydantic import ValidationError

from contracts.contract.contract import Contract
from contracts.domains.addends import LoneSum, ValueMoments
from contracts.domains.lattice import ValueLattice, one_step_wider
from contracts.domains.text import KeyColumn, UnitOrder
from contracts.domains.trees import ValueTree
from contracts.release.spec import spec_schema
from contracts.release.statistics import Statistic, StatisticsProduct
from contracts.release.statistics_rules import statistics_problems
from privacy.accounting.events import DiscreteLaplace
from privacy.statistics.plan import StatisticsPlan, expected_errors, plan_statistics
from tests.contracts.release.conftest import contract_of
from tests.contracts.release.test_distinct_specs import product_of
from tests.contracts.release.test_statistics import SPEC
from tests.contracts.samples import replaced
from tests.worlds.statistics import gaussian, pure

AWAY = {"sum": "age", "clip": [18, 90]}


@pytest.fixture(scope="module")
def units(tmp_path_factory: pytest.TempPathFactory) -> Contract:
    """The same with three rows a unit."""
    return contract_of(gaussian(), tmp_path_factory)


def forms(contract: Contract, *statistics: Any) -> list[type[object]]:
    product = product_of(*statistics)
    assert not list(statistics_problems(product, contract))
    return [type(each) for _, each in product.tables[0].draws(contract)]


def test_a_variance_has_three_columns_and_no_draw_of_its_own(stays: Contract):
    """Sum, mean, variance and deviation of a column come of one draw, under the column's name."""
    product = product_of("count", {"mean": "age"}, {"variance": "age"}, {"sd": "age"}, {"sum": "age"})
    (table,) = product.tables
    assert table.of[2].published == ("variance_age", "variance_age_low", "variance_age_high")
    assert table.of[3].published == ("sd_age", "sd_age_low", "sd_age_high")
    ((key, moments),) = table.draws(stays)
    assert (key, moments) == ("table:ward/age", ValueMoments(table.lattices(stays)[0], 7 * 99**2))
    assert StatisticsProduct.model_validate(product.model_dump(mode="json")) == product


def test_steps_of_moments_are_shared_by_the_rows_of_a_unit(units: Contract):
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
):
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
def test_what_does_not_fit_the_contract_is_told(stays: Contract, statistics: list[Any], told: str):
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
def test_a_form_that_is_none_is_refused(statistic: Any, told: str):
    with pytest.raises(ValidationError) as caught:
        Statistic.model_validate(statistic)
    assert told in str(caught.value) or told == "allowed"


def test_a_lattice_is_the_same_in_every_form(stays: Contract):
    """Offsets stand in the snapshot under the lattice, so that forms share them."""
    found = [product_of(*each).lattices(stays) for each in ([AWAY], [AWAY, {"variance": "age"}], [AWAY, "count"])]
    lattice = replace(found[0][0], low=Decimal(18), high=Decimal(90))
    assert found[0] == found[1] == found[2] == (lattice, one_step_wider(lattice))


def refusal(*statistics: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        product_of(*statistics)
    return str(caught.value)


def test_each_quantile_has_three_columns_and_all_have_one_draw(stays: Contract):
    """Named after the percentage; sums and trees of a column are draws of their own."""
    product = product_of(
        "count", {"mean": "bill"}, {"quantiles": [0.025, "0.5", 0.9], "of": "bill", "resolution": 0.5}
    )
    (table,) = product.tables
    ends = ("", "_low", "_high")
    assert table.of[2].published == tuple(f"{name}_bill{end}" for name in ("q2.5", "q50", "q90") for end in ends)
    (first, lattice), (second, tree) = table.draws(stays)
    assert (first, second) == ("table:ward/bill", "table:ward/quantiles/bill")
    assert isinstance(lattice, ValueLattice)
    assert isinstance(tree, ValueTree)
    assert (tree.lattice, tree.resolution) == (lattice, Decimal("0.5"))
    assert product.lattices(stays) == (lattice,)
    assert lattice.key != tree.key == table.of[2].key
    assert not list(statistics_problems(product, stays))


def test_a_product_is_read_again_from_what_is_written_of_it(stays: Contract):
    product = product_of({"quantiles": [0.1, 0.5], "of": "age", "clip": [18, 90]}, by=())
    assert StatisticsProduct.model_validate(product.model_dump(mode="json")) == product
    (tree,) = product.tables[0].trees(stays)
    assert (tree.resolution, tree.lattice.counts_missing, tree.leaves) == (Decimal(1), True, 73)
    assert [key for key, _ in product.tables[0].draws(stays)] == ["table:all/quantiles/age"]


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ({"quantiles": [], "of": "age"}, "an empty list of quantiles"),
        ({"quantiles": [0], "of": "age"}, "a number above 0 and below 1"),
        ({"quantiles": [0.5, 1], "of": "age"}, "a number above 0 and below 1"),
        ({"quantiles": [90], "of": "age"}, "a number above 0 and below 1"),
        ({"quantiles": [-0.1], "of": "age"}, "a number above 0 and below 1"),
        ({"quantiles": [0.5, "0.50"], "of": "age"}, "each once"),
        ({"quantiles": ["0.1234567"], "of": "age"}, "at most 6 decimals"),
        ({"quantiles": 0.5, "of": "age"}, "a list"),
        ({"quantiles": [0.5]}, "of: COLUMN"),
        ({"quantiles": [0.5], "of": "age", "by": "ward"}, "of: COLUMN"),
        ({"mean": "age", "resolution": 5}, "the unknown key 'resolution'"),
        ({"what": "sum", "column": "age", "quantiles": [0.5]}, "quantiles, a resolution or a method with a sum"),
    ],
)
def test_what_is_no_quantile_is_refused_with_words(written: Any, says: str):
    assert says in refusal(written)


def test_quantiles_of_a_column_stand_in_one_list():
    assert "quantiles_age twice" in refusal({"quantiles": [0.5], "of": "age"}, {"quantiles": [0.9], "of": "age"})


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ({"resolution": 0.3, "step": 0.25}, "a multiple of the step, 0.25"),
        ({"resolution": 0}, "a multiple of the step"),
        ({"resolution": 1000}, "at most the length of the clip"),
        ({"clip": [0, 901]}, "a clip within the bounds"),
        ({"step": "0.0001", "resolution": "0.0001"}, "at most 16,777,216 numbers"),
        ({"step": 7}, "a whole number of steps"),
        ({"step": 0}, "a step above 0"),
    ],
)
def test_what_does_not_fit_the_contract_is_refused_with_words(stays: Contract, written: Any, says: str):
    """Once, at its place in the list."""
    product = product_of("count", {"quantiles": [0.5], "of": "bill", **written})
    ((at, problem),) = statistics_problems(product, stays)
    assert says in problem.allowed
    assert at == ("tables", 0)
    assert problem.at[:2] == ("of", 1)


def test_other_columns_and_clips_are_refused_as_for_sums(stays: Contract):
    for written, says in (
        ({"quantiles": [0.5], "of": "ward"}, "a column without bounds"),
        ({"quantiles": [0.5], "of": "salary"}, "the column 'salary'"),
    ):
        ((_, problem),) = statistics_problems(product_of(written), stays)
        assert says in problem.found
    both = product_of({"mean": "bill", "clip": [0, 500]}, {"quantiles": [0.5], "of": "bill", "clip": [0, 100]})
    ((_, problem),) = statistics_problems(both, stays)
    assert "another clip" in problem.found


def test_the_schema_has_the_written_form():
    """An editor that follows the schema knows quantiles."""
    forms = Statistic.model_json_schema()["anyOf"]
    (form,) = [each for each in forms if "quantiles" in each.get("properties", {})]
    assert set(form["properties"]) == {*("quantiles", "of", "method", "interval_share", "resolution", "clip", "step")}
    assert form["required"] == ["quantiles", "of"]


def test_a_column_that_takes_the_name_of_a_tree_is_refused(stays: Contract):
    """Its sum, and the tree of the other column, would be one draw."""
    other = stays.column("age").model_copy(update={"name": "quantiles/age"})
    contract = stays.model_copy(update={"columns": (*stays.columns, other)})
    product = product_of({"mean": "quantiles/age"}, {"quantiles": [0.5], "of": "age"})
    ((_, problem),) = statistics_problems(product, contract)
    assert "two draws named 'table:ward/quantiles/age'" in problem.found


QUOTA = {"sum": "bill", "clip": [0, 500], "step": 2.5, "per_unit": 400}


def test_a_sum_within_a_quota_is_a_draw_alone_and_a_count_is_another(bounded_stays: Contract):
    """Another column's draw counts the rows where there is one; the snapshot gets ids and places of rows."""
    product = product_of("count", QUOTA)
    (table,) = product.tables
    assert table.draw_keys == ("table:ward/bill", "table:ward")
    lattice = ValueLattice("bill", Decimal(0), Decimal(500), Decimal("2.5"), counts_missing=False)
    assert [addends for _, addends in table.draws(bounded_stays)] == [LoneSum(lattice, Decimal(400)), None]
    assert product.lattices(bounded_stays) == (
        lattice,
        one_step_wider(lattice),
        KeyColumn("patient"),
        UnitOrder("patient"),
    )
    (beside,) = product_of("count", QUOTA, {"mean": "age"}).tables
    assert beside.draw_keys == ("table:ward/bill", "table:ward/age")
    assert not list(statistics_problems(product, bounded_stays))


def test_units_of_one_row_need_no_order(tmp_path_factory: pytest.TempPathFactory):
    _, contract, _, ledger = pure().prepared_of(tmp_path_factory.mktemp("rows"), StatisticsPlan)
    ledger.close()
    product = product_of(QUOTA)
    assert all(isinstance(each, ValueLattice) for each in product.lattices(contract))
    assert not list(statistics_problems(product, contract))


def test_the_plan_charges_the_quota_and_foretells_its_interval(bounded_stays: Contract):
    """160 steps in place of 3 rows of 200: the noise of 400 at an epsilon of 1, and that of 3 rows beside it."""
    product = product_of(QUOTA, "count")
    plan = plan_statistics(product, bounded_stays, epsilon=Decimal(2), delta=Decimal(0))
    assert [draw.event.moves for draw in plan.draws] == [(160,), (3,)]
    assert isinstance(plan.draws[0].event, DiscreteLaplace)
    summed, counted = expected_errors(product.tables[0], plan.draws)
    assert summed.half_width == pytest.approx(400 * 2.9957, rel=0.01)
    assert counted.half_width == pytest.approx(3 * 2.9957, abs=1)


def test_a_product_with_a_quota_is_read_again_from_what_is_written_of_it():
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
def test_what_has_no_quota_is_refused_with_words(written: Any, says: str):
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
    bounded_stays: Contract, statistics: list[Any], table: dict[str, Any], found: str, told: str
):
    """Once, at the key."""
    ((place, problem),) = statistics_problems(product_of("count", *statistics, **table), bounded_stays)
    assert found in problem.found
    assert told in f"{problem.allowed} {problem.remedy}"
    assert problem.at == ("of", 1, "per_unit")
    assert place == ("tables", 0)
