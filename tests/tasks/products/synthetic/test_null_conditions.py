"""Synthetic rows keep a declared condition on missing values, and a check of its own sees it broken."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from contracts.contract.contract import Contract
from contracts.errors import Finding
from tasks.products.synthetic.row_constraints import PublishedColumn, check_rows
from tests.tasks.verification.forgery import load
from tests.worlds.synthetic_rows import aim
from tests.worlds.versions import Version, publish_version

CONDITION = "constraints: [{null_exactly_where: {column: age, by: ward, labels: [surgery]}}]"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Version:
    privacy = f"{{unit: {{kind: row, scope: block}}, adjacency: add_remove, {CONDITION}}}"
    product = "{kind: synthetic, generator: mst, columns: [age, ward, insured], inside_bins: measured}"
    scenario = replace(aim(), privacy=privacy, product=product, release="children")
    return publish_version(scenario, tmp_path_factory.mktemp("children") / "v")


def test_every_row_keeps_the_condition_both_ways(published: Version) -> None:
    """Age is missing in surgery, and known in the other wards; where the ward is missing either may be."""
    published.assert_verifies()
    rows = pl.read_parquet(published.folder / "data" / "children.parquet")
    there = rows.filter(pl.col("ward").is_not_null())
    surgery = there["ward"].cast(pl.String) == "surgery"
    assert 30 < surgery.sum() < len(there) - 30
    assert (there["age"].is_null() == surgery).all()
    words = published.words["contract.functional_dependencies"]
    assert words == ["ward determines whether age is missing"]


def test_a_row_that_breaks_it_is_found(published: Version) -> None:
    """By the checker's own code, from the values alone."""
    contract = Contract.model_validate(load(published.folder / "record.json")["replay"]["contract"])

    def found(ward: int, *, missing: bool) -> list[Finding]:
        age = PublishedColumn(np.array([30]), np.array([missing]))
        wards = PublishedColumn(np.array([ward]), np.array([False]), ["surgery", "children"])
        return check_rows(contract, {"age": age, "ward": wards}, first_row=1, where="rows")

    assert found(0, missing=False)
    assert found(1, missing=True)
    assert not found(0, missing=True)
    assert not found(1, missing=False)
