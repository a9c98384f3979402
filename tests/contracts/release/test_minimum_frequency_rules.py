"""A minimum frequency over statistics: which tables it goes with, and what is said of the others."""

from pathlib import Path

import pytest

from contracts.release.statistics import StatisticsProduct
from tests.contracts.release.test_statistics import findings, product_of

RULE = ("mechanism: laplace", "mechanism: laplace\n  minimum_frequency: {k: 10, t: auto, at_most: 0.01}")
MAPPED = (
    ("nulls: {policy: category}\n              missing", "nulls: {policy: map, to: 20}\n              missing"),
)
"""The contract's ages, with missing ones counted as 20."""


def test_a_rule_is_read_and_written_again_and_products_without_one_say_nothing(tmp_path: Path):
    product = product_of(tmp_path, RULE)
    assert product.minimum_frequency is not None
    assert (product.minimum_frequency.k, product.minimum_frequency.t) == (10, "auto")
    assert StatisticsProduct.model_validate(product.model_dump(mode="json", by_alias=True)) == product
    assert "minimum_frequency" not in product_of(tmp_path).model_dump(mode="json", by_alias=True)
    assert findings(tmp_path, RULE, contract=MAPPED) == []


def test_the_draws_of_a_table_share_its_probability(tmp_path: Path):
    """The table of pay has draws of income and of age; a written t is that of each draw."""
    product = product_of(tmp_path, RULE)
    parts = {key: product.minimum_frequency_of(key) for table in product.tables for key in table.draw_keys}
    assert {key: str(rule.at_most) for key, rule in parts.items() if rule is not None} == {
        "table:sex/age": "0.01",
        "table:pay/income": "0.005",
        "table:pay/age": "0.005",
    }
    assert product.minimum_frequency_of("clip:income") is None
    written = product_of(tmp_path, RULE, ("t: auto, at_most: 0.01", "t: 3"))
    assert written.minimum_frequency_of("table:pay/age") == written.minimum_frequency
    assert product_of(tmp_path).minimum_frequency_of("table:pay/age") is None


REFUSED = {
    "a sum alone": (
        "of: [count, {mean: age}]",
        "of: [{sum: age}]",
        "the sum of 'age' alone",
        "add count to `of:`",
        "product.tables[0].of[0]",
    ),
    "a quota": (
        "of: [count, {mean: age}]",
        "of: [count, {sum: age, per_unit: 1}]",
        "per_unit of 'age'",
        "drop per_unit",
        "product.tables[0].of[1].per_unit",
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
        "quantiles under a `minimum_frequency`",
        "ask for it in a release without the rule, or drop it: a tree publishes counts of intervals",
        "product.tables[0].of[0]",
    ),
    "quantiles of a tree": (
        "of: [count, {mean: age}]",
        "of: [count, {quantiles: [0.5], of: age, method: tree}]",
        "quantiles under a `minimum_frequency`",
        "ask for it in a release without the rule, or drop it: a tree publishes counts of intervals",
        "product.tables[0].of[1]",
    ),
    "a private clip": (
        "of: [count, {mean: age}]",
        "of: [count, {sum: age, clip: private}]",
        "a private clip under a `minimum_frequency`",
        "ask for it in a release without the rule, or drop it: its histogram publishes counts of bins",
        "product.tables[0].of[1]",
    ),
    "a private clip of the lower sum of a ratio": (
        "of: [count, {mean: age}]",
        "of: [count, {ratio: {sum: age, clip: [20, 90]}, over: {sum: income, clip: private}}]",
        "a private clip under a `minimum_frequency`",
        "ask for it in a release without the rule, or drop it: its histogram publishes counts of bins",
        "product.tables[0].of[1]",
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
def test_what_does_not_count_rows_is_refused_with_what_to_write(tmp_path: Path, what: str):
    old, new, found, remedy, field = REFUSED[what]
    (refused,) = findings(tmp_path, RULE, (old, new), contract=MAPPED)
    assert refused.found.startswith(found)
    assert refused.remedy.startswith(remedy)
    assert refused.field.startswith(field)


def test_a_column_whose_missing_values_are_counted_apart_is_refused(tmp_path: Path):
    """In both tables, at the statistic that needs it; without the rule it is none's business."""
    first, second = findings(tmp_path, RULE)
    assert (first.field, second.field) == ("product.tables[0].of[1]", "product.tables[1].of[2]")
    for each in (first, second):
        assert each.found == "'age', whose missing values are counted apart, under a `minimum_frequency`"
        assert each.remedy.startswith("write nulls: {policy: map, to: VALUE}")
    assert findings(tmp_path) == []


def test_counts_sums_means_ratios_and_variances_go_with_it(tmp_path: Path):
    many = "of: [{sum: age}, count, {mean: age}, {sd: age}]"
    assert findings(tmp_path, RULE, ("of: [count, {mean: age}]", many), contract=MAPPED) == []
    ratio = "of: [count, {ratio: {sum: age, clip: [20, 90]}, over: {sum: income, clip: [0, 1]}}]"
    assert findings(tmp_path, RULE, ("of: [count, {mean: age}]", ratio), contract=MAPPED) == []


def test_a_column_named_like_the_mark_is_refused(tmp_path: Path):
    """Only where a rule is there: without one no file has such a column."""
    renamed = (("name: sex", "name: suppressed"), ("{sex: [F]", "{suppressed: [F]"))
    spec = [("by: [sex]", "by: [suppressed]"), ("by: [job, sex]", "by: [job, suppressed]")]
    assert findings(tmp_path, *spec, contract=renamed) == []
    assert {each.found for each in findings(tmp_path, RULE, *spec, contract=(*renamed, *MAPPED))} == {
        "the column 'suppressed'"
    }
