"""The rows that a version was made of are no holdout, whatever else was counted of them."""

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from benchmarks.orchestration import release_plainly
from contracts.errors import Refused
from contracts.periods.time_blocks import time_block
from flows.evaluation.evaluate import evaluate_on_holdout
from privacy.accounting.amounts import PICO
from privacy.accounting.calculus import PureCalculus
from privacy.ledger.terms import AccountTerms
from tasks.storage.workspace.settings import Workspace
from tests.worlds.tables import CONTRACT, SPEC, property_yaml

pytestmark = pytest.mark.long

AGE = "{kind: integer, bounds: [0, 99], bins: {width: 5}, nulls: {policy: category}, provenance: {kind: declared}}"
WARD = "{kind: categories, values: [a, b, c], nulls: {policy: category}, provenance: {kind: declared}}"


def contract_text() -> str:
    terms = {"api": "v3.1.0", "id": "stays", "title": "S", "version": "1.0.0", "table": "stays"}
    return CONTRACT.format(
        **terms,
        description="description: {purpose: T.}",
        privacy="          {unit: {kind: row, scope: block}, adjacency: add_remove}",
        properties=property_yaml("age", "integer", AGE) + property_yaml("ward", "string", WARD),
    )


def spec_text(product: str) -> str:
    terms = {"release": "r", "account": "stays-2024", "epsilon": "1", "delta": "0", "store": "releases"}
    return SPEC.format(**terms, source="{path: stays.csv}", product=product, formats="[parquet]")


@pytest.mark.parametrize("more", ["", ", inside_bins: measured", ", bins: private"])
def test_the_rows_of_a_version_in_another_file_are_no_holdout(tmp_path: Path, more: str):
    """Counts inside bins are of columns of their own in the snapshot, and its mark covers them."""
    workspace, source = Workspace.create(tmp_path / "work"), tmp_path / "stays.csv"
    random = np.random.default_rng(0)
    rows = pl.DataFrame({"age": random.integers(0, 100, 400), "ward": random.choice(list("abc"), 400)})
    rows.write_csv(source)
    rows.write_parquet(tmp_path / "other.parquet")
    (tmp_path / "contract.odcs.yaml").write_text(contract_text())
    (tmp_path / "spec.yaml").write_text(spec_text(f"{{kind: synthetic, generator: independent{more}}}"))
    with closing(workspace.open_ledger()) as ledger:
        account = AccountTerms("stays-2024", "patients", "2024", "row", "add_remove", PureCalculus(), 10 * PICO, 0)
        ledger.open_account(account)
        ledger.bind_source(str(source.resolve()), "patients", time_block("2024"))
    assert release_plainly(tmp_path / "spec.yaml", workspace.root) == 0
    told = {"because": "Published by the office in 2006.", "target": None, "at": datetime.now(UTC)}
    with pytest.raises(Refused, match="the rows that this version was made of"):
        evaluate_on_holdout(
            workspace.releases / "r" / "v1",
            tmp_path / "other.parquet",
            workspace=workspace,
            **told,  # type: ignore[arg-type]
        )
