"""What stands beside labels, what a spreadsheet sees, and what is refused: taken names, codes that read as two."""

from collections.abc import Sequence
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.contract.contract import Contract
from contracts.contract.labels import is_formula, label_columns, neutralised, restored
from contracts.contract.odcs import load_contract
from contracts.release.spec import load_spec
from contracts.release.spec_checks import check_spec
from tests.contracts.samples import replaced, write

CONTRACT = """\
id: stays
version: 1.0.0
unit: {kind: row, scope: block}
adjacency: add_remove
defaults: {nulls: category, provenance: declared}
columns:
  age: 0..99 at 18, 65
  stay: 0..2.5 at 0.5, 1
  arrived: 2024-02-28..2024-04-01 by month
  ward: {labels: {"07": 内科, "08": 内科, "11": surgery}, type: string, other: elsewhere}
  sex: [f, m]
"""
SPEC = """\
release: stays
contract: stays.yaml
source: {path: stays.csv}
charge: {account: stays-2024, epsilon: 1, delta: 0}
product: {kind: tables, mechanism: laplace, tables: [[age, ward], [sex]]}
publish: {to: releases/, formats: [parquet, csv], labels: columns}
"""


def contract_of(folder: Path, *pairs: tuple[str, str]) -> Contract:
    return load_contract(write(folder, "stays.yaml", replaced(CONTRACT, *pairs)))


def beside(contract: Contract, name: str, groups: Sequence[Sequence[int]] | None = None) -> dict[str, list[object]]:
    return {each.name: list(each.values) for each in label_columns(contract.column(name), groups)}


def findings(
    folder: Path, spec: Sequence[tuple[str, str]] = (), contract: Sequence[tuple[str, str]] = ()
) -> list[str]:
    read = load_spec(write(folder, "spec.yaml", replaced(SPEC, *spec)))
    found = check_spec(read, contract_of(folder, *contract))
    return [f"{each.field}: {each.found}; {each.allowed}; {each.remedy}" for each in found]


def test_each_kind_of_label_says_what_it_stands_for(tmp_path: Path):
    """Whole numbers, decimals and days have ends of their own type, cut at the bounds; codes stand as in the data."""
    contract = contract_of(tmp_path)
    assert beside(contract, "age") == {
        "age_order": [1, 2, 3, 4],
        "age_lower": [0, 18, 65, None],
        "age_upper": [17, 64, 99, None],
    }
    stay = beside(contract, "stay")
    assert (stay["stay_lower"], stay["stay_upper"]) == ([0.0, 0.5, 1.0, None], [0.5, 1.0, 2.5, None])
    arrived = beside(contract, "arrived")
    assert arrived["arrived_lower"] == [date(2024, 2, 28), date(2024, 3, 1), date(2024, 4, 1), None]
    assert arrived["arrived_upper"] == [date(2024, 2, 29), date(2024, 3, 31), date(2024, 4, 1), None]
    assert beside(contract, "ward") == {"ward_order": [1, 2, 3, 4], "ward_code": ["07|08", "11", None, None]}
    assert beside(contract, "sex") == {"sex_order": [1, 2, 3]}


def test_groups_have_the_ends_and_codes_of_what_is_in_them(tmp_path: Path):
    """Bins that are no neighbours, or that stand with a cell of nulls, have no ends."""
    contract = contract_of(tmp_path)
    ages = beside(contract, "age", [[0, 1], [2], [3]])
    assert (ages["age_lower"], ages["age_upper"]) == ([0, 65, None], [64, 99, None])
    assert beside(contract, "age", [[0, 2], [1, 3]])["age_lower"] == [None, None]
    assert beside(contract, "age", [[0, 1], [2, 3]])["age_upper"] == [64, None]
    assert beside(contract, "ward", [[0, 1], [2, 3]])["ward_code"] == ["07|08|11", None]


def test_a_spec_may_ask_for_them_and_is_another_spec_only_then(tmp_path: Path):
    """A spec without the key has the digest that it always had: its dump has no such key."""
    assert findings(tmp_path) == []
    asked = load_spec(tmp_path / "spec.yaml")
    plain = load_spec(write(tmp_path, "plain.yaml", replaced(SPEC, (", labels: columns", ""))))
    assert plain.digest != asked.digest
    assert "labels" not in plain.publish.model_dump()
    assert asked.publish.model_dump()["labels"] == "columns"


