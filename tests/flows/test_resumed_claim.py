"""A charged run that stopped: it publishes the very release that was charged, and what stopped it leaves a trace."""

import json
import re
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from benchmarks._periodic_place import CONTRACT, write_rows
from benchmarks.orchestration import release_plainly
from contracts.errors import StoreUnwritable
from contracts.periods.time_blocks import time_block
from flows.prepare import engine_failures_entered, intake
from flows.request import read_request
from privacy.accounting.amounts import ATTO, PICO, atto_to_text
from privacy.accounting.calculus import RenyiCalculus
from privacy.counting_engine import CountsUnavailable
from privacy.generators.calibration import FittedPlan
from privacy.ledger.ledger import Ledger
from privacy.ledger.terms import AccountTerms, Charge
from privacy.private_table import PrivateTable
from tasks.charge import charge
from tasks.products.charge_request import run_key
from tasks.products.synthetic.fit import synthesize
from tasks.products.tables.table_measurement import measure
from tasks.publish import published
from tasks.storage.workspace.run_folder import hold, run_name
from tasks.storage.workspace.settings import Workspace
from tasks.verification.recompute.loss import recompute
from tasks.verify import verify

FITTED = """\
release: visits
contract: visits.odcs.yaml
source: {path: visits.csv}
charge: {account: visits, epsilon: 1, delta: 1e-7}
product: {kind: synthetic, generator: gaussian_copula, rows: 50}
publish: {to: releases/}
"""
TABLES = """\
release: counts
contract: visits.odcs.yaml
source: {path: visits.csv}
charge: {account: visits, epsilon: 1, delta: 1e-7}
product: {kind: tables, mechanism: gaussian, tables: [[ward]], total: noisy}
publish: {to: releases/}
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """One table, one account of ε 3 by Rényi losses, and two specs."""
    (tmp_path / "visits.odcs.yaml").write_text(CONTRACT)
    (tmp_path / "visits.yaml").write_text(FITTED)
    (tmp_path / "counts.yaml").write_text(TABLES)
    write_rows(tmp_path / "visits.csv", [(2024, 1), (2024, 2), (2024, 3)])
    made = Workspace.create(tmp_path / "w")
    with closing(made.open_ledger()) as ledger:
        calculus = RenyiCalculus(Fraction(15))
        terms = ("visits", "patients", "2024", "row", "add_remove", calculus, 3 * PICO, ATTO // 10**6)
        ledger.open_account(AccountTerms(*terms))
        ledger.bind_source(str((tmp_path / "visits.csv").resolve()), "patients", time_block("2024"))
    return made


def charges(ledger: Ledger, release: str) -> list[Charge]:
    return [each for each in ledger.charges(account="visits") if each.request.release == release]


def stopped(spec_path: Path, workspace: Workspace) -> None:
    """Charge, draw all of it, and stop, as a killed process does: its snapshot stays."""
    request = read_request(spec_path, workspace)
    spec, contract, plan = request.spec, request.contract, request.plan
    assert isinstance(plan, FittedPlan)
    assert plan.claimed_by == "pld"
    with (
        closing(workspace.open_ledger()) as ledger,
        hold(workspace.runs, run_name(spec.release, spec.run_digest), keep_snapshot=False) as run,
    ):
        table = intake(run, request, workspace)
        key = run_key(spec, contract, table)
        with run.charge_seen(ledger, key):
            grant = charge(ledger, spec, contract, plan, table)
            synthesize(grant, spec.synthetic_product, plan, table, contract, run.path, key)


@pytest.mark.long
def test_a_run_whose_claim_is_by_its_loss_distribution_resumes_as_it_was_charged(
    workspace: Workspace, tmp_path: Path
):
    """The account has less room by then, so the same spec would be planned with more noise. It is made once."""
    spec = tmp_path / "visits.yaml"
    stopped(spec, workspace)
    with closing(workspace.open_ledger()) as ledger:
        [charged] = charges(ledger, "visits")
        drawn = [entry.hash for entry in ledger.entries_of(charged.request.run_key)]
        room = ledger.account("visits").remaining
    assert charged.request.noise_epsilon is not None
    release_plainly(tmp_path / "counts.yaml", workspace.root)
    with closing(workspace.open_ledger()) as ledger:
        assert ledger.account("visits").remaining < room
    release_plainly(spec, workspace.root)
    folder = workspace.releases / "visits" / "v1"
    with closing(workspace.open_ledger()) as ledger:
        [after] = charges(ledger, "visits")
        assert after == replace(charged, status="published", security="csprng")
        assert published(ledger, after.request.run_key, workspace.releases) is not None
        assert [entry.hash for entry in ledger.entries_of(after.request.run_key)][:-1] == drawn
        assert [each.number for each in ledger.versions("visits")] == [1]
    assert [each.name for each in folder.parent.iterdir() if each.is_dir() and not each.is_symlink()] == ["v1"]
    replay = json.loads((folder / "record.json").read_bytes())["replay"]
    assert replay["claim"]["epsilon"] == charged.request.epsilon
    events = [draw["event"] for draw in replay["draws"]]
    renyi = recompute(events, atto_to_text(replay["claim"]["delta"]), replay["calculus"]).epsilon_best
    assert renyi is not None
    assert replay["claim"]["epsilon"] < 0.999 * float(renyi) * PICO
    report = verify(folder, public_key=workspace.signer().public_key)
    assert report.ok, report.findings


@pytest.mark.parametrize("to", ["visits.csv", "/dev/null"])
def test_a_store_that_cannot_be_written_is_found_before_the_charge(workspace: Workspace, tmp_path: Path, to: str):
    """A file in the way, or a device: the probe of the store fails, and nothing is charged."""
    spec = tmp_path / "counts.yaml"
    spec.write_text(TABLES.replace("to: releases/", f"to: {tmp_path / to}"))
    with pytest.raises(StoreUnwritable, match=re.escape(str(tmp_path / to))):
        release_plainly(spec, workspace.root)
    with closing(workspace.open_ledger()) as ledger:
        assert charges(ledger, "counts") == []


@pytest.mark.long
def test_a_corrected_place_and_other_formats_go_on_with_the_charge(workspace: Workspace, tmp_path: Path):
    """Where a version goes is no part of what names its run: the noise that was paid for is published elsewhere."""
    spec = tmp_path / "visits.yaml"
    spec.write_text(FITTED.replace("to: releases/", "to: elsewhere/"))
    stopped(spec, workspace)
    spec.write_text(FITTED.replace("to: releases/", "to: releases/, formats: [parquet, csv]"))
    release_plainly(spec, workspace.root)
    with closing(workspace.open_ledger()) as ledger:
        assert [each.status for each in charges(ledger, "visits")] == ["published"]
    assert (workspace.releases / "visits" / "v1" / "data" / "visits.csv").is_file()


class Dead:
    """An engine that died after its charge; what it says may differ."""

    def __init__(self, words: str) -> None:
        self._words = words

    def counted_cells(self, cliques: Sequence[tuple[str, ...]]) -> Any:
        raise CountsUnavailable(self._words)

    def broken_checks(self) -> frozenset[str]:
        return frozenset()

    def marked_rows(self) -> tuple[int, dict[str, int]]:
        return 3, {}

    def seen(self) -> list[Any]:
        return []

    def close(self) -> None: ...


def test_an_engine_that_fails_a_charged_run_leaves_a_trace_that_says_no_more(workspace: Workspace, tmp_path: Path):
    """The same entry whatever the engine said; the charge stays, and the run goes on with it once it counts again."""
    spec_path = tmp_path / "counts.yaml"
    request = read_request(spec_path, workspace)
    spec, contract, plan = request.spec, request.contract, request.plan
    with (
        closing(workspace.open_ledger()) as ledger,
        hold(workspace.runs, run_name(spec.release, spec.run_digest), keep_snapshot=False) as run,
    ):
        table = intake(run, request, workspace)
        key = run_key(spec, contract, table)
        with run.charge_seen(ledger, key):
            grant = charge(ledger, spec, contract, plan, table)
            for words in ("Spark, query: the process ended", "Spark, query: it did not count every row of the stage"):
                dead = PrivateTable(table.path, table.keyed_hash, contract.digest, table.source, Dead(words))
                with pytest.raises(CountsUnavailable), engine_failures_entered(ledger, key):
                    measure(grant, plan, dead, contract)  # type: ignore[arg-type]
            one, other = ledger.journal()[-2:]
            assert (one.kind, other.kind) == ("engine_failed", "engine_failed")
            assert {**one.body, "salt": ""} == {**other.body, "salt": ""}
            assert (one.body["run_key"], one.body["release"]) == (key, "counts")
            assert not any(word in json.dumps(one.body) for word in ("Spark", "ended", "row"))
    release_plainly(spec_path, workspace.root)
    with closing(workspace.open_ledger()) as ledger:
        assert [each.status for each in charges(ledger, "counts")] == ["published"]
        assert ledger.verify(public_key=workspace.signer().public_key) == []
