"""`inside_bins` and `bins: private` in a spec: what is read, what is refused and where, and what old specs mean."""

from decimal import Decimal
from pathlib import Path

import pytest

from contracts.contract.contract import Contract
from contracts.errors import SpecRefused
from contracts.release.joined_cells import joined_cells, joins_fit
from contracts.release.spec import SyntheticProduct, load_spec
from contracts.release.spec_checks import check_spec
from contracts.release.synthetic import JOINED_SHARE, InsideSpec
from tests.contracts.contract.test_bin_contents import PAY, PRICE, contract
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
  inside_bins: INSIDE
publish: {to: releases/}
"""
CITY = property_yaml(
    "city",
    "string",
    "{kind: categories, values: [north, south], nulls: {policy: category}, provenance: {kind: declared}}",
)


def product(folder: Path, inside: str) -> SyntheticProduct:
    return load_spec(write(folder, "pay.yaml", SPEC.replace("INSIDE", inside))).synthetic_product


def three(folder: Path) -> Contract:
    return contract(folder, PAY + PRICE + CITY)


def test_words_and_a_mapping_are_read(tmp_path: Path):
    made = three(tmp_path)
    measured = product(tmp_path, "measured")
    assert measured.inside_bins == InsideSpec()
    assert [tree.column for tree in measured.trees(made)] == ["pay", "price"]
    assert [lattice.column for lattice in measured.lattices(made)] == ["pay", "price"]
    some = product(tmp_path, "{share: 0.25, columns: [price]}")
    assert some.measured_inside == InsideSpec(share=Decimal("0.25"), columns=("price",))
    assert [tree.column for tree in some.trees(made)] == ["price"]
    for uniform in ("uniform", "null"):
        assert product(tmp_path, uniform).trees(made) == ()


def test_a_product_is_written_as_it_was_where_nothing_is_said(tmp_path: Path):
    """So records of before have the digests that they had, and what is written reads as itself."""
    assert "inside_bins" not in product(tmp_path, "null").model_dump(mode="json")
    for written in ("uniform", "measured", "{share: 0.3, columns: [pay]}"):
        read = product(tmp_path, written)
        assert SyntheticProduct.model_validate(read.model_dump(mode="json")) == read


@pytest.mark.parametrize(
    ("written", "share"),
    [
        ("null", JOINED_SHARE),
        ("measured", JOINED_SHARE),
        ("{columns: [pay]}", JOINED_SHARE),
        ("{share: 0.1}", Decimal("0.1")),
        ("{share: 0.4, columns: [pay]}", Decimal("0.4")),
    ],
)
def test_joined_bins_have_a_usual_share_of_their_own(tmp_path: Path, written: str, share: Decimal):
    """Where none is written; and what is written out has the share in it, so that a record reads as the spec did."""
    joined = product(tmp_path, f"{written}\n  bins: private")
    assert joined.measured_inside is not None
    assert joined.measured_inside.share == share
    again = SyntheticProduct.model_validate(joined.model_dump(mode="json"))
    assert again == joined
    assert again.measured_inside == joined.measured_inside
    assert joined.measured_inside.columns == (("pay",) if "pay" in written else "all")


@pytest.mark.parametrize(
    ("written", "field", "found"),
    [
        ("measurd", "product.inside_bins", "'measurd'"),
        ("{share: 0}", "product.inside_bins.share", "0"),
        ("{share: 0.95}", "product.inside_bins.share", "0.95"),
        ("{share: much}", "product.inside_bins.share", "'much'"),
        ("{columns: []}", "product.inside_bins.columns", "an empty list"),
        ("{columns: [pay, pay]}", "product.inside_bins.columns", "'pay' twice"),
        ("{portion: 0.1}", "product.inside_bins", "'portion'"),
        ("7", "product.inside_bins", "7"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line(tmp_path: Path, written: str, field: str, found: str):
    with pytest.raises(SpecRefused) as refused:
        product(tmp_path, written)
    (finding,) = refused.value.findings
    assert finding.field.startswith(field)
    assert found in finding.found
    assert ":8" in finding.where
    assert finding.remedy or finding.allowed


@pytest.mark.parametrize("written", ["{share: 0.2, columns: [pay]}", "[pay]"])
def test_a_share_of_joined_bins_is_sent_to_the_key_that_has_it(tmp_path: Path, written: str):
    with pytest.raises(SpecRefused) as refused:
        product(tmp_path, f"measured\n  bins: {written}")
    (finding,) = refused.value.findings
    assert (finding.field, finding.allowed) == ("product.bins", "private")
    assert finding.remedy == "write `bins: private`, and share and columns under `inside_bins:`"
    assert ":9" in finding.where


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("{columns: [pay, prize]}", "the column 'prize'"),
        ("{columns: [city]}", "the column 'city', which has no bins of several numbers or days"),
    ],
)
def test_columns_that_do_not_fit_the_contract_are_named(tmp_path: Path, written: str, found: str):
    made = three(tmp_path)
    spec = load_spec(write(tmp_path, "pay.yaml", SPEC.replace("INSIDE", written)))
    (finding,) = check_spec(spec, made)
    assert finding.found == found
    assert ":8" in finding.where
    assert finding.allowed


def test_a_table_without_numbers_in_bins_is_told_so(tmp_path: Path):
    made = contract(tmp_path, CITY)
    spec = load_spec(write(tmp_path, "pay.yaml", SPEC.replace("INSIDE", "measured")))
    (finding,) = check_spec(spec, made)
    assert finding.found == "no column with bins of several numbers or days"
    assert "uniform" in finding.remedy


@pytest.mark.parametrize(
    ("written", "found"),
    [("share: 0.5", "share beside method: uniform"), ("columns: [pay]", "columns beside method: uniform")],
)
def test_what_is_written_beside_uniform_values_is_refused_by_the_spec_alone(tmp_path: Path, written: str, found: str):
    """A record states all keys, and another version's usual share is none that somebody wrote."""
    made = three(tmp_path)
    text = SPEC.replace("INSIDE", f"{{method: uniform, {written}}}")
    spec = load_spec(write(tmp_path, "pay.yaml", text))
    assert SyntheticProduct.model_validate(spec.product.model_dump(mode="json")) == spec.product
    (finding,) = check_spec(spec, made)
    assert (finding.field, ":8" in finding.where) == ("product.inside_bins", True)
    assert found in finding.found
    assert finding.remedy


