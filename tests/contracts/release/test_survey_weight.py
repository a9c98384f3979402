"""Survey weights in a spec: their form, the lattices and draws that they make, and refusals with words."""

import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from pydantic import ValidationError

from contracts.contract.contract import Contract
from contracts.domains.addends import WeightedCount
from contracts.domains.lattice import ValueLattice, one_step_wider
from contracts.domains.trees import ValueTree
from contracts.errors import SpecRefused
from contracts.release.spec import load_spec, spec_schema
from contracts.release.spec_checks import check_spec
from contracts.release.statistics import StatisticsProduct
from contracts.release.statistics_rules import statistics_problems
from tests.contracts.release.test_statistics import SPEC, spec_of
from tests.contracts.samples import column, contract_of, loaded, replaced, write

LONG = {"column": "age", "clip": [0, 40], "step": 2}
AGE = ValueLattice("age", Decimal(0), Decimal(99), Decimal(1), counts_missing=True)


def product_of(weight: Any, *statistics: Any) -> StatisticsProduct:
    table = {"by": ["ward"], "of": list(statistics) or ["count"], "survey_weight": weight}
    return StatisticsProduct.model_validate({"kind": "statistics", "tables": [table]})


def test_a_weight_is_part_of_every_draw_of_its_table(stays: Contract):
    """Of sums and of trees; the snapshot gets the offsets of values and of weights, each once."""
    product = product_of("age", "count", {"mean": "bill"}, {"quantiles": [0.5], "of": "bill"})
    (table,) = product.tables
    (_, lattice), (_, tree) = table.draws(stays)
    assert isinstance(lattice, ValueLattice)
    assert isinstance(tree, ValueTree)
    assert lattice.weight == tree.weight == AGE
    assert (lattice.row_moves, tree.row_moves) == ((9000 * 99,), (99,) * tree.levels)
    assert product.lattices(stays) == (replace(lattice, weight=None), AGE)
    assert set(product.names(stays)) == {"ward", "bill", "age"}
    assert not list(statistics_problems(product, stays))


def test_a_table_of_counts_alone_has_one_number_a_cell(stays: Contract):
    product = product_of(LONG)
    ((key, addends),) = product.tables[0].draws(stays)
    assert key == "table:ward"
    assert isinstance(addends, WeightedCount)
    assert (addends.parts, addends.part_names, addends.row_moves) == (1, ("weight",), (20,))
    assert addends.weight == ValueLattice("age", Decimal(0), Decimal(40), Decimal(2), counts_missing=True)
    assert addends.to_json() == {**addends.weight.to_json(), "counts_rows": True}
    assert product.lattices(stays) == (addends.weight, one_step_wider(addends.weight))


def test_tables_have_weights_of_their_own(stays: Contract):
    """A column that is added up with and without weights has one offset in the snapshot."""
    tables = [
        {"by": ["ward"], "of": [{"mean": "bill"}], "survey_weight": "age"},
        {"by": [], "of": [{"mean": "bill"}]},
    ]
    product = StatisticsProduct.model_validate({"kind": "statistics", "tables": tables})
    (weighed,), (plain,) = (table.lattices(stays) for table in product.tables)
    assert replace(weighed, weight=None) == plain
    assert weighed != plain
    assert product.lattices(stays) == (plain, AGE)


@pytest.mark.parametrize("weight", ["age", LONG, {"column": "age"}])
def test_a_product_is_read_again_from_what_is_written_of_it(tmp_path: Path, weight: Any):
    """Through JSON, and by the published schema."""
    product = product_of(weight)
    assert StatisticsProduct.model_validate(product.model_dump(mode="json")) == product
    pairs = (("of: [count, {mean: age}]", f"of: [count]\n      survey_weight: {weight}".replace("'", "")),)
    assert check_spec(spec_of(tmp_path, *pairs), loaded(tmp_path)) == []
    jsonschema.Draft202012Validator(spec_schema()).validate(yaml.safe_load(replaced(SPEC, *pairs)))


