"""Choices on the form as changes of the YAML, and the form as what stands in the YAML: there and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.studio.choices import NoChoice, chosen
from console.studio.form import contract_file, form_of
from contracts.contract.odcs import load_contract
from contracts.release.spec import load_spec

ADULT = Path(__file__).parents[3] / "examples" / "adult"
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
def test_a_value_of_the_spec_stands_on_the_form_as_it_was_chosen(name: str, value: str) -> None:
    spec, contract = choose(name, value=value)
    assert form(spec)["spec"][name] == value
    assert contract == CONTRACT
    assert spec.splitlines()[0] == SPEC.splitlines()[0]


def test_a_chosen_spec_is_one_that_a_run_reads(tmp_path: Path) -> None:
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


def test_all_two_way_tables_are_one_entry() -> None:
    spec, _ = choose("table.add", value="all 2-way")
    *_, last = form(spec)["spec"]["tables"]
    assert (last.written, last.chosen) == ("all 2-way", False)
    with pytest.raises(NoChoice):
        choose("table.add", value="all 2-way", spec=spec)


@pytest.mark.parametrize(
    ("value", "written"),
    [("whole\n0\n17\nby 6", "0..17 by 6"), ("number\n0\n1\nby 0.1", "number 0..1 by 0.1")],
)
def test_a_range_is_written_in_the_short_form(value: str, written: str) -> None:
    _, contract = choose("column.range", "age", value)
    assert f"  age: {written}   # years" in contract


def test_a_chosen_contract_is_one_that_is_read(tmp_path: Path) -> None:
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


def test_the_form_says_how_each_column_is_declared() -> None:
    found = {each.name: each for each in form()["contract"]["columns"]}
    assert {name: each.kind for name, each in found.items()} == {
        "age": "whole",
        "sex": "labels",
        "ward": "values",
        "day": "open",
    }
    assert (found["age"].low, found["age"].high, found["age"].step) == ("0", "99", "by 10")
    assert found["sex"].listed == "F = female\nM = male"


def test_a_contract_in_the_long_form_gives_its_columns_and_no_choices() -> None:
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
def test_a_choice_without_a_place_is_refused(name: str, at: str, value: str) -> None:
    with pytest.raises(NoChoice):
        choose(name, at, value)


@settings(deadline=None)
@given(st.text(max_size=200), st.sampled_from(["epsilon", "table.add", "table.drop", "unit.kind", "column.kind"]))
def test_no_text_makes_form_or_choice_fail(text: str, name: str) -> None:
    """An editor may hold anything; the form is there or not, and a choice is made or refused."""
    form_of(text, text)
    try:
        chosen(text, text, name, "0", "whole")
    except NoChoice:
        return


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
def test_no_tree_makes_the_form_fail(tree: dict[str, Any]) -> None:
    from console.studio.yaml_text import flow

    form_of(flow(tree), flow(tree))
