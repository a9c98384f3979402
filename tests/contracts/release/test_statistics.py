"""Specs of statistics: what loads, what its lattices and columns are, and what each mistake gets to read."""

from decimal import Decimal
from pathlib import Path

import jsonschema
import pytest
import yaml

from contracts.domains.lattice import one_step_wider
from contracts.errors import Finding, SpecRefused
from contracts.release.spec import ReleaseSpec, load_spec, spec_schema
from contracts.release.spec_checks import check_spec
from contracts.release.statistics import Statistic, StatisticsProduct, StatisticsTable, statistics_product
from contracts.release.statistics_rules import statistics_problems
from tests.contracts.samples import SPEC as TABLES
from tests.contracts.samples import column, contract_of, line_of, loaded, replaced, write

SPEC = """\
release: people-statistics
contract: people.odcs.yaml
source: {path: people.csv}
charge: {account: people-2020, epsilon: 1.0, delta: 0}
product:
  kind: statistics
  mechanism: laplace
  tables:
    - by: [sex]
      of: [count, {mean: age}]
    - by: [job, sex]
      of: [{sum: income, clip: [0, 1]}, {mean: income}, {sum: age, clip: [20, 90], step: 7}]
      name: pay
      weight: 2
publish: {to: releases/, formats: [parquet, csv]}
"""
PAY = "{sum: income, clip: [0, 1]}"
MEAN = "{mean: age}"
TABLE = f"of: [count, {MEAN}]"


def spec_of(folder: Path, *pairs: tuple[str, str]) -> ReleaseSpec:
    return load_spec(write(folder, "people.yaml", replaced(SPEC, *pairs)))


def product_of(folder: Path, *pairs: tuple[str, str]) -> StatisticsProduct:
    return statistics_product(spec_of(folder, *pairs).product)


def findings(folder: Path, *pairs: tuple[str, str], contract: tuple[tuple[str, str], ...] = ()) -> list[Finding]:
    try:
        return check_spec(spec_of(folder, *pairs), loaded(folder, *contract))
    except SpecRefused as error:
        return list(error.findings)


def test_a_spec_of_statistics_loads_with_names_lattices_and_weights(tmp_path: Path):
    """A table is named after its columns; a lattice is the first clip and step of a column, else of its bounds."""
    contract, product = loaded(tmp_path), product_of(tmp_path)
    assert findings(tmp_path) == []
    sex, pay = product.tables
    assert [(t.name, t.by, t.columns, t.weight) for t in product.tables] == [
        ("sex", ("sex",), ("age",), 1),
        ("pay", ("job", "sex"), ("income", "age"), 2),
    ]
    [age] = sex.lattices(contract)
    assert (age.column, age.low, age.high, age.step, age.width, age.parts) == ("age", 17, 90, 1, 73, 3)
    income, age = pay.lattices(contract)
    assert (income.low, income.high, income.step, income.width, income.parts) == (0, 1, Decimal("0.1"), 10, 2)
    assert (age.low, age.high, age.step, age.width) == (20, 90, 7, 10)
    assert product.names(contract) == ("age", "sex", "job", "income")
    assert len(product.lattices(contract)) == 5
    cut = pay.clipped_lattices(contract)
    assert [(each.column, each.low, each.high) for each in cut] == [("age", 20, 90), ("income", 0, 1)]
    assert {one_step_wider(each) for each in cut} < set(product.lattices(contract))
    assert (product.keeps_total, product.reads_rows) == (False, False)


def test_the_columns_of_a_file_are_statistics_with_their_ends(tmp_path: Path):
    sex, pay = product_of(tmp_path).tables
    ends = [f"{name}{end}" for name in ("count", "mean_age") for end in ("", "_low", "_high")]
    assert sex.published_columns == ("sex", *ends, "near_zero")
    assert pay.published_columns[:4] == ("job", "sex", "sum_income_clipped", "sum_income_clipped_low")


def test_what_a_written_clip_cuts_is_named_clipped():
    """By the spec alone: a clip is one of its column in the whole table; without one the contract's bounds are it."""
    ratio = "{ratio: {sum: x}, over: {sum: y, clip: [0, 5]}}"
    table = StatisticsTable.model_validate(
        yaml.safe_load(f"{{of: [count, {{mean: x}}, {{sd: y}}, {{quantiles: [0.5], of: y}}, {ratio}, {{sum: z}}]}}")
    )
    names = [name for each in table.of for name in each.estimates]
    clipped = ["sd_y_clipped", "q50_y_clipped", "ratio_x_over_y_clipped"]
    assert names == ["count", "mean_x", *clipped, "sum_z"]
    private = yaml.safe_load("{of: [{mean: x, clip: private}, {quantiles: [0.5], of: x}]}")
    found = StatisticsTable.model_validate(private)
    assert [each.estimates for each in found.of] == [("mean_x_clipped",), ("q50_x",)]
    assert StatisticsTable.model_validate(private).model_dump(mode="json") == found.model_dump(mode="json")