@pytest.mark.parametrize(
    ("written", "says"),
    [
        (["age"], "the name of a column, or {column: COLUMN"),
        ({"clip": [0, 40]}, "the name of a column, or {column: COLUMN"),
        (5, "the name of a column, or {column: COLUMN"),
        ({"column": "age", "most": 40}, "most"),
        ({"column": "age", "clip": 40}, "a pair [low, high]"),
        ({"column": "age", "step": "fine"}, "a finite decimal number"),
    ],
)
def test_what_is_no_weight_is_refused_with_words(written: Any, says: str):
    with pytest.raises(ValidationError, match=re.escape(says)):
        product_of(written)


@pytest.mark.parametrize(
    ("weight", "statistics", "found", "told", "at"),
    [
        ("salary", [], "the column 'salary'", "one of", ()),
        ("ward", [], "'ward', a column without bounds", "of kind integer or decimal", ()),
        ({"column": "age", "clip": [0, 100]}, [], "[0, 100]", "write clip: [0, 99]", ("clip",)),
        ({"column": "age", "clip": [1, 40]}, [], "[1, 40]", "write clip: [0, 40]", ("clip",)),
        ({"column": "age", "clip": [0, 0]}, [], "'age': [0, 0]", "a lower end below the upper end", ("clip",)),
        ({"column": "age", "clip": [0, -4]}, [], "'age': [0, -4]", "a lower end below the upper end", ("clip",)),
        ({"column": "age", "step": 2}, [], "'age': [0, 99] in steps of 2", "divides the range", ("step",)),
        ({"column": "age", "step": 0}, [], "'age': a step of 0", "a step above 0", ("step",)),
        ({"column": "age", "step": "1e-8"}, [], "9,900,000,000 steps of 1e-8", "write `step:` 1e-7", ("step",)),
    ],
)
def test_what_does_not_fit_the_contract_is_refused_with_words(
    stays: Contract, weight: Any, statistics: list[Any], found: str, told: str, at: tuple[str, ...]
):
    """Once, at the key that is wrong."""
    ((place, problem),) = statistics_problems(product_of(weight, *statistics), stays)
    assert found in problem.found
    assert told in f"{problem.allowed} {problem.remedy}"
    assert (*place, *problem.at) == ("tables", 0, "survey_weight", *at)


def test_the_weight_itself_is_not_added_up(stays: Contract):
    """The sum of the weights is the count; that of the weights' squares is nothing that anybody asked for."""
    for written in ({"sum": "age"}, {"mean": "age"}, {"quantiles": [0.5], "of": "age"}):
        ((_, problem),) = statistics_problems(product_of("age", "count", written), stays)
        assert problem.found == "the survey weight 'age'"
        assert "write count" in str(problem.remedy)
        assert problem.at == ("of", 1, next(iter(written)))


def test_an_effective_size_adds_the_weight_up_weighted_by_itself(stays: Contract):
    """One draw more, of the squares: a row moves it by the square of the largest weight."""
    product = product_of(LONG, "count", {"effective_size": "age"})
    assert not list(statistics_problems(product, stays))
    ((key, lattice),) = product.tables[0].draws(stays)
    weight = ValueLattice("age", Decimal(0), Decimal(40), Decimal(2), counts_missing=True)
    assert (key, lattice) == ("table:ward/age", replace(weight, weight=weight))
    assert isinstance(lattice, ValueLattice)
    assert lattice.row_moves == (20 * 20,)
    assert product.lattices(stays) == (weight, one_step_wider(weight))
    assert product.tables[0].of[1].name == "effective_size_age"
    assert StatisticsProduct.model_validate(product.model_dump(mode="json")) == product


