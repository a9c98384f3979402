"""Release specs against their contract: what does not fit is a finding with its place and its remedy."""

import re
from collections.abc import Sequence
from pathlib import Path

import jsonschema
import pytest
import yaml

from contracts.errors import SpecRefused
from contracts.release.spec import load_spec, spec_schema
from contracts.release.spec_checks import check_spec
from contracts.release.tables.tables import form_of_table, tables_of
from tests.contracts.samples import REFINE, SPARSE, SPEC, loaded, replaced, spec_findings, spec_of, write

UNFIT = [
    ((), "- [age, sex]", "- [age, sxe]", "tables[0].columns[1]", "write 'sex' instead of 'sxe'"),
    ([("delta: 1e-9", "delta: 0")], "laplace", "gaussian", "charge.delta", "a delta above 0"),
    ((), "weight: 2}", "weight: 2}\n  total: invariant", "product.total", "declare the public total"),
    ([SPARSE], "laplace", "gaussian", "product.tables[0].form", "sparse noise is discrete Laplace"),
    ([SPARSE], REFINE, "{method: auto}", "product.refine.method", "none, simplex, or negative"),
    ([SPARSE], REFINE, "{method: empirical_bayes}", "refine.method", "table 'age_x_sex'"),
    ([SPARSE], "lambda: 0.1", "sparsity: 0.1", "product.refine.sparsity", "none, simplex, or negative_l2"),
    ([SPARSE], "negative_l2, lambda: 0.1", "simplex, consistent: true", "product.refine.consistent", "by itself"),
]


@pytest.mark.parametrize(("others", "old", "new", "field", "says"), UNFIT)
def test_what_does_not_fit_the_contract_is_a_finding(
    tmp_path: Path, others: Sequence[tuple[str, str]], old: str, new: str, field: str, says: str
):
    """Unknown columns, Gaussian noise without delta, an exact total that is not public, and what a sparse table
    cannot do."""
    (finding,) = check_spec(spec_of(tmp_path, *others, (old, new)), loaded(tmp_path))
    assert finding.field.endswith(field)
    assert says in str(finding)
    assert finding.where.rpartition(":")[2].isdigit()


def test_the_id_of_the_unit_is_never_published(tmp_path: Path):
    """A table by the id column is refused with the reason."""
    contract = loaded(
        tmp_path,
        ("unit: {kind: row, scope: block}", "unit: {kind: id, scope: block, column: person, max_rows_per_unit: 3}"),
        ("    properties:\n", "    properties:\n      - {name: person, logicalType: string}\n"),
    )
    (finding,) = check_spec(spec_of(tmp_path, ("- [age, sex]", "- [person]")), contract)
    assert "never published" in finding.remedy


@pytest.mark.parametrize(("select", "findings"), [("person, age", 0), ("*", 0), ("person || age AS person, age", 1)])
def test_a_select_passes_the_id_of_the_unit_through(tmp_path: Path, select: str, findings: int):
    """An id made up by the select is a finding on source.select; without an id there is nothing to pass."""
    contract = loaded(
        tmp_path,
        ("unit: {kind: row, scope: block}", "unit: {kind: id, scope: block, column: person, max_rows_per_unit: 3}"),
        ("    properties:\n", "    properties:\n      - {name: person, logicalType: string}\n"),
    )
    spec = spec_of(tmp_path, ("path: people.csv", f"path: people.csv, select: 'SELECT {select} FROM source'"))
    found = check_spec(spec, contract)
    assert [(finding.field, bool(finding.remedy)) for finding in found] == [("source.select", True)] * findings
    assert [finding.field for finding in check_spec(spec, loaded(tmp_path))] == ["source.types"] * findings


LARGE = (("bins: {width: 0.4}", "bins: {width: 0.0001}"), ("granularity: month", "granularity: day"))


