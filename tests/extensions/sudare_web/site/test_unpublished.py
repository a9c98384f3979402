"""Limit 12: what everybody sees of runs that were charged and never published."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fastapi.testclient import TestClient

from privacy.grant.grant import open_grant
from sudare_web.serve import make_site
from sudare_web.site.app import make_app
from tasks.records.hazards.limits import LIMITS
from tasks.storage.workspace.settings import Workspace
from tests.extensions.sudare_web.site.conftest import Shown, copied

MARKS = ("1" * 64, "2" * 64)


def _crash_twice(workspace: Workspace) -> None:
    """Charge and open two attempts at a release on two snapshots, and leave them."""
    ledger = workspace.open_ledger()
    try:
        [charge, *_] = reversed(ledger.charges(account="adult-1994"))
        for mark in MARKS:
            few = charge.request.events[:1]
            asked = replace(charge.request, run_key=f"never-{mark[0]}", release="adult-never", events=few)
            ledger.reserve(replace(asked, snapshot_hash=mark))
            open_grant(ledger, f"never-{mark[0]}")
    finally:
        ledger.close()


def test_a_run_that_was_never_published_is_public_as_the_limit_says(shown: Shown, tmp_path: Path) -> None:
    """Release and status on the account's page, and in the journal marks that tell the two snapshots apart."""
    workspace = copied(shown.workspace, tmp_path / "w")
    _crash_twice(workspace)
    client = TestClient(make_app(make_site(workspace)), base_url="http://localhost")
    charges = client.get("/api/account", params={"name": "adult-1994"}).json()["charges"]
    assert [each["status"] for each in charges if each["release"] == "adult-never"] == ["opened", "opened"]
    found = client.get("/api/journal", params={"release": "adult-never", "kind": "charge_reserved"}).json()["entries"]
    told = [client.get(f"/api/journal/{each['sequence']}").json()["entry"]["body"] for each in found]
    assert {body["snapshot_hash"] for body in told} == set(MARKS)
    assert client.get("/releases/adult-never").status_code == 404
    assert "a run that was never published" in next(limit.text for limit in LIMITS if limit.number == 12)
