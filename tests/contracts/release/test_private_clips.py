"""Clips that a run finds, as a spec writes them: what is read, and what each mistake gets to read."""

from decimal import Decimal
from pathlib import Path

import jsonschema
import pytest
import yaml

from contracts.release.spec import spec_schema
from contracts.release.statistics import PrivateClip, StatisticsProduct, statistics_product
from tests.contracts.release.test_statistics import MEAN, PAY, SPEC, findings, product_of, spec_of
from tests.contracts.samples import line_of, loaded

PRIVATE = "{mean: age, clip: private}"
LONG = "{sum: income, clip: {private: true, share: 0.25}}"


def test_both_forms_load_and_the_lattice_is_that_of_the_bounds(tmp_path: Path):
    product, contract = product_of(tmp_path, (MEAN, PRIVATE), (PAY, LONG)), loaded(tmp_path)
    assert [table.private_clips for table in product.tables] == [
        {"age": PrivateClip(private=True)},
        {"income": PrivateClip(private=True, share=Decimal("0.25"))},
    ]
    assert PrivateClip(private=True).share == Decimal("0.1")
    plain = product_of(tmp_path, ("{sum: income, clip: [0, 1]}", "{sum: income}"))
    assert [table.lattices(contract) for table in product.tables] == [
        table.lattices(contract) for table in plain.tables
    ]


def test_a_product_with_private_clips_is_written_and_read_in_one_form(tmp_path: Path):
    product = product_of(tmp_path, (MEAN, PRIVATE), (PAY, LONG))
    written = product.model_dump(mode="json")
    assert written["tables"][0]["of"][1]["clip"] == {"private": True, "share": "0.1"}
    assert StatisticsProduct.model_validate(written) == product
    jsonschema.validate(yaml.safe_load(SPEC.replace(MEAN, PRIVATE).replace(PAY, LONG)), spec_schema())


BAD = [
    ("{mean: age, clip: privat}", "of[1].clip", "'privat'", "a pair [low, high], private or"),
    ("{mean: age, clip: {share: 0.1}}", "of[1].clip", "a mapping", "{private: true, share: 0.1}"),
    ("{mean: age, clip: {private: false}}", "of[1].clip.private", "false", "the contract's bounds are one"),
    ("{mean: age, clip: {private: true, share: 0}}", "of[1].clip.share", "0", "from 0.001 to 0.9"),
    ("{mean: age, clip: {private: true, share: 1}}", "of[1].clip.share", "1", "it is 0.1 then"),
    ("{mean: age, clip: {private: true, keep: 1}}", "of[1].clip.keep", "keep", "remove it"),
    ("{quantiles: [0.5], of: age, clip: private}", "of[1].clip", "a private clip of quantiles", "drop it"),
    ("{mean: age, clip: private}, {sum: age, clip: [0, 9]}", "of[2].clip", "another clip of 'age'", "one clip"),
    ("{mean: sex, clip: private}", "of[1].mean", "a column without bounds", "give the column a domain"),
]


@pytest.mark.parametrize(("written", "field", "found", "told"), BAD)
def test_a_mistake_is_refused_with_file_line_and_remedy(
    tmp_path: Path, written: str, field: str, found: str, told: str
):
    (finding,) = findings(tmp_path, (MEAN, written))
    assert field in finding.field
    assert found in finding.found
    assert told in f"{finding.allowed} {finding.remedy}"
    path, _, line = finding.where.rpartition(":")
    assert path.endswith("people.yaml")
    assert 5 <= int(line) <= line_of(SPEC, "publish")


def test_a_ratio_within_bounds_below_0_is_refused_whatever_clip_may_be_found(tmp_path: Path):
    """The clip is not known before the charge: a ratio needs bounds from 0 on."""
    ratio = "{ratio: {sum: income, clip: private}, over: {sum: age}}"
    contract = loaded(tmp_path)
    bounds = contract.column("income").domain.value_bounds
    assert bounds is not None
    told = findings(tmp_path, (PAY + ", {mean: income}, {sum: age, clip: [20, 90], step: 7}", ratio))
    assert bool(told) == (bounds[0] < 0), told
    assert statistics_product(spec_of(tmp_path, (MEAN, PRIVATE)).product).lattices(contract)