@pytest.mark.parametrize("name", ["age_lower", "AGE_ORDER", "ward_code"])
@pytest.mark.parametrize("tables", ["[[age, ward, sex]]", "all 2-way", "[{columns: [sex, ward, age], name: x}]"])
def test_a_column_of_that_name_is_refused(tmp_path: Path, name: str, tables: str):
    spec = [("[[age, ward], [sex]]", tables.replace("sex", name))]
    (found,) = findings(tmp_path, spec, [("  sex:", f"  {name}:")])
    assert found.startswith(f"product.tables[0]: labels: columns, and '{name}' beside the labels of")
    assert "rename the column in the contract" in found


def test_columns_of_different_tables_do_not_clash(tmp_path: Path):
    renamed = [("  sex:", "  age_lower:")]
    assert findings(tmp_path, [("[sex]", "[age_lower]")], renamed) == []
    assert findings(tmp_path, [("[[age, ward], [sex]]", "all 1-way")], renamed) == []


def test_a_statistic_of_that_name_is_refused(tmp_path: Path):
    """`sum_x_order` is what stands beside `sum_x`, and what the sum of `x_order` is published as."""
    product = "{kind: statistics, tables: [{by: [sum_x], of: [{sum: x_order}]}]}"
    spec = [("{kind: tables, mechanism: laplace, tables: [[age, ward], [sex]]}", product)]
    (found,) = findings(tmp_path, spec, [("  sex:", "  sum_x:"), ("  age:", "  x_order:")])
    assert "labels: columns, and 'sum_x_order' beside the labels of 'sum_x'" in found


def test_codes_that_would_read_as_two_are_refused(tmp_path: Path):
    (found,) = findings(tmp_path, (), [('"07"', '"0|7"')])
    assert "labels: columns, and the code '0|7' of 'ward', which shares its label" in found
    assert findings(tmp_path, (), [('"11"', '"1|1"')]) == []


def test_codes_and_names_beside_labels_may_be_formulas_too(tmp_path: Path):
    """A label hides a code that a spreadsheet would run; beside it the code is there again."""
    coded = [('"11"', '"=1+1"')]
    (found,) = findings(tmp_path, (), coded)
    assert found.startswith("publish.formats: csv, and 1 labels that begin with =, +, - or @ (the first: a code")
    assert findings(tmp_path, [(", labels: columns", "")], coded) == []
    assert findings(tmp_path, [("labels: columns", "labels: columns, formulas: neutralised")], coded) == []
    (found,) = findings(tmp_path, [("[sex]", "{columns: ['='], name: signs}")], [("  sex:", '  "=":')])
    assert "the name of a column beside it, of column '='" in found


@pytest.mark.parametrize("product", ["{kind: synthetic, generator: independent}"])
def test_rows_that_are_no_cells_have_none(tmp_path: Path, product: str):
    spec = [("{kind: tables, mechanism: laplace, tables: [[age, ward], [sex]]}", product)]
    (found,) = findings(tmp_path, spec)
    assert found.startswith("publish.labels: labels: columns with kind synthetic; kind tables or statistics; drop")


LABELS = st.text(alphabet="'=+-@＝1a, ", max_size=6)


@pytest.mark.parametrize(
    ("label", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("+a", "'+a"),
        ("-b", "'-b"),
        ("@c", "'@c"),
        ("=x", "'=x"),
        ("'=x", "''=x"),
        ("＝1+1", "'＝1+1"),
        ("－ab", "'－ab"),
        ("﹦1", "'﹦1"),
        ("－", "－"),
        ("'", "''"),
        ("-1", "-1"),
        ("-3,5 %", "-3,5 %"),
        ("-", "-"),
        ("a'b", "a'b"),
        ("", ""),
    ],
)
def test_formulas_and_quoted_labels_get_one_quote(label: str, cell: str):
    assert (neutralised(label), restored(cell)) == (cell, label)


@given(LABELS)
def test_no_neutralised_label_is_a_formula_and_each_is_read_back(label: str):
    """Two labels that are written alike would be read back alike."""
    cell = neutralised(label)
    assert restored(cell) == label
    assert not is_formula(cell)


@given(LABELS)
def test_a_cell_that_no_label_is_written_as_is_refused(cell: str):
    """So a quote that is missing or too many is found, and never taken for another label."""
    if cell in {neutralised(label) for label in (cell, cell[1:])}:
        assert neutralised(restored(cell)) == cell
        return
    with pytest.raises(ValueError, match="formulas: neutralised"):
        restored(cell)


@pytest.mark.parametrize(("cell", "wanted"), [("=x", '"\'=x"'), ("'a", "'a'"), ("'-1", "'-1'")])
def test_the_refusal_says_how_the_label_is_written(cell: str, wanted: str):
    with pytest.raises(ValueError, match=f"where {wanted} is written"):
        restored(cell)