def test_a_table_without_columns_is_of_all_rows(tmp_path: Path):
    (table, _) = product_of(tmp_path, ("by: [sex]", "by: []")).tables
    assert (table.name, table.by) == ("all", ())
    (table, _) = product_of(tmp_path, ("- by: [sex]\n      of:", "- of:")).tables
    assert (table.name, table.by) == ("all", ())
    assert findings(tmp_path, ("by: [sex]", "by: []")) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (MEAN, "{mean: age, clip: [20, 30]}"),
        (MEAN, "{mean: age, clip: ['20', 30.5], step: 0.5}"),
        (MEAN, "{mean: age, clip: [17, 90]}"),
        ("{mean: income}", "{mean: income, clip: [0, 1]}"),
        (PAY, "{sum: income}"),
        (f"count, {MEAN}", "count"),
        ("mechanism: laplace\n", "\n"),
    ],
)
def test_every_form_can_be_written(tmp_path: Path, old: str, new: str):
    """It fits the contract, passes the published schema, and is the same after a round through JSON."""
    product = product_of(tmp_path, (old, new))
    assert findings(tmp_path, (old, new)) == []
    again = StatisticsProduct.model_validate(product.model_dump(mode="json", by_alias=True))
    assert again == product
    jsonschema.Draft202012Validator(spec_schema()).validate(yaml.safe_load(replaced(SPEC, (old, new))))


def test_the_schema_refuses_a_statistic_that_is_none():
    for written in ("{median: age}", "counts", "{sum: age, clp: [1, 2]}", "{sum: age, clip: [1]}"):
        text = replaced(SPEC, (MEAN, written))
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.Draft202012Validator(spec_schema()).validate(yaml.safe_load(text))


