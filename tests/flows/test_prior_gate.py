"""The rows of a release are no prior of it, in whatever order or format they are written."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from benchmarks.orchestration import release_plainly
from contracts.errors import GateBroken
from contracts.periods.time_blocks import time_block
from flows import prepare
from privacy.accounting.amounts import PICO
from privacy.accounting.calculus import PureCalculus
from privacy.ledger.terms import AccountTerms
from tasks.storage.workspace.settings import Workspace
from tests.flows.test_own_rows_as_holdout import contract_text, spec_text

OLD = "old.parquet"
GATE = f"that the rows do not have all the counts in model/prior.json, which are those of {OLD} (always checked)"


def prepared(folder: Path, prior: Callable[[pl.DataFrame], pl.DataFrame], options: str = "") -> Workspace:
    """An account of 10, and a spec whose prior is made of the confidential rows."""
    workspace, source = Workspace.create(folder / "work"), folder / "stays.csv"
    random = np.random.default_rng(0)
    rows = pl.DataFrame({"age": random.integers(0, 100, 400), "ward": random.choice(list("abc"), 400)})
    rows.write_csv(source)
    prior(rows).write_parquet(folder / OLD)
    (folder / "contract.odcs.yaml").write_text(contract_text())
    asked = f"prior: {{path: {OLD}, public_because: 'Published by the office in 2006.'{options}}}"
    (folder / "spec.yaml").write_text(spec_text(f"{{kind: synthetic, generator: independent, {asked}}}"))
    with closing(workspace.open_ledger()) as ledger:
        account = AccountTerms("stays-2024", "patients", "2024", "row", "add_remove", PureCalculus(), 10 * PICO, 0)
        ledger.open_account(account)
        ledger.bind_source(str(source.resolve()), "patients", time_block("2024"))
    return workspace


@pytest.mark.parametrize(
    ("prior", "options"),
    [
        (lambda rows: rows.sort("age", "ward"), ""),
        (lambda rows: rows.select("ward", "age").reverse(), ""),
        (lambda rows: rows.select("ward"), ", columns: [ward]"),
    ],
)
def test_the_rows_of_a_release_are_refused_as_its_prior_and_nothing_is_charged(
    tmp_path: Path, prior: Callable[[pl.DataFrame], pl.DataFrame], options: str
) -> None:
    """Sorted, reversed with columns in another order, or one column alone; the journal has it."""
    workspace = prepared(tmp_path, prior, options)
    with pytest.raises(GateBroken, match="400 rows have all the counts of the confidential rows, of ") as broken:
        release_plainly(tmp_path / "spec.yaml", workspace.root)
    assert "do: name rows of other people" in str(broken.value)
    with closing(workspace.open_ledger()) as ledger:
        assert ledger.account("stays-2024").spent == 0
        assert [entry.body["gates"] for entry in ledger.journal() if entry.kind == "gate_failed"] == [["prior"]]


@pytest.mark.long
def test_a_release_that_is_charged_already_is_not_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What earlier code charged and published is found again; a refusal would strand the charge."""
    workspace = prepared(tmp_path, lambda rows: rows.reverse())
    with monkeypatch.context() as earlier:
        earlier.setattr(prepare, "ask_gates", lambda *_: None)
        assert release_plainly(tmp_path / "spec.yaml", workspace.root) == 0
    assert release_plainly(tmp_path / "spec.yaml", workspace.root) == 0
    with closing(workspace.open_ledger()) as ledger:
        assert "gate_failed" not in {entry.kind for entry in ledger.journal()}


@pytest.mark.parametrize(
    "prior",
    [
        lambda rows: rows.slice(1),
        lambda rows: rows.with_columns(pl.col("ward").reverse()),
        lambda rows: pl.concat([rows, rows.head(1)]),
    ],
)
def test_other_rows_pass_and_the_record_lists_the_gate(
    tmp_path: Path, prior: Callable[[pl.DataFrame], pl.DataFrame]
) -> None:
    """One row fewer or more, or the same columns with other pairs: the gate knows equal tables alone."""
    workspace = prepared(tmp_path, prior)
    assert release_plainly(tmp_path / "spec.yaml", workspace.root) == 0
    assert GATE in (workspace.releases / "r" / "v1" / "record.html").read_text(encoding="utf-8")