PRIVATE = """\
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
    text = PRIVATE
    for old, new in changes:
        text = text.replace(old, new)
    return write(folder, "pay.yaml", text)


def test_private_bins_are_measured_and_written_as_themselves(tmp_path: Path):
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
def test_private_bins_that_cannot_be_read_are_refused_with_their_line(
    tmp_path: Path, change: tuple[str, str], line: int, field: str, found: str
):
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
):
    made = contract(tmp_path, properties)
    more = f"bins: private\n  inside_bins: {inside}" if inside else "bins: private"
    (finding,) = check_spec(load_spec(written(tmp_path, ("bins: private", more))), made)
    assert found in finding.found
    assert allowed in finding.allowed
    assert f":{9 if inside else 8}" in finding.where


def test_joined_cells_have_the_labels_of_their_blocks(tmp_path: Path):
    made = contract(tmp_path, PAY + CITY)
    cells = joined_cells(["pay", "city"], {"pay": (0, 2)}, made)
    assert cells.column("pay").labels == ("-10 to 99", "100 to 1000", "(null)")
    assert cells.shape(["pay", "city"]) == (3, made.column("city").size)
    assert joins_fit({"pay": (0, 2)}, ["pay"], made)
    for wrong in ({"pay": (1, 2)}, {"pay": (0, 3)}, {"pay": (0, 0)}, {"pay": ()}, {"city": (0, 1)}):
        assert not joins_fit(wrong, ["pay", "city"], made)
    assert not joins_fit({"pay": (0, 2)}, ["city"], made)
