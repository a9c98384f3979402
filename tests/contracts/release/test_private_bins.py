"""`bins: private` in a spec: what is read, what is refused and where; old specs mean what they meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from contracts.errors import SpecRefused
from contracts.release.joined_cells import joined_cells, joins_fit
from contracts.release.spec import SyntheticProduct, load_spec
from contracts.release.spec_checks import check_spec
from contracts.release.synthetic import JOINED_SHARE, InsideSpec
from tests.contracts.contract.test_bin_contents import PAY, contract
from tests.contracts.release.test_inside_bins import CITY
from tests.contracts.samples import write
from tests.worlds.tables import property_yaml

SPEC = """\
release: pay
contract: pay.odcs.yaml
source: {path: pay.csv}
charge: {account: pay-2024, epsilon: 1, delta: 1e-9}
product:
  kind: synthetic
  generator: mst
  bins: private
publish: {to: releases/}
"""
AGE = property_yaml(
    "age",
    "integer",
    "{kind: integer, bounds: [0, 299], bins: {width: 1}, nulls: {policy: category}, provenance: {kind: declared}}",
)


def written(folder: Path, *changes: tuple[str, str]) -> Path:
    text = SPEC
    for old, new in changes:
        text = text.replace(old, new)
    return write(folder, "pay.yaml", text)


def test_private_bins_are_measured_and_written_as_themselves(tmp_path: Path) -> None:
    made = contract(tmp_path, PAY + CITY)
    product = load_spec(written(tmp_path)).synthetic_product
    assert product.measured_inside == InsideSpec(share=JOINED_SHARE)
    assert [tree.column for tree in product.trees(made)] == ["pay"]
    assert SyntheticProduct.model_validate(product.model_dump(mode="json")) == product
    plain = load_spec(written(tmp_path, ("  bins: private\n", ""))).synthetic_product
    assert "bins" not in plain.model_dump(mode="json")


@pytest.mark.parametrize(
    ("change", "line", "field", "found"),
    [
        (("private", "privat"), 8, "product.bins", "privat"),
        (
            ("bins: private", "bins: private\n  inside_bins: uniform"),
            8,
            "product.bins",
            "inside_bins: uniform beside",
        ),
        (("kind: synthetic\n  generator: mst", "kind: statistics"), 7, "product", "bins"),
        (("kind: synthetic\n  generator: mst", "kind: tables"), 7, "product", "bins"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line(
    tmp_path: Path, change: tuple[str, str], line: int, field: str, found: str
) -> None:
    with pytest.raises(SpecRefused) as refused:
        load_spec(written(tmp_path, change))
    finding = next(each for each in refused.value.findings if found in each.found)
    assert finding.field.startswith(field)
    assert f":{line}" in finding.where
    assert finding.allowed or finding.remedy


@pytest.mark.parametrize(
    ("properties", "inside", "found", "allowed"),
    [
        (CITY, "", "no column with 3 bins of numbers or days or more", "at least one such column"),
        (PAY + CITY, "{columns: [city]}", "the column 'city', which has no 3 bins", "days in bins"),
        (PAY + CITY, "{columns: [paid]}", "the column 'paid'", "pay, city"),
        (AGE, "", "300 bins of 'age'", "at most 256"),
    ],
)
def test_columns_that_cannot_be_joined_are_named(
    tmp_path: Path, properties: str, inside: str, found: str, allowed: str
) -> None:
    made = contract(tmp_path, properties)
    more = f"bins: private\n  inside_bins: {inside}" if inside else "bins: private"
    (finding,) = check_spec(load_spec(written(tmp_path, ("bins: private", more))), made)
    assert found in finding.found
    assert allowed in finding.allowed
    assert f":{9 if inside else 8}" in finding.where


def test_joined_cells_have_the_labels_of_their_blocks(tmp_path: Path) -> None:
    made = contract(tmp_path, PAY + CITY)
    cells = joined_cells(["pay", "city"], {"pay": (0, 2)}, made)
    assert cells.column("pay").labels == ("-10 to 99", "100 to 1000", "(null)")
    assert cells.shape(["pay", "city"]) == (3, made.column("city").size)
    assert joins_fit({"pay": (0, 2)}, ["pay"], made)
    for wrong in ({"pay": (1, 2)}, {"pay": (0, 3)}, {"pay": (0, 0)}, {"pay": ()}, {"city": (0, 1)}):
        assert not joins_fit(wrong, ["pay", "city"], made)
    assert not joins_fit({"pay": (0, 2)}, ["city"], made)