@pytest.mark.parametrize(
    ("weight", "found", "told"),
    [
        ("age", "the effective size of 'bill', which is no survey weight", "write age"),
        (None, "the effective size of 'bill', which is no survey weight", "write survey_weight: bill"),
    ],
)
def test_an_effective_size_is_that_of_the_survey_weight(stays: Contract, weight: Any, found: str, told: str):
    ((place, problem),) = statistics_problems(product_of(weight, {"effective_size": "bill"}), stays)
    assert found in problem.found
    assert problem.remedy == told
    assert (*place, *problem.at) == ("tables", 0, "of", 0, "effective_size")


def test_squares_of_too_many_steps_are_refused(stays: Contract):
    fine = {"column": "bill", "step": "0.01"}
    ((_, problem),) = statistics_problems(product_of(fine, {"effective_size": "bill"}), stays)
    assert "90,000 steps of 0.01, times a weight of 90,000 steps" in problem.found
    assert problem.remedy == "take a lower clip of the weight, or a larger step: its squares are added up"
    with pytest.raises(ValidationError, match="the unknown key 'step'"):
        product_of("age", {"effective_size": "age", "step": 2})


def test_steps_of_values_and_weights_together_are_bounded(stays: Contract):
    """A sum hands out both; the remedy names a step that is enough. A tree counts weights alone."""
    fine = {"mean": "bill", "step": "0.0001"}
    ((place, problem),) = statistics_problems(product_of({"column": "age", "step": "0.01"}, fine), stays)
    assert "9,000,000 steps of 0.0001, times a weight of 9,900 steps" in problem.found
    assert "1,000,000,000 steps" in problem.allowed
    assert "write `step:` 0.01 or more beside 'bill'" in str(problem.remedy)
    assert (*place, *problem.at) == ("tables", 0, "of", 0, "step")
    enough = product_of({"column": "age", "step": "0.01"}, {**fine, "step": "0.01"})
    assert not list(statistics_problems(enough, stays))
    tree = {"quantiles": [0.5], "of": "bill", "step": "0.0001"}
    assert not list(statistics_problems(product_of({"column": "age", "step": "0.01"}, tree), stays))


def test_a_column_that_may_be_below_0_is_no_weight():
    """A bound above 0 is fine: weights count from 0 on."""
    contract = contract_of(
        column("integer", "integer", "balance", bounds=[-1, 9], bins={"width": 1}),
        column("integer", "integer", "people", bounds=[1, 9], bins={"width": 1}),
        column("categories", "string", "ward", values=["a", "b"]),
    )
    ((_, problem),) = statistics_problems(product_of("balance"), contract)
    assert "whose bounds begin at -1" in problem.found
    assert "raise the contract's lower bound to 0" in str(problem.remedy)
    assert not list(statistics_problems(product_of("people"), contract))
    ((_, addends),) = product_of("people").tables[0].draws(contract)
    assert isinstance(addends, WeightedCount)
    assert (addends.weight.low, addends.weight.width) == (0, 9)


@pytest.mark.parametrize(
    "product",
    [
        "{kind: tables, mechanism: laplace, tables: [[sex]], survey_weight: age}",
        "{kind: tables, mechanism: laplace, tables: [{columns: [sex], name: s, survey_weight: age}]}",
        "{kind: statistics, tables: [{by: [sex], of: [count]}], survey_weight: age}",
    ],
)
def test_the_key_elsewhere_is_refused_with_the_place_where_it_stands(tmp_path: Path, product: str):
    """Tables of counts have no weights: the remedy is a table of statistics."""
    text = SPEC[: SPEC.index("product:")] + f"product: {product}\n" + SPEC[SPEC.index("publish:") :]
    with pytest.raises(SpecRefused) as caught:
        load_spec(write(tmp_path, "people.yaml", text))
    (finding,) = caught.value.findings
    assert finding.found == "the unknown key 'survey_weight'"
    assert "a table of `kind: statistics`, beside `of:`; weighted counts are `of: [count]`" in finding.remedy
