"""`sudare run --backfill`: what is missing is released, what fails is told period by period, and nothing twice."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks._periodic_place import make_periodic
from console.main import execute
from flows.prepare import MISFITS_GATE
from tests.console.conftest import Typed


@pytest.mark.usefixtures("served")
def test_a_backfill_releases_what_is_missing_and_tells_why_the_rest_is_not(
    tmp_path: Path, prefect_home: Path, typed: Typed, capfd: pytest.CaptureFixture[str]
) -> None:
    """One of three quarters breaks the contract's gate on rows, which ends with 3 and charges nothing."""
    place = make_periodic(tmp_path)
    contract = place.folder / "visits.odcs.yaml"
    contract.write_text(contract.read_text().replace("adjacency: add_remove", "adjacency: add_remove, gates: [rows]"))
    shutil.copytree(prefect_home, place.workspace.prefect_home)
    said = typed("run", str(place.spec), "--backfill", "2024Q4..2025Q2", "--json", at=place.workspace)
    assert said.code == 3
    told = said.json
    assert [each["period"] for each in told["periods"]] == ["2024-Q4", "2025-Q1", "2025-Q2"]
    assert [each.get("outcome", {}).get("release") for each in told["periods"]] == [
        "visits-2024-q4",
        "visits-2025-q1",
        None,
    ]
    [finding] = told["error"]["findings"]
    assert finding["field"] == "gate rows"
    assert told["error"]["notes"] == ["2025-Q2, charge: nothing was charged; running the same command starts again"]
    assert place.charges() == {"visits-2024-Q4": 1, "visits-2025-Q1": 1}
    gaps = ("releases", "gaps", str(place.spec), "--periods", "2024Q4..2025Q2", "--private", "--json")
    assert execute([*gaps, "--workspace", str(place.workspace.root)]) == 0
    [missing] = json.loads(capfd.readouterr().out)["periods"]
    assert (missing["period"], missing["state"]) == ("2025-Q2", "missing")
    assert missing["private"].startswith("no rows")
    with closing(place.ledger()) as ledger:
        assert [entry.kind for entry in ledger.journal()].count("gate_failed") == 1


@pytest.mark.usefixtures("served")
def test_rows_that_do_not_fit_stop_a_period_that_was_watched_for(
    tmp_path: Path, prefect_home: Path, typed: Typed
) -> None:
    """Nobody watches `sudare watch`: above the workspace's share it stops as a scheduled run does, uncharged."""
    place = make_periodic(tmp_path)
    with (place.folder / "visits.csv").open("a") as file:
        file.write("elsewhere,2024-11-01\n" * 100)
    shutil.copytree(prefect_home, place.workspace.prefect_home)
    watch = ("watch", str(place.spec), "--periods", "2024Q4", "--quiet", "0", "--once", "--json")
    said = typed(*watch, at=place.workspace)
    assert said.code == 3
    assert [each["field"] for each in said.json["error"]["findings"]] == [MISFITS_GATE]
    assert place.charges() == {}
