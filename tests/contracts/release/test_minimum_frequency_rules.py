"""A minimum frequency over statistics: which tables it goes with, and what is said of the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from contracts.release.statistics import StatisticsProduct
from tests.contracts.release.test_statistics import findings, product_of

RULE = ("mechanism: laplace", "mechanism: laplace\n  minimum_frequency: {k: 10, t: auto, at_most: 0.01}")


def test_a_rule_is_read_and_written_again_and_products_without_one_say_nothing(tmp_path: Path) -> None:
    product = product_of(tmp_path, RULE)
    assert product.minimum_frequency is not None
    assert (product.minimum_frequency.k, product.minimum_frequency.t) == (10, "auto")
    assert StatisticsProduct.model_validate(product.model_dump(mode="json", by_alias=True)) == product
    assert "minimum_frequency" not in product_of(tmp_path).model_dump(mode="json", by_alias=True)
    assert findings(tmp_path, RULE) == []


REFUSED = {
    "a sum alone": (
        "of: [count, {mean: age}]",
        "of: [{sum: age}]",
        "the sum of 'age' alone",
        "add count to `of:`",
        "product.tables[0].of[0]",
    ),
    "a survey weight": (
        "of: [count, {mean: age}]",
        "of: [count, {mean: age}]\n      survey_weight: {column: income, clip: [0, 1]}",
        "a survey weight in table 'sex'",
        "drop `survey_weight:`",
        "product.tables[0].survey_weight",
    ),
    "chosen quantiles": (
        "of: [count, {mean: age}]",
        "of: [{quantiles: [0.5], of: age}]",
        "quantiles by method auto",
        "write method: tree",
        "product.tables[0].of[0]",
    ),
    "different values": (
        "of: [count, {mean: age}]",
        "of: [count, {distinct: age}]",
        "distinct under a `minimum_frequency`",
        "ask for it in a release without the rule",
        "product.tables[0].of[1]",
    ),
    "no probability": (
        "auto, at_most: 0.01",
        "auto",
        "t: auto without `at_most`",
        "add `at_most: 0.01`",
        "product.minimum_frequency",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_count_rows_is_refused_with_what_to_write(tmp_path: Path, what: str) -> None:
    old, new, found, remedy, field = REFUSED[what]
    (refused,) = findings(tmp_path, RULE, (old, new))
    assert refused.found.startswith(found)
    assert refused.remedy.startswith(remedy)
    assert refused.field.startswith(field)


def test_quantiles_of_a_tree_and_sums_with_their_counts_go_with_it(tmp_path: Path) -> None:
    tree = "of: [{sum: age}, count, {quantiles: [0.5], of: age, method: tree}]"
    assert findings(tmp_path, RULE, ("of: [count, {mean: age}]", tree)) == []


def test_a_column_named_like_the_mark_is_refused(tmp_path: Path) -> None:
    """Only where a rule is there: without one no file has such a column."""
    renamed = (("name: sex", "name: suppressed"), ("{sex: [F]", "{suppressed: [F]"))
    spec = [("by: [sex]", "by: [suppressed]"), ("by: [job, sex]", "by: [job, suppressed]")]
    assert findings(tmp_path, *spec, contract=renamed) == []
    assert {each.found for each in findings(tmp_path, RULE, *spec, contract=renamed)} == {"the column 'suppressed'"}
