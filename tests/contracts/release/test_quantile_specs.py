"""Quantiles in a spec: their form, their names and draws, and refusals with words."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from pydantic import ValidationError

from contracts.contract.contract import Contract
from contracts.domains.lattice import ValueLattice
from contracts.domains.trees import ValueTree
from contracts.release.statistics import Statistic, StatisticsProduct
from contracts.release.statistics_rules import statistics_problems
from tests.worlds.statistics import StatisticsScenario


@pytest.fixture(scope="module")
def stays(tmp_path_factory: pytest.TempPathFactory) -> Contract:
    """The contract of stays: ages of 0 to 99 that may be missing, bills of 0 to 900."""
    from privacy.statistics.plan import StatisticsPlan

    _, contract, _, ledger = StatisticsScenario().prepared_of(tmp_path_factory.mktemp("stays"), StatisticsPlan)
    ledger.close()
    return contract


def product_of(*statistics: Any, by: tuple[str, ...] = ("ward",)) -> StatisticsProduct:
    """Read a product of one table."""
    return StatisticsProduct.model_validate({"kind": "statistics", "tables": [{"by": by, "of": list(statistics)}]})


def refusal(*statistics: Any) -> str:
    """Return what a reader says."""
    with pytest.raises(ValidationError) as caught:
        product_of(*statistics)
    return str(caught.value)


def test_each_quantile_has_three_columns_and_all_have_one_draw(stays: Contract) -> None:
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


def test_a_product_is_read_again_from_what_is_written_of_it(stays: Contract) -> None:
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
def test_what_is_no_quantile_is_refused_with_words(written: Any, says: str) -> None:
    assert says in refusal(written)


def test_quantiles_of_a_column_stand_in_one_list() -> None:
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
def test_what_does_not_fit_the_contract_is_refused_with_words(stays: Contract, written: Any, says: str) -> None:
    """Once, at its place in the list."""
    product = product_of("count", {"quantiles": [0.5], "of": "bill", **written})
    ((at, problem),) = statistics_problems(product, stays)
    assert says in problem.allowed
    assert at == ("tables", 0)
    assert problem.at[:2] == ("of", 1)


def test_other_columns_and_clips_are_refused_as_for_sums(stays: Contract) -> None:
    for written, says in (
        ({"quantiles": [0.5], "of": "ward"}, "a column without bounds"),
        ({"quantiles": [0.5], "of": "salary"}, "the column 'salary'"),
    ):
        ((_, problem),) = statistics_problems(product_of(written), stays)
        assert says in problem.found
    both = product_of({"mean": "bill", "clip": [0, 500]}, {"quantiles": [0.5], "of": "bill", "clip": [0, 100]})
    ((_, problem),) = statistics_problems(both, stays)
    assert "another clip" in problem.found


def test_the_schema_has_the_written_form() -> None:
    """An editor that follows the schema knows quantiles."""
    forms = Statistic.model_json_schema()["anyOf"]
    (form,) = [each for each in forms if "quantiles" in each.get("properties", {})]
    assert set(form["properties"]) == {*("quantiles", "of", "method", "interval_share", "resolution", "clip", "step")}
    assert form["required"] == ["quantiles", "of"]


def test_a_column_that_takes_the_name_of_a_tree_is_refused(stays: Contract) -> None:
    """Its sum, and the tree of the other column, would be one draw."""
    other = stays.column("age").model_copy(update={"name": "quantiles/age"})
    contract = stays.model_copy(update={"columns": (*stays.columns, other)})
    product = product_of({"mean": "quantiles/age"}, {"quantiles": [0.5], "of": "age"})
    ((_, problem),) = statistics_problems(product, contract)
    assert "two draws named 'table:ward/quantiles/age'" in problem.found
