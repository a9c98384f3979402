"""Choices on the form as changes of the YAML, and the form as what stands in the YAML: there and back."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.contract.odcs import load_contract
from contracts.release.spec import load_spec
from sudare_web.studio.choices import NoChoice, chosen
from sudare_web.studio.form import contract_file, form_of

ADULT = Path(__file__).parents[4] / "examples" / "adult"
SPEC = (ADULT / "tables.yaml").read_text()
CONTRACT = """\
# written by hand
id: clinic
name: Clinic
version: 1.0.0
unit: {kind: id, scope: block, column: patient, max_rows_per_unit: 4}
adjacency: add_remove
defaults: {nulls: category, provenance: declared}
left_out: [name]
columns:
  age: 0..99 by 10   # years
  sex: {F: female, M: male}
  ward: {values: [surgery, maternity], other: another ward}
  day: <declare>
"""


def choose(
    name: str, at: str = "", value: str = "", *, spec: str = SPEC, contract: str = CONTRACT
) -> tuple[str, str]:
    return chosen(spec, contract, name, at, value)


def form(spec: str = SPEC, contract: str = CONTRACT) -> dict[str, Any]:
    return form_of(spec, contract)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("release", "other"),
        ("source", "b.csv"),
        ("account", "a-1"),
        ("epsilon", "0.35"),
        ("delta", "1e-9"),
        ("mechanism", "auto"),
        ("method", "none"),
    ],
)
def test_a_value_of_the_spec_stands_on_the_form_as_it_was_chosen(name: str, value: str):
    spec, contract = choose(name, value=value)
    assert form(spec)["spec"][name] == value
    assert contract == CONTRACT
    assert spec.splitlines()[0] == SPEC.splitlines()[0]


def test_a_chosen_spec_is_one_that_a_run_reads(tmp_path: Path):
    """Tables added, weighed, widened and dropped; the loader reads what was meant."""
    spec, _ = choose("table.add", value="age\nsex")
    spec, _ = choose("table.weight", "3", "2.5", spec=spec)
    spec, _ = choose("table.column", "1", "race", spec=spec)
    spec, _ = choose("table.drop", "0", spec=spec)
    path = tmp_path / "spec.yaml"
    path.write_text(spec)
    tables = load_spec(path).tables_product.tables
    assert [getattr(each, "columns", None) for each in tables] == [
        ("age", "race"),
        ("marital-status", "sex", "income"),
        ("age", "sex"),
    ]
    assert [str(getattr(each, "weight", "")) for each in tables] == ["1", "1", "2.5"]
    assert [each.columns for each in form(spec)["spec"]["tables"]] == [
        getattr(each, "columns", ()) for each in tables
    ]


def test_all_two_way_tables_are_one_entry():
    spec, _ = choose("table.add", value="all 2-way")
    *_, last = form(spec)["spec"]["tables"]
    assert (last.written, last.chosen) == ("all 2-way", False)
    with pytest.raises(NoChoice):
        choose("table.add", value="all 2-way", spec=spec)


@pytest.mark.parametrize(
    ("value", "written"), [("whole\n0\n17\nby 6", "0..17 by 6"), ("number\n0\n1\nby 0.1", "number 0..1 by 0.1")]
)
def test_a_range_is_written_in_the_short_form(value: str, written: str):
    _, contract = choose("column.range", "age", value)
    assert f"  age: {written}   # years" in contract


def test_a_chosen_contract_is_one_that_is_read(tmp_path: Path):
    """Kinds, lists, codes, columns left out and taken in; keys beside a domain stay."""
    _, contract = choose("column.kind", "day", "date")
    _, contract = choose("column.listed", "ward", "surgery\nmaternity\nemergency", contract=contract)
    _, contract = choose("column.listed", "sex", "F = woman\nM = man", contract=contract)
    _, contract = choose("column.taken_in", "name", contract=contract)
    _, contract = choose("column.left_out", "name", contract=contract)
    _, contract = choose("unit.kind", value="row", contract=contract)
    path = tmp_path / "contract.yaml"
    path.write_text(contract)
    read = load_contract(path)
    assert [column.name for column in read.columns] == ["age", "sex", "ward", "day"]
    assert read.left_out == ("name",)
    assert read.unit.kind == "row"
    assert "other: another ward" in contract
    assert "# written by hand" in contract


def test_the_form_says_how_each_column_is_declared():
    found = {each.name: each for each in form()["contract"]["columns"]}
    assert {name: each.kind for name, each in found.items()} == {
        "age": "whole",
        "sex": "labels",
        "ward": "values",
        "day": "open",
    }
    assert (found["age"].low, found["age"].high, found["age"].step) == ("0", "99", "by 10")
    assert found["sex"].listed == "F = female\nM = male"


def test_a_contract_in_the_long_form_gives_its_columns_and_no_choices():
    told = form(SPEC, (ADULT / "adult.odcs.yaml").read_text())
    assert told["columns"][:2] == ["age", "workclass"]
    assert not told["contract"]["short"]
    assert contract_file(SPEC) == "adult.odcs.yaml"


@pytest.mark.parametrize(
    ("name", "at", "value"),
    [
        ("nothing", "", ""),
        ("table.drop", "x", ""),
        ("table.weight", "99", "2"),
        ("table.column", "1", "age"),
        ("column.kind", "nobody", "whole"),
        ("column.kind", "age", "nothing"),
        ("column.listed", "nobody", "a"),
        ("epsilon", "", "1" * 200_000),
    ],
)
def test_a_choice_without_a_place_is_refused(name: str, at: str, value: str):
    with pytest.raises(NoChoice):
        choose(name, at, value)


@pytest.mark.long
@settings(deadline=None)
@given(st.text(max_size=200), st.sampled_from(["epsilon", "table.add", "table.drop", "unit.kind", "column.kind"]))
def test_no_text_makes_form_or_choice_fail(text: str, name: str):
    """An editor may hold anything; the form is there or not, and a choice is made or refused."""
    form_of(text, text)
    try:
        chosen(text, text, name, "0", "whole")
    except NoChoice:
        return


@pytest.mark.long
@settings(deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["product", "charge", "columns", "schema", "unit", "left_out", "defaults"]),
        st.recursive(
            st.text("ab: ", max_size=4),
            lambda inner: (
                st.lists(inner, max_size=2)
                | st.dictionaries(
                    st.sampled_from(
                        ["tables", "columns", "name", "properties", "customProperties", "range", "values"]
                    ),
                    inner,
                )
            ),
            max_leaves=6,
        ),
    )
)
def test_no_tree_makes_the_form_fail(tree: dict[str, Any]):
    from sudare_web.studio.yaml_text import flow

    form_of(flow(tree), flow(tree))


STATISTICS = """\
release: means
contract: adult.odcs.yaml
source: {path: adult.parquet}
charge: {account: adult-1994, epsilon: 1, delta: 0}
product:
  kind: statistics   # by hand
  mechanism: laplace
  tables:
    - by: [sex]
      of:
        - count      # everybody
        - {ratio: {sum: capital-gain}, over: {sum: age}}