def test_a_table_too_large_to_count_is_refused_with_its_product(tmp_path: Path):
    """The message shows the factors, so that a person sees which column to coarsen; Laplace noise may be sparse."""
    contract = loaded(tmp_path, *LARGE)
    for old, new, remedy in (
        ("laplace", "gaussian", "choose mechanism: laplace"),
        ("[age, income, moved]", "{columns: [age, income, moved], form: dense}", "drop `form: dense`"),
    ):
        (finding,) = check_spec(spec_of(tmp_path, ("- [age, sex]", "- [age, income, moved]"), (old, new)), contract)
        assert finding.found.startswith("4 x 15000 x 353 = 21180000 cells")
        assert "16777216" in finding.allowed
        assert remedy in finding.remedy
        assert finding.where.rpartition(":")[2].isdigit()


def test_a_large_table_is_sparse_by_itself_and_a_small_one_where_it_is_written(tmp_path: Path):
    """Under Laplace noise, or what auto then takes; the spec states a form only where it is written."""
    contract = loaded(tmp_path, *LARGE)
    large = replaced(SPEC, ("- [age, sex]", "- [age, income, moved]"))
    for text in (large, replaced(large, ("laplace", "auto"))):
        spec = load_spec(write(tmp_path, "people.yaml", text))
        assert check_spec(spec, contract) == []
        assert [form_of_table(t, spec.product, contract) for t in tables_of(spec.product, contract)] == [
            "sparse",
            "dense",
        ]
        assert [t["form"] for t in spec.product.model_dump(mode="json")["tables"]] == [None, None]
    small = replaced(SPEC, SPARSE)
    spec = load_spec(write(tmp_path, "people.yaml", small))
    assert check_spec(spec, contract) == []
    assert form_of_table(tables_of(spec.product, contract)[0], spec.product, contract) == "sparse"
    assert spec.product.model_dump(mode="json")["tables"][0]["form"] == "sparse"
    jsonschema.Draft202012Validator(spec_schema()).validate(yaml.safe_load(small))
    assert spec_findings(tmp_path, replaced(small, ("form: sparse", "form: spares")))


def test_a_sparse_table_has_no_hierarchy(tmp_path: Path):
    groups = "{a: [clerk, care], b: [other, '(null)']}"
    table = f"- {{columns: [job, sex], form: sparse, hierarchy: {{job: [{{name: kind, groups: {groups}}}]}}}}"
    spec = spec_of(tmp_path, ("- [age, sex]", table))
    findings = {finding.field: str(finding) for finding in check_spec(spec, loaded(tmp_path))}
    assert "a hierarchy on dense tables only" in findings["product.tables[0].hierarchy"]


def test_every_method_that_a_sparse_table_takes_fits(tmp_path: Path):
    for refine in ("{method: none}", "{method: simplex}", "{method: negative_l2, lambda: auto}"):
        text = replaced(SPEC, SPARSE, (REFINE, refine))
        assert check_spec(load_spec(write(tmp_path, "people.yaml", text)), loaded(tmp_path)) == []


@pytest.mark.parametrize("name", ["total", "Total"])
def test_a_table_may_not_take_the_name_of_the_measured_total(tmp_path: Path, name: str):
    """`measurements/total.parquet` is there already."""
    (finding,) = check_spec(
        spec_of(tmp_path, ("- [age, sex]", "- {columns: [age, sex], name: " + name + "}")), loaded(tmp_path)
    )
    assert "other than total" in finding.allowed


def test_a_table_may_not_have_a_column_named_like_a_published_figure(tmp_path: Path):
    """Label columns stand beside count, noisy, variance, lower, upper and structural_zero."""
    contract = loaded(tmp_path, ("- name: sex", "- name: Count"), ("- {sex: [F], job", "- {Count: [F], job"))
    spec = spec_of(tmp_path, ("- [age, sex]", "- [age, Count]"))
    findings = [finding for finding in check_spec(spec, contract) if "Count" in finding.found]
    assert "rename it in the contract" in findings[0].remedy


def test_laplace_with_a_delta_is_fine(tmp_path: Path):
    """The delta stays unused."""
    assert check_spec(spec_of(tmp_path), loaded(tmp_path)) == []


