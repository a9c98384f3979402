"""The rows of a prior: what is read of a file, and what is refused before anything is charged."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from contracts.errors import SpecRefused
from contracts.periods.time_blocks import time_block
from flows.request import read_request
from tasks.storage.workspace.settings import Workspace
from tests.worlds.public_priors import (
    OLD,
    PriorScenario,
    old_rows,
    with_prior,
)


def refusal(scenario: PriorScenario, folder: Path) -> Any:
    with pytest.raises(SpecRefused) as refused:
        scenario.prepared(folder)
    assert not (folder / "ledger.sqlite").exists()
    return refused.value.findings[0]


@pytest.mark.parametrize(
    ("old", "new", "field", "says"),
    [
        (", public_because: 'Published by the office in 2006, with its yearbook.'", "", "prior", "public_because"),
        ("'Published by the office in 2006, with its yearbook.'", "public", "prior.public_because", "6 characters"),
        (f"path: {OLD}", "path: gone.parquet", "prior.path", "No such file"),
        (f"path: {OLD}", "path: old.xlsx", "prior.path", ".parquet or .csv"),
        (f"path: {OLD}", "path: /srv/old.parquet", "prior.path", "relative path"),
        (f"path: {OLD}", f"columns: [agee], path: {OLD}", "prior.columns[0]", "'agee'"),
        (f"path: {OLD}", f"columns: [], path: {OLD}", "prior.columns", "an empty list"),
        (f"path: {OLD}", f"sha256: {'0' * 64}, path: {OLD}", "prior.sha256", "digest"),
        (f"path: {OLD}", f"sha256: abc, path: {OLD}", "prior.sha256", "64 digits of 0-9 and a-f"),
        (f"path: {OLD}", "path: 'https://example.org/old.csv'", "prior.path", "relative path"),
        (f"path: {OLD}", f"weight: 2, path: {OLD}", "prior.weight", "unknown key"),
        ("generator: aim", "generator: latent_factors", "product.generator", "allowed: aim, auto, fixed"),
        ("generator: aim", "generator: vae, options: {rows_about: 3000}", "product.generator", "allowed: aim, auto"),
        ("generator: aim", "generator: aim, options: {init: false}", "product.options.init", "beside a prior"),
        (
            "generator: aim",
            "accept: {criteria: [{kind: mean_marginal, ways: 2, at_most: 0.1}], candidates: [{generator: aim}]}",
            "product.prior",
            "prior beside accept",
        ),
    ],
)
def test_what_cannot_be_a_prior_is_refused_with_its_place(
    tmp_path: Path, old: str, new: str, field: str, says: str
) -> None:
    """By the plan, which reads no confidential row and charges nothing; each says what to do."""
    scenario = with_prior()
    assert old in scenario.product
    finding = refusal(replace(scenario, product=scenario.product.replace(old, new)), tmp_path)
    assert field in finding.field
    assert says in str(finding)
    assert "do: " in str(finding)
    assert "spec.yaml:" in finding.where


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (old_rows().drop("age"), "columns: ["),
        (old_rows().head(0), "no rows"),
        (old_rows().with_columns(ward=pl.lit("attic")), "values that are none of the contract's, 2,000 of 'ward'"),
        (old_rows().with_columns(age=pl.lit("old")), "values that are none of the contract's, 2,000 of 'age'"),
        (old_rows().with_columns(age=pl.lit(412), ward=pl.lit("attic")), "2,000 of 'age', 2,000 of 'ward'"),
        (old_rows().with_columns(age=pl.lit(412)), "values that are none of the contract's, 2,000 of 'age'"),
    ],
)
def test_rows_that_the_contract_does_not_fit_are_refused(tmp_path: Path, rows: pl.DataFrame, says: str) -> None:
    finding = refusal(replace(with_prior(), old=rows), tmp_path)
    assert finding.field == "product.prior.path"
    assert says in str(finding)
    assert OLD in finding.found


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    scenario = with_prior()
    scenario.prepared(tmp_path)[3].close()
    (tmp_path / OLD).write_bytes(b"no parquet")
    with pytest.raises(SpecRefused) as refused:
        read_request(tmp_path / "spec.yaml")
    assert "that DuckDB reads" in str(refused.value.findings[0])


@pytest.mark.parametrize(
    ("head", "says"),
    [
        ("ward,ward,floor,age,bill", "with the column 'ward' twice"),
        ("ward;WARD;floor;age;bill", "with the column 'ward' twice"),
        ("a,b,c,d,e", "add it, or name another file"),
    ],
)
def test_columns_of_a_csv_file_that_are_twice_or_absent_are_refused(tmp_path: Path, head: str, says: str) -> None:
    folder = tmp_path / "place"
    with_prior().prepared(folder)[3].close()
    (folder / "spec.yaml").write_text((folder / "spec.yaml").read_text().replace(OLD, "old.csv"))
    row = "surgery,surgery,1,3,3.0".replace(",", ";" if ";" in head else ",")
    (folder / "old.csv").write_text(f"{head}\n{row}\n")
    with pytest.raises(SpecRefused) as refused:
        read_request(folder / "spec.yaml")
    assert says in str(refused.value.findings[0])


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("old.csv", b"", "old.csv, which is empty"),
        ("old.parquet", b"ward,floor,age,bill\n", "give it the ending of what it is: one of .parquet, .csv"),
    ],
)
def test_a_file_that_is_none_is_called_so(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    folder = tmp_path / "place"
    with_prior().prepared(folder)[3].close()
    (folder / "spec.yaml").write_text((folder / "spec.yaml").read_text().replace(OLD, name))
    (folder / name).write_bytes(content)
    with pytest.raises(SpecRefused) as refused:
        read_request(folder / "spec.yaml")
    assert says in str(refused.value.findings[0])


def test_a_changed_prior_is_another_release_and_a_pinned_one_is_refused(tmp_path: Path) -> None:
    scenario = with_prior()
    spec, _, _, ledger = scenario.prepared(tmp_path)
    ledger.close()
    pinned = sha256((tmp_path / OLD).read_bytes()).hexdigest()
    assert spec.synthetic_product.prior is not None
    assert spec.synthetic_product.prior.sha256 == pinned
    old_rows(1999).write_parquet(tmp_path / OLD)
    assert read_request(tmp_path / "spec.yaml").spec.digest != spec.digest
    text = (tmp_path / "spec.yaml").read_text()
    (tmp_path / "spec.yaml").write_text(text.replace(f"path: {OLD}", f"path: {OLD}, sha256: {pinned}"))
    with pytest.raises(SpecRefused) as refused:
        read_request(tmp_path / "spec.yaml")
    assert f"allowed: {pinned}" in str(refused.value.findings[0])


def test_csv_rows_are_read_as_parquet_is(tmp_path: Path) -> None:
    scenario = with_prior()
    one = scenario.prepared(tmp_path)
    one[3].close()
    old_rows().write_csv(tmp_path / "stays-2004.csv")
    text = (tmp_path / "spec.yaml").read_text()
    (tmp_path / "spec.yaml").write_text(text.replace(OLD, "stays-2004.csv"))
    other = read_request(tmp_path / "spec.yaml")
    assert one[2].task.prior is not None
    assert other.plan.task.prior.to_json()["counts"] == one[2].task.prior.to_json()["counts"]  # type: ignore[union-attr]


def test_a_source_of_people_is_no_prior(tmp_path: Path) -> None:
    """Neither the source of the release, nor any that the ledger has bound; plan and run ask the ledger."""
    scenario = replace(with_prior(), product=with_prior().product.replace(OLD, "stays.parquet"))
    assert "the ledger has bound" in str(refusal(scenario, tmp_path / "own"))
    folder = tmp_path / "bound"
    spec, _, _, ledger = with_prior().prepared(folder)
    ledger.close()
    workspace = Workspace.create(tmp_path / "workspace")
    with closing(workspace.open_ledger()) as known:
        known.bind_source(str((folder / OLD).resolve()), "patients", time_block("2024"))
    with pytest.raises(SpecRefused) as refused:
        read_request(spec.path, workspace)
    assert refused.value.findings[0].field == "product.prior.path"