publish: {to: releases/, formats: [csv]}
"""


def test_a_kind_begins_with_the_columns_that_were_there(tmp_path: Path):
    """Tables, statistics, synthetic rows and back: each is a spec that the loader reads, about the same columns."""
    path = tmp_path / "spec.yaml"
    text = SPEC
    for kind in ("statistics", "tables", "synthetic", "statistics"):
        text, _ = choose("kind", value=kind, spec=text)
        path.write_text(text)
        assert load_spec(path).product.kind == kind
        assert form(text)["spec"]["kind"] == kind
    assert [each.columns for each in form(text)["spec"]["tables"]] == [("education", "income")]
    assert text.splitlines()[0] == SPEC.splitlines()[0]
    assert choose("kind", value="statistics", spec=text)[0] == text


def test_statistics_are_added_clipped_and_dropped(tmp_path: Path):
    """What is chosen is what the loader reads; the comments beside it stay."""
    spec, _ = choose("stat.add", "0", "mean\nage", spec=STATISTICS)
    spec, _ = choose("stat.clip", "0.2", "clip\n17\n70", spec=spec)
    spec, _ = choose("stat.add", "0", "quantiles\nage", spec=spec)
    spec, _ = choose("stat.shares", "0.3", "0.1, 0.5", spec=spec)
    spec, _ = choose("stat.add", "0", "units\nage", spec=spec)
    spec, _ = choose("stat.drop", "0.1", spec=spec)
    path = tmp_path / "spec.yaml"
    path.write_text(spec)
    [table] = load_spec(path).product.tables  # type: ignore[attr-defined]
    assert [each.name for each in table.of] == ["count", "mean_age_clipped", "quantiles_age_clipped", "units"]
    assert [str(end) for end in table.of[1].clip] == ["17", "70"]
    assert [str(share) for share in table.of[2].quantiles] == ["0.1", "0.5"]
    assert "kind: statistics   # by hand" in spec
    told = form(spec)["spec"]["tables"][0].statistics
    assert [(each.what, each.column, each.low, each.high) for each in told][1] == ("mean", "age", "17", "70")
    assert told[2].shares == "0.1, 0.5"
    spec, _ = choose("stat.clip", "0.1", "clip\n\n", spec=spec)
    assert "clip" not in spec


def test_a_table_of_statistics_may_be_about_all_rows():
    spec, _ = choose("table.add", value="", spec=STATISTICS)
    spec, _ = choose("table.column", "0", "sex", spec=spec)
    spec, _ = choose("table.column", "0", "race", spec=spec)
    assert [each.columns for each in form(spec)["spec"]["tables"]] == [("race",), ()]
    assert form(spec)["spec"]["tables"][1].statistics[0].what == "count"


def test_a_ratio_is_edited_in_the_yaml_and_stays():
    [_, ratio] = form(STATISTICS)["spec"]["tables"][0].statistics
    assert (ratio.what, ratio.clipped) == ("", False)
    assert "ratio" in ratio.written


def test_synthetic_rows_are_chosen():
    """Columns in the contract's order, `all` where none is missing; options of another generator go."""
    spec, _ = choose("kind", value="synthetic", spec=SPEC)
    spec, _ = choose("synthetic.generator", value="aim", spec=spec)
    spec, _ = choose("synthetic.degree", value="2", spec=spec)
    assert form(spec)["spec"]["synthetic"]["degree"] == "2"
    spec, _ = choose("synthetic.rows", value="1000", spec=spec)
    spec, _ = choose("synthetic.generator", value="mst", spec=spec)
    made = form(spec)["spec"]["synthetic"]
    assert (made["generator"], made["degree"], made["has_degree"], made["rows"]) == ("mst", "", False, "1000")
    spec = spec.replace("columns: [education, income, age, marital-status, sex]", "columns: [sex]")
    for name in ("age", "ward", "day"):
        spec, _ = choose("synthetic.column", value=name, spec=spec)
    assert "columns: all" in spec
    spec, _ = choose("synthetic.column", value="ward", spec=spec)
    assert "columns: [age, sex, day]" in spec


