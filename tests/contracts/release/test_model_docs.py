"""The manual's page on models: its example loads, fits the shipped contract, and has real options."""

import re
from pathlib import Path
from textwrap import dedent

import pytest

from contracts.contract.odcs import load_contract
from contracts.errors import SpecRefused
from contracts.release.spec import ClassifierProduct, load_spec
from contracts.release.spec_checks import check_spec
from privacy.classifiers.trainer import trainer
from tests.contracts.samples import write

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "synthetic.md").read_text(encoding="utf-8").partition("\n## Classifiers\n")[2]
PRODUCT = dedent(re.findall(r"^(    product:\n(?: {4,}.*\n)+)", PAGE, re.MULTILINE)[0])
SHIPPED = (ROOT / "examples" / "adult" / "model.yaml").read_text()


def with_product(product: str) -> str:
    return re.sub(r"^product:\n(?: .*\n)+", product, SHIPPED, flags=re.MULTILINE)


def test_the_example_loads_and_fits_the_shipped_contract(tmp_path: Path):
    spec = load_spec(write(tmp_path, "model.yaml", with_product(PRODUCT)))
    assert isinstance(spec.product, ClassifierProduct)
    assert (spec.product.label, spec.product.columns, spec.product.numbers) == ("income", "all", "cells")
    assert check_spec(spec, load_contract(ROOT / "examples" / "adult" / "adult.odcs.yaml")) == []
    read = trainer(spec.product.trainer).options.model_validate(dict(spec.product.options))
    assert read.rows_about == 48_000


def test_the_other_way_to_read_numbers_that_it_names_loads_too(tmp_path: Path):
    scaled = with_product(PRODUCT.replace("numbers: cells", "numbers: scaled"))
    assert load_spec(write(tmp_path, "model.yaml", scaled)).product.numbers == "scaled"  # type: ignore[union-attr]


def test_a_field_that_is_not_indented_below_the_product_is_refused(tmp_path: Path):
    """The wrong case: `numbers:` beside `product:`."""
    with pytest.raises(SpecRefused):
        load_spec(write(tmp_path, "model.yaml", with_product(PRODUCT.replace("  numbers:", "numbers:"))))