@pytest.mark.parametrize(
    ("label", "formula"),
    [
        *((label, True) for label in ("=1+1", "@SUM(A1)", "+cmd", "-2+3", "-1|x", "=x")),
        *((label, False) for label in ("-1", "+5", "-", "-3.5", "+10 %", "A=1", "<=50K", "1-2", "-1,5")),
    ],
)
def test_labels_that_a_spreadsheet_would_run_are_refused_in_csv_without_a_choice(
    tmp_path: Path, label: str, formula: bool
):
    """Parquet has no such readers; a number with its sign is none."""
    contract = loaded(tmp_path, ("values: [F, M]", f"values: [F, {label!r}]"))
    spec = spec_of(tmp_path)
    found = [finding for finding in check_spec(spec, contract) if finding.field == "publish.formats"]
    assert ["the first: number 2 of column 'sex'" in finding.found for finding in found] == [True] * formula
    assert all("formulas: neutralised" in finding.remedy for finding in found)
    choices = (f"formats: [parquet, csv], formulas: {choice}" for choice in ("accepted", "neutralised"))
    for formats in ("formats: [parquet]", *choices):
        other = load_spec(write(tmp_path, "other.yaml", replaced(SPEC, ("formats: [parquet, csv]", formats))))
        assert not [finding for finding in check_spec(other, contract) if finding.field == "publish.formats"]


def test_a_formula_after_a_semicolon_is_refused_since_no_quote_helps(tmp_path: Path):
    """Where `;` separates cells, the rest of the label is a cell of its own."""
    contract = loaded(tmp_path, ("values: [F, M]", "values: [F, 'x; =1+1']"))
    for choice, refused in (("", True), (", formulas: neutralised", True), (", formulas: accepted", False)):
        found = check_spec(
            spec_of(tmp_path, ("formats: [parquet, csv]", f"formats: [parquet, csv]{choice}")), contract
        )
        assert [finding.found for finding in found if finding.field == "publish.formats"] == [
            "csv, and 1 labels with a formula after a `;` (the first: number 2 of column 'sex')"
        ] * refused


@pytest.mark.parametrize("choice", ["quoted", "neutralized", "true", "[neutralised]", "''"])
def test_another_choice_about_formulas_is_refused_and_the_choices_are_named(tmp_path: Path, choice: str):
    written = f"formats: [parquet, csv], formulas: {choice}"
    with pytest.raises(SpecRefused) as refused:
        spec_of(tmp_path, ("formats: [parquet, csv]", written))
    (finding,) = refused.value.findings
    assert (finding.field, finding.allowed) == ("publish.formulas", "one of accepted, neutralised")


@pytest.mark.parametrize("delta", ["0.002", "0.5"])
def test_a_large_delta_is_refused_unless_it_is_accepted(tmp_path: Path, delta: str):
    """At 1/n the whole row of one in n people may be published; a spec without the key keeps its digest."""
    (written,) = re.findall(r"charge: (\{.*\})", SPEC)
    charge = re.sub(r"delta: [^,}]+", f"delta: {delta}", written)
    spec = spec_of(tmp_path, (written, charge))
    (finding,) = check_spec(spec, loaded(tmp_path))
    assert finding.field == "charge.delta"
    assert finding.found == f"{delta}, above 0.001"
    assert "large_delta: accepted" in finding.remedy
    spec = spec_of(tmp_path, (written, charge.replace("}", ", large_delta: accepted}")))
    assert check_spec(spec, loaded(tmp_path)) == []
    assert "large_delta" in spec.charge.model_dump()


def test_a_delta_above_one_over_the_declared_rows_is_large(tmp_path: Path):
    product = "product: {kind: classifier, trainer: dp_sgd, label: job, options: {rows_about: 20000}}"
    text = SPEC[: SPEC.index("product:")] + product + "\n" + SPEC[SPEC.index("publish:") :]
    text = re.sub(r"delta: [^,}]+", "delta: 1e-4", text)
    text = re.sub(r"formats: \[[^]]*\]", "formats: [parquet]", text)
    findings = check_spec(load_spec(write(tmp_path, "people.yaml", text)), loaded(tmp_path))
    assert [each.found for each in findings if each.field == "charge.delta"] == [
        "0.0001, above one over the 20,000 declared rows"
    ]