@pytest.mark.parametrize(
    ("name", "at", "value"),
    [
        ("kind", "", "model"),
        ("stat.add", "0", "mean"),
        ("stat.add", "7", "count"),
        ("stat.add", "0", "count"),
        ("stat.drop", "0", ""),
        ("stat.clip", "x.y", "1\n2"),
        ("table.add", "", "all 2-way"),
        ("synthetic.degree", "", "2"),
        ("synthetic.generator", "", "vae"),
    ],
)
def test_a_product_choice_that_cannot_be_made_is_refused(name: str, at: str, value: str):
    with pytest.raises(NoChoice):
        choose(name, at, value, spec=STATISTICS)


def test_a_public_document_that_a_draft_names_stays_named():
    """A codebook's name comes with the draft; who says that it is public keeps it, and may write another one."""
    drafted = CONTRACT.replace(
        "provenance: declared", 'provenance: {kind: <declare>, reference: "form 7b; check it"}'
    )
    assert form(contract=drafted)["contract"]["provenance"] == "<declare>"
    _, public = choose("provenance", value="public", contract=drafted)
    told = form(contract=public)["contract"]
    assert (told["provenance"], told["reference"]) == ("public", "form 7b; check it")
    _, named = choose("reference", value="Form 7b, town gazette 12/2023", contract=public)
    assert form(contract=named)["contract"]["reference"] == "Form 7b, town gazette 12/2023"
    _, declared = choose("provenance", value="declared", contract=named)
    assert form(contract=declared)["contract"]["provenance"] == "declared"
    _, open_yet = choose("provenance", value="public", contract=CONTRACT)
    assert form(contract=open_yet)["contract"]["reference"] == "<declare>"