FORMS = "count, {sum: COLUMN}, {mean: COLUMN}"
BAD = [
    # at the clip
    (PAY, "{sum: income, clip: [0, 2]}", "of[0]", "[0, 2]", "within the bounds"),
    (PAY, "{sum: income, clip: [-1, 1]}", "of[0]", "[-1, 1]", "within the bounds"),
    (PAY, "{sum: income, clip: [1, 0]}", "of[0]", "[1, 0]", "a lower end below the upper end"),
    (PAY, "{sum: income, clip: [1, 1]}", "of[0]", "[1, 1]", "swap or widen them"),
    (PAY, "{sum: income, clip: [2, -1]}", "of[0]", "[2, -1]", "a lower end below the upper end"),
    (PAY, "{sum: income, clip: [0]}", "of[0]", "a list of 1", "a pair [low, high]"),
    (PAY, "{sum: income, clip: 1}", "of[0]", "'1'", "a pair [low, high]"),
    (PAY, "{sum: income, clip: [0, .inf]}", "of[0]", "'.inf'", "infinity and NaN are no amounts"),
    (PAY, "{sum: income, clip: [0, .nan]}", "of[0]", "'.nan'", "infinity and NaN are no amounts"),
    ("{mean: income}", "{mean: income, clip: [0, 1.5]}", "of[1]", "another clip of 'income'", "one clip a column"),
    # at the step
    (PAY, "{sum: income, step: 0.4}", "of[0]", "[0, 1.5] in steps of 0.4", "choose a step that divides"),
    (PAY, "{sum: income, step: 0}", "of[0]", "a step of 0", "a step above 0"),
    (PAY, "{sum: income, step: -0.1}", "of[0]", "a step of -0.1", "a step above 0"),
    (PAY, "{sum: income, step: small}", "of[0]", "'small'", "a finite decimal number"),
    (PAY, "{sum: income, step: 1e-10}", "of[0]", "15,000,000,000 steps of 1e-10", "write `step:` 1e-8 or more"),
    (PAY, "{sum: income, clip: [0, 1.0000000001]}", "tables[1].of[0]", "10,000,000,001 steps", "write `step:` 1e-8"),
    (PAY, "{sum: income, step: 1e-30}", "of[0]", "'1e-30'", "at most 15 decimals"),
    ("step: 7}", "step: 7}, {mean: age, step: 1}", "of[3]", "another step of 'age'", "one step a column"),
    # at the column and the statistic
    (MEAN, "{mean: job}", "of[1]", "'job', a column without bounds", "one of age, income"),
    (MEAN, "{sum: moved}", "of[1]", "'moved', a column without bounds", "of kind integer or decimal"),
    (MEAN, "{mean: agee}", "of[1]", "the column 'agee'", "write 'age' instead of 'agee'"),
    (MEAN, "{mean: [age]}", "of[1]", "a list of 1", "the name of one column"),
    (MEAN, "{mean: }", "of[1]", "a mean of no column", FORMS),
    (MEAN, "{median: age}", "of[1]", "a mapping with the keys median", "write one of these, each in an entry"),
    (MEAN, "median", "of[1]", "'median'", FORMS),
    ("[count, ", "[counts, ", "of[0]", "'counts'", "write 'count' instead of 'counts'"),
    (MEAN, "{Sum: age}", "of[1]", "the keys Sum", "write 'sum' instead of 'Sum'"),
    (MEAN, "{mean: zzz}", "of[1]", "the column 'zzz'", "write one of them"),
    (MEAN, "{sum: age, mean: age}", "of[1]", "the keys sum, mean", FORMS),
    (MEAN, "{count: age}", "of[1]", "a count with a column", "write count"),
    (MEAN, "{mean: age, clp: [20, 30]}", "of[1].clp", "the unknown key 'clp'", "write 'clip' instead of 'clp'"),
    (TABLE, "of: []", "tables[0].of", "an empty list", FORMS),
    (TABLE, "of: count", "tables[0].of", "'count'", "a list"),
    (f"\n      {TABLE}", "", "tables[0].of", "nothing", "add `of:`"),
    (MEAN, f"{MEAN}, {{mean: age, clip: [20, 30]}}", "of[2]", "mean_age twice", "each once"),
    # at the table
    ("by: [sex]", "by: [sexx]", "tables[0].by[0]", "the column 'sexx'", "write 'sex' instead of 'sexx'"),
    ("by: [sex]", "by: [sex, sex]", "tables[0].by[1]", "'sex' twice", "drop one"),
    ("by: [sex]", "by: sex", "tables[0].by", "'sex'", "a list"),
    ("name: pay", "name: SEX", "tables[1].name", "the name 'SEX' again", "each name once"),
    ("name: pay", "name: ../pay", "tables[1].name", "'../pay'", "it names a file"),
    ("name: pay", "name: Con.x", "tables[1].name", "'Con.x'", "no device of Windows"),
    ("weight: 2", "weight: 0", "tables[1].weight", "0", "a weight from"),
    ("weight: 2", "wieght: 2", "tables[1].wieght", "the unknown key", "write 'weight'"),
    (f"- by: [sex]\n      {TABLE}", "- [sex]", "tables[0]", "a list of 1", "{by: [...], of: [...]}"),
    # at the product and the charge
    ("mechanism: laplace", "mechanism: gaussian", "charge.delta", "delta 0", "or choose mechanism: laplace"),
    ("mechanism: laplace", "mechanism: geometric", "product.mechanism", "'geometric'", "one of laplace, gaussian"),
    (
        "mechanism: laplace",
        "refine: {method: auto}",
        "product.refine",
        "`refine` by method auto",
        "write one of these",
    ),
]


@pytest.mark.parametrize(("old", "new", "field", "found", "told"), BAD)
def test_a_mistake_is_refused_with_file_line_and_remedy(
    tmp_path: Path, old: str, new: str, field: str, found: str, told: str
):
    """One finding: where, what was found, what is allowed, what to do; the line is that of the mistake."""
    (finding,) = findings(tmp_path, (old, new))
    assert field in finding.field
    assert found in finding.found
    assert told in f"{finding.allowed} {finding.remedy}"
    path, _, line = finding.where.rpartition(":")
    assert path.endswith("people.yaml")
    if "charge" not in field:
        assert 5 <= int(line) <= line_of(SPEC, "publish")


