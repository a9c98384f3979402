"""`sudare init` and `sudare doctor`: a workspace that is ready at once, and what is wrong with one."""

import json
import os
import shutil
from collections import namedtuple
from datetime import UTC, datetime
from pathlib import Path

import pytest

from console import workspace as examination
from console.workspace import Observation, examine
from flows.prefect_runs.server import prefect_server
from tasks.storage.workspace.settings import Workspace
from tasks.verification.keys import is_own
from tests.console.conftest import Typed


def test_init_makes_a_workspace_that_is_ready(initialised: tuple[Path, str], prefect_home: Path, typed: Typed):
    """Ledger, keys and store are there, and Prefect's database soon; a second init is refused and changes nothing."""
    root, printed = initialised
    told = json.loads(printed)
    workspace = Workspace.open(root)
    assert told["workspace"] == str(workspace.root)
    assert told["public_key"] == workspace.public_key_file.read_text().strip()
    assert (workspace.private / "ledger.sqlite").is_file()
    assert workspace.prefect_home == prefect_home
    assert (prefect_home / "prefect.db").is_file()
    assert workspace.releases.is_dir()
    noted = root.parent / "config" / "sudare"
    assert told["noted_as_yours"] is True
    assert is_own(told["public_key"], workspace.root, noted)
    assert not is_own(told["public_key"], root.parent, noted)
    typed("init", str(root)).assert_ended(2, "a workspace already")
    assert workspace.public_key_file.read_text().strip() == told["public_key"]


def test_init_where_nothing_can_be_written_says_where(tmp_path: Path, typed: Typed):
    """The refusal names the folder."""
    (tmp_path / "file").write_text("")
    typed("init", str(tmp_path / "file" / "w")).assert_ended(2, str(tmp_path / "file" / "w"))


def test_a_command_without_a_workspace_says_how_to_make_one(tmp_path: Path, typed: Typed):
    """What needs a workspace names `sudare init` and `--workspace`."""
    typed("budget", "show", "--workspace", str(tmp_path)).assert_ended(2, "sudare init", "--workspace")


NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


@pytest.fixture
def place(initialised: tuple[Path, str], prefect_home: Path, tmp_path: Path) -> Workspace:
    """A workspace of its own; the server of the other tests is forgotten."""
    assert prefect_home.exists()
    shutil.copytree(initialised[0], tmp_path / "w")
    return Workspace.open(tmp_path / "w")


def observations_of(workspace: Workspace | None, now: datetime = NOW) -> dict[str, Observation]:
    return {seen.matter: seen for seen in examine(workspace, now=now)}


def test_a_new_workspace_is_sound_and_has_no_account(place: Workspace, typed: Typed):
    before = sorted((each, each.stat().st_mtime_ns) for each in place.private.rglob("*") if each.is_file())
    said = typed("doctor", "--workspace", str(place.root), "--json")
    assert said.code == 0
    observations = {seen["matter"]: seen for seen in said.json["observations"]}
    assert {seen["health"] for seen in observations.values()} == {"good", "notable"}
    assert (observations["ledger"]["health"], observations["ledger"]["remedy"]) == (
        "notable",
        "sudare budget open --help",
    )
    assert observations["prefect"]["found"].endswith("ready")
    assert sorted((each, each.stat().st_mtime_ns) for each in place.private.rglob("*") if each.is_file()) == before
    words = typed("doctor", "--workspace", str(place.root)).out
    assert all(matter in words for matter in observations)


def test_without_a_workspace_the_machine_alone_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert examination.nearest_workspace(None) is None
    observations = observations_of(None)
    assert observations["workspace"].remedy.startswith("sudare init")
    assert "ledger" not in observations


def test_keys_that_others_may_read_or_that_do_not_belong_together_are_wrong(place: Workspace):
    (place.keys / "signing.key").chmod(0o644)
    assert "signing.key" in observations_of(place)["keys"].found
    (place.keys / "signing.key").chmod(0o600)
    place.public_key_file.write_text("0" * 64 + "\n")
    assert observations_of(place)["keys"].health == "wrong"
    (place.keys / "snapshot.key").unlink()
    assert observations_of(place)["keys"].remedy.startswith("restore")


def test_a_private_folder_that_others_may_enter_is_wrong(place: Workspace):
    place.private.chmod(0o755)
    assert observations_of(place)["privacy of files"].remedy == f"chmod 700 {place.private}"


def test_a_full_disk_is_wrong(place: Workspace, monkeypatch: pytest.MonkeyPatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda folder: usage(2**40, 2**40 - 2**20, 2**20))
    assert (observations_of(place)["disk"].health, observations_of(place)["disk"].found) == ("wrong", "0.0 GB free")


def test_a_clock_that_is_behind_is_wrong(place: Workspace):
    assert observations_of(place, datetime(1970, 1, 1, tzinfo=UTC))["clock"].health == "wrong"


def test_a_journal_that_was_changed_or_is_of_the_future_is_wrong(place: Workspace, typed: Typed):
    opened = ("--population", "people", "--block", "2026", "--unit", "row", "--adjacency", "add_remove")
    opened += ("--calculus", "pure", "--epsilon", "1", "--delta", "0", "--source", str(place.root / "rows.csv"))
    assert typed("budget", "open", "town", *opened, "--workspace", str(place.root)).code == 0
    assert observations_of(place, datetime.now(UTC))["ledger"].found.startswith("1 account")
    early = observations_of(place, datetime(2026, 6, 1, tzinfo=UTC))["ledger"]
    assert (early.health, "after this machine's clock" in early.found) == ("wrong", True)
    ledger = place.private / "ledger.sqlite"
    ledger.write_bytes(b"no database")
    said = typed("doctor", "--workspace", str(place.root), "--json")
    assert said.code == 1
    assert [seen["health"] for seen in said.json["observations"] if seen["matter"] == "ledger"] == ["wrong"]


def test_a_prefect_server_is_asked_for_late_runs(place: Workspace, monkeypatch: pytest.MonkeyPatch):
    """The block sets the server's address; set and undone in a test, it would stay for the tests that follow."""
    with prefect_server(place) as started:
        started.wait()
        configured = Workspace.open(place.root)
        with started.connected():
            assert "no scheduled run is late" in observations_of(configured)["prefect"].found
        with monkeypatch.context() as patched:
            patched.setattr(examination, "_late_runs", lambda address, before: 3)
            assert observations_of(configured)["prefect"].remedy == "start a worker: sudare work --help"
    assert "PREFECT_API_URL" not in os.environ
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    gone = observations_of(Workspace.open(place.root))["prefect"]
    assert (gone.health, "start it" in gone.remedy) == ("wrong", True)
    assert json.dumps(gone.found)
