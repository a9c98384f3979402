"""Units and distinct values in a spec: their forms, the draws that they make, and refusals with words."""

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from pydantic import ValidationError

from contracts.contract.contract import Contract
from contracts.domains.addends import DistinctCount
from contracts.domains.lattice import ValueLattice
from contracts.domains.text import KeyColumn
from contracts.release.spec import spec_schema
from contracts.release.statistics import StatisticsProduct
from contracts.release.statistics_rules import statistics_problems
from privacy.statistics.plan import StatisticsPlan, clip_costs, expected_errors, plan_statistics
from tests.contracts.release.test_statistics import SPEC
from tests.contracts.samples import replaced
from tests.worlds.statistics import StatisticsScenario

AGE = ValueLattice("age", Decimal(0), Decimal(99), Decimal(1), counts_missing=True)


def product_of(*statistics: Any, **table: Any) -> StatisticsProduct:
    written = {"by": ["ward"], "of": list(statistics), **table}
    return StatisticsProduct.model_validate({"kind": "statistics", "tables": [written]})


def test_each_is_a_draw_of_its_own_after_those_of_columns(bounded_stays: Contract):
    """Counts are drawn alone only where they are asked for; the snapshot gets what tells values apart, each once."""
    statistics = ["units", "count", {"distinct": "note"}, {"distinct": "age"}, {"distinct": "floor"}]
    (table,) = product_of(*statistics).tables
    assert table.draw_keys == (
        "table:ward",
        *("table:ward/units", "table:ward/distinct/note", "table:ward/distinct/age", "table:ward/distinct/floor"),
    )
    assert [addends for _, addends in table.draws(bounded_stays)] == [
        None,
        DistinctCount(None, None, True),
        DistinctCount("note", None, True),
        DistinctCount("age", 100, True),
        DistinctCount("floor", 3, True),
    ]
    assert table.published_columns[1:4] == ("units", "units_low", "units_high")
    product = product_of(*statistics, {"mean": "age"})
    assert product.lattices(bounded_stays) == (AGE, KeyColumn("note"), KeyColumn("patient"))
    assert set(product.names(bounded_stays)) == {"ward", "age", "note", "floor"}
    (alone,) = product_of({"distinct": "note"}).tables
    assert alone.draw_keys == ("table:ward/distinct/note",)
    assert not list(statistics_problems(product, bounded_stays))


def test_selected_keys_bound_no_cells(bounded_stays: Contract):
    (table,) = product_of("units", {"distinct": "age"}, by=["note"], keys="private").tables
    assert [addends for _, addends in table.draws(bounded_stays)] == [
        DistinctCount(None, None, False),
        DistinctCount("age", 100, False),
    ]


def test_no_weight_enters(bounded_stays: Contract):
    """A count beside is foretold in weights, units and values are not; a lower clip changes the count alone."""
    product = product_of("count", "units", {"distinct": "note"}, survey_weight="age")
    assert not list(statistics_problems(product, bounded_stays))
    plan = plan_statistics(product, bounded_stays, epsilon=Decimal(3), delta=Decimal(0))
    count, units, notes = expected_errors(product.tables[0], plan.draws)
    # Each has an epsilon of 1: the scales are 3 rows of 99 steps, one unit in three cells, and three values.
    assert [round(each.half_width / 2.9957) for each in (count, units, notes)] == [297, 3, 3]
    assert [each.weighed for each in (count, units, notes)] == [True, False, False]
    assert [clip for clip, _ in clip_costs(plan.draws)] == [99, 49, 24]


@pytest.mark.parametrize("written", ["units", {"distinct": "note"}, {"what": "units"}])
def test_a_product_is_read_again_from_what_is_written_of_it(written: Any):
    """Through JSON, and by the published schema."""
    product = product_of("count", written)
    assert StatisticsProduct.model_validate(product.model_dump(mode="json")) == product
    if "what" not in written:
        text = replaced(SPEC, ("of: [count, {mean: age}]", f"of: [count, {written}]".replace("'", "")))
        jsonschema.Draft202012Validator(spec_schema()).validate(yaml.safe_load(text))


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("unit", "units, or {distinct: COLUMN}"),
        ("Units", "units, or {distinct: COLUMN}"),
        ("distinct", "{distinct: COLUMN}"),
        ({"distinct": ["a", "b"]}, "the name of one column"),
        ({"distinct": "age", "clip": [0, 9]}, "the unknown key 'clip'"),
        ({"distinct": "age", "step": 2}, "the unknown key 'step'"),
        ({"units": "age"}, "units alone"),
        ({"distinct": None}, "of no column"),
        ({"what": "units", "clip": [0, 9]}, "units alone"),
    ],
)
def test_what_is_no_distinct_count_is_refused_with_words(written: Any, says: str):
    with pytest.raises(ValidationError, match=re.escape(says)):
        product_of(written)


@pytest.mark.parametrize(
    ("statistics", "table", "found", "told", "at"),
    [
        ([{"distinct": "patient"}], {}, "the column 'patient'", "write units", ("of", 0, "distinct")),
        ([{"distinct": "units"}], {}, "the column 'units'", "write units, without", ("of", 0, "distinct")),
        (["count", {"distinct": "wards"}], {}, "the column 'wards'", "'ward'", ("of", 1, "distinct")),
        ([{"distinct": "ward"}], {}, "by which the table is grouped", "drop it", ("of", 0, "distinct")),
        (["units"], {"survey_weight": "age"}, "nothing that is weighed", "drop survey_weight", ("survey_weight",)),
    ],
)
def test_what_does_not_fit_the_contract_is_refused_with_words(
    bounded_stays: Contract, statistics: list[Any], table: dict[str, Any], found: str, told: str, at: tuple[Any, ...]
):
    """Once, at the key that is wrong."""
    ((place, problem),) = statistics_problems(product_of(*statistics, **table), bounded_stays)
    assert found in problem.found
    assert told in f"{problem.allowed} {problem.remedy}"
    assert problem.at == at
    assert place == ("tables", 0)


def test_units_of_one_row_each_are_the_count(tmp_path: Path):
    """Rows are units, or an id has one row: the number would be drawn twice."""
    _, contract, _, ledger = StatisticsScenario().prepared_of(tmp_path, StatisticsPlan)
    ledger.close()
    ((_, problem),) = statistics_problems(product_of("units"), contract)
    assert "write count" in problem.remedy
    assert not list(statistics_problems(product_of({"distinct": "age"}), contract))


def test_statistics_of_different_names_collide_nowhere(bounded_stays: Contract):
    with pytest.raises(ValidationError, match="units twice"):
        product_of("units", "units")
    two = product_of({"distinct": "note"}, {"distinct": "age"}, "units")
    assert len(set(two.tables[0].draw_keys)) == 3
