"""Synthetic products in a release spec: what is read, what is refused, and where."""

from pathlib import Path

import jsonschema
import pytest
import yaml

from contracts.contract.contract import Contract
from contracts.errors import SpecRefused
from contracts.release.spec import ReleaseSpec, SyntheticProduct, load_spec, spec_schema
from contracts.release.spec_checks import check_spec
from tests.contracts.contract.test_constraints import DEPENDENCY
from tests.contracts.contract.test_constraints import contract as stays
from tests.contracts.samples import write

SPEC = """\
release: stays
contract: stays.odcs.yaml
source: {path: stays.csv}
charge: {account: stays-2024, epsilon: 1, delta: 1e-9}
product:
  kind: synthetic
  generator: independent
  columns: [city, low]
  options: {max_model_megabytes: 5}
  rows: 1000
publish: {to: releases/}
"""


def loaded(folder: Path, *changes: tuple[str, str]) -> ReleaseSpec:
    text = SPEC
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return load_spec(write(folder, "stays.yaml", text))


def findings(folder: Path, contract: Contract, *changes: tuple[str, str]) -> list[str]:
    return [
        f"{each.where.rpartition('/')[2]} {each.field}: {each.found}"
        for each in check_spec(loaded(folder, *changes), contract)
    ]


def test_a_synthetic_product_is_read_and_passes_the_published_schema(tmp_path: Path):
    """Columns stand in the contract's order, whatever the spec's; what is not written has a default."""
    contract = stays(tmp_path, "[]")
    product = loaded(tmp_path).synthetic_product
    assert product.names(contract) == ("low", "city")
    assert (product.rows, product.options) == (1000, {"max_model_megabytes": "5"})
    least = loaded(
        tmp_path,
        ("  columns: [city, low]\n", ""),
        ("  rows: 1000\n", ""),
        ("  options: {max_model_megabytes: 5}\n", ""),
    )
    assert (least.synthetic_product.rows, least.synthetic_product.columns) == ("estimated", "all")
    assert len(least.synthetic_product.names(contract)) == len(contract.columns)
    assert check_spec(least, contract) == []
    jsonschema.Draft202012Validator(spec_schema()).validate(yaml.safe_load(SPEC))


def test_a_product_survives_the_record(tmp_path: Path):
    for spec in (loaded(tmp_path), loaded(tmp_path, ("  rows: 1000", "  rows: estimated"))):
        product = spec.synthetic_product
        assert SyntheticProduct.model_validate(product.model_dump(mode="json")) == product
        with pytest.raises(TypeError, match="no tables"):
            _ = spec.tables_product


@pytest.mark.parametrize(
    ("old", "new", "where", "told"),
    [
        ("generator: independent", "generatr: independent", "stays.yaml:7: product.generatr", "'generatr'"),
        ("rows: 1000", "rows: 0", "stays.yaml:10: product.rows", "1 to"),
        ("rows: 1000", "rows: many", "stays.yaml:10: product.rows", "estimated"),
        ("rows: 1000", "rows: 1e99", "stays.yaml:10: product.rows", "estimated"),
        ("[city, low]", "[city, low, city]", "stays.yaml:8: product.columns[2]", "twice"),
        ("[city, low]", "[]", "stays.yaml:8: product.columns", "at least one"),
        ("[city, low]", "everything", "stays.yaml:8: product.columns", "a list"),
        ("kind: synthetic", "kind: classifier", "product.generator", "generator"),
        ("kind: synthetic", "kind: synthetik", "stays.yaml:6: product.kind", "write 'synthetic'"),
    ],
)
def test_what_cannot_be_meant_is_refused_at_its_line(tmp_path: Path, old: str, new: str, where: str, told: str):
    with pytest.raises(SpecRefused) as refused:
        loaded(tmp_path, (old, new))
    text = str(refused.value)
    assert where in text
    assert told in text


def test_columns_must_be_the_contract_s_and_leave_a_possible_row(tmp_path: Path):
    """An unknown column with the nearest one; constraints that only together leave nothing are found by the plan."""
    contract = stays(tmp_path, "[]")
    assert findings(tmp_path, contract, ("[city, low]", "[citi, low]")) == [
        "stays.yaml:8 product.columns[0]: the column 'citi'"
    ]
    zeros = (
        "structural_zeros: [{city: [Ulm, Bonn, (null)], low: ['0 to 4', (null)]}, "
        "{zip: ['10', '20', '30', x, (null)], low: ['5 to 9']}]"
    )
    text = (
        (tmp_path / "stays.odcs.yaml")
        .read_text()
        .replace('structural_zeros: [{city: [Ulm], low: ["0 to 4"]}]', zeros)
    )
    from contracts.contract.odcs import load_contract

    nothing = load_contract(write(tmp_path, "stays.odcs.yaml", text))
    columns = ("[city, low]", "[city, low, zip]")
    assert findings(tmp_path, nothing, columns) == [
        "stays.yaml:8 product.columns: structural zeros and constraints that together leave no possible row"
    ]
    assert findings(tmp_path, nothing) == []


def test_a_column_that_measurements_could_not_hold_is_refused(tmp_path: Path):
    """A measured marginal has columns of its own beside the labels."""
    contract = stays(tmp_path, f"[{DEPENDENCY}]")
    renamed = contract.model_copy(
        update={"columns": (*contract.columns[1:], contract.columns[0].model_copy(update={"name": "noisy"}))}
    )
    (found,) = findings(tmp_path, renamed, ("[city, low]", "[city, noisy]"))
    assert "the column 'noisy'" in found