def test_a_table_of_pictures_unit_ids_or_too_many_cells_is_refused(tmp_path: Path):
    """2^24 cells at most; a picture has no cells, and an id is never published."""
    image = {"height": 2, "width": 2, "levels": 4, "nulls": {"policy": "map", "to": 0}}
    wide = [column("integer", "integer", name, bounds=[0, 299], bins={"width": 1}) for name in ("a", "b", "c")]
    unit = {"kind": "id", "scope": "block", "column": "person", "max_rows_per_unit": 3}
    contract = contract_of(*wide, column("image", "array", "face", **image), unit=unit)

    def problems(by: list[str], of: list[object]) -> list[tuple[str, str, str, tuple[object, ...]]]:
        product = StatisticsProduct.model_validate(
            {"kind": "statistics", "tables": [{"by": by, "of": of, "name": "t"}]}
        )
        return [(p.found, p.allowed, p.remedy, at + p.at) for at, p in statistics_problems(product, contract)]

    assert problems(["a", "b"], ["count"]) == []
    [(found, _, remedy, at)] = problems(["face"], ["count"])
    assert (found, at) == ("'face', a column of pictures", ("tables", 0, "by", 0))
    assert "drop it" in remedy
    [(found, _, remedy, at)] = problems(["a", "person"], ["count"])
    assert (found, at) == ("the column 'person'", ("tables", 0, "by", 1))
    assert "privacy unit's id" in remedy
    [(found, _, remedy, at)] = problems(["a"], [{"sum": "person"}])
    assert (found, at) == ("the column 'person'", ("tables", 0, "of", 0, "sum"))
    assert "privacy unit's id" in remedy
    [(found, allowed, _, at)] = problems(["a"], [{"sum": "face"}])
    assert (found, allowed) == ("'face', a column without bounds", "one of a, b, c")
    [(found, allowed, remedy, at)] = problems(["a", "b", "c"], ["count"])
    assert (found, allowed, at) == ("27,270,901 cells of a, b, c", "at most 16,777,216", ("tables", 0, "by"))
    assert "coarser bins" in remedy


def test_all_rows_of_a_unit_count_towards_the_steps(tmp_path: Path):
    unit = "unit: {kind: row, scope: block}"
    by_ids = ((unit, "unit: {kind: id, scope: block, column: person, max_rows_per_unit: 3}"),)
    ids = ((*by_ids, ("properties:\n", "properties:\n      - name: person\n        logicalType: string\n")),)
    fine = ("{sum: income, clip: [0, 1]}", "{sum: income, clip: [0, 1], step: 2e-9}")
    assert findings(tmp_path, fine) == []
    (finding,) = findings(tmp_path, fine, contract=ids[0])
    assert "500,000,000 steps of 2e-9 from 0 to 1, times 3 rows" in finding.found
    assert "1e-8 or more" in finding.remedy


@pytest.mark.parametrize("name", ["count", "COUNT", "near_zero", "mean_age_low"])
def test_a_column_of_the_file_is_not_there_twice(tmp_path: Path, name: str):
    """Whatever its case; the remedy says how to rename a column."""
    contract = (("- name: job", f"- name: {name}"), ("job: [clerk", f"{name}: [clerk"))
    told = findings(tmp_path, ("by: [sex]", f"by: [{name}]"), ("by: [job, sex]", "by: [sex]"), contract=contract)
    (finding,) = told
    assert finding.field == "product.tables[0]"
    assert finding.found.casefold() == f"two columns named '{name.casefold()}'"
    assert "by a select" in finding.remedy


@pytest.mark.parametrize("name", ["part", "Noisy", "variance", "lower", "upper", "structural_zero"])
def test_a_column_of_a_file_of_measurements_is_not_grouped_by(tmp_path: Path, name: str):
    """It would stand there twice: charged, drawn, and never published."""
    contract = (("- name: job", f"- name: {name}"), ("job: [clerk", f"{name}: [clerk"))
    pairs = (("by: [sex]", f"by: [sex, {name}]"), ("by: [job, sex]", "by: [sex]"))
    (finding,) = findings(tmp_path, *pairs, contract=contract)
    assert (finding.field, finding.found) == ("product.tables[0].by[1]", f"the column {name!r}")
    assert "a column not named lower, noisy, part" in finding.allowed
    assert "by a select" in finding.remedy


def test_another_product_is_no_product_of_statistics(tmp_path: Path):
    with pytest.raises(TypeError, match="kind tables"):
        statistics_product(load_spec(write(tmp_path, "people.yaml", TABLES)).product)
    assert Statistic.model_validate("count").published == ("count", "count_low", "count_high")


def test_bins_of_a_table_of_statistics_are_refused_with_what_to_do(tmp_path: Path):
    """They are for tables of counts."""
    with pytest.raises(SpecRefused) as caught:
        spec_of(tmp_path, (TABLE, "of: [count]\n      bins: {sex: {all: [F, M]}}"))
    (finding,) = caught.value.findings
    assert finding.found == "the unknown key 'bins'"
    assert finding.remedy.startswith("statistics are by the contract's own cells")
