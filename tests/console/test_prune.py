"""`sudare prune`: what nothing needs goes by age; what a charge, a run or a lost version needs stays."""

import json
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

import pytest

from flows import retention
from flows.prefect_runs.server import PrefectServer
from flows.retention import LOG, Holding, Retention, RetentionPolicy
from tasks.storage.workspace.run_folder import hold
from tasks.storage.workspace.settings import Workspace
from tests.console.conftest import Place, Typed

LATER = timedelta(days=3)
TWO_DAYS = RetentionPolicy(snapshots=2, draws=2)


@contextmanager
def surveyed(place: Place, ahead: timedelta = LATER, policy: RetentionPolicy = TWO_DAYS) -> Iterator[Retention]:
    with closing(place.workspace.open_ledger()) as ledger:
        yield Retention(place.workspace, ledger, policy, now=datetime.now(UTC) + ahead)


def found(place: Place, ahead: timedelta = LATER) -> dict[tuple[str, str], Holding]:
    with surveyed(place, ahead) as retention_:
        return {(each.kind, each.folder.name.rpartition("-")[0]): each for each in retention_.holdings()}


def released(place: Place, name: str, *options: str) -> Path:
    spec = place.spec(name, ("epsilon: 1.0", "epsilon: 0.05"))
    said = place.type("run", str(spec), *options)
    assert said.code == 0, said.err
    return spec


def stuck(place: Place, name: str) -> Path:
    """Charge and draw a release that cannot be published: a file lies where its folder should be, after the probe."""
    spec = place.spec(name, ("epsilon: 1.0", "epsilon: 0.05"))
    place.workspace.releases.mkdir(exist_ok=True)
    (place.workspace.releases / name).write_text("in the way")
    with patch("flows.entrance.probe_store"), patch("flows.release.publishing.probe_store"):
        assert place.type("run", str(spec)).code == 1
    return spec


def test_what_is_published_and_old_goes_and_the_run_still_finds_its_version(
    shared: Place, served: PrefectServer, typed: Typed
):
    spec = released(shared, "whole", "--keep-snapshot")
    assert not [each for each in found(shared, timedelta(hours=1)).values() if each.goes]
    with surveyed(shared) as kept:
        going = [each for each in kept.holdings() if each.goes and each.folder.name.startswith("whole-")]
        assert {each.kind for each in going} == {"snapshot", "draws"}
        assert all(kept.remove(each) for each in going)
        assert not [each for each in kept.holdings() if each.folder.name.startswith("whole-")]
    lines = [json.loads(line) for line in (shared.workspace.private / LOG).read_text().splitlines()]
    assert [line["removed"] for line in lines] == ["snapshot", "draws"]
    assert (shared.workspace.private / LOG).stat().st_mode & 0o777 == 0o600
    again = typed("run", str(spec), "--json", at=shared.workspace)
    assert (again.code, again.json["repeated"]) == (0, True)
    assert typed("budget", "history", "--verify", at=shared.workspace).code == 0
    assert [*(shared.workspace.records / "whole").iterdir()]


def test_a_charge_that_is_not_published_keeps_its_rows_and_its_noise_for_ever(shared: Place, served: PrefectServer):
    """Three thousand days later both are there, and the run is completed with them and pays nothing more."""
    spec = stuck(shared, "stuck")
    kept = found(shared, timedelta(days=3000))
    for kind in ("snapshot", "draws"):
        assert not kept[kind, "stuck"].goes
        assert "its charge is opened" in kept[kind, "stuck"].because
    with surveyed(shared, timedelta(days=3000)) as retention_:
        assert not retention_.remove(kept["draws", "stuck"])
    (shared.workspace.releases / "stuck").unlink()
    assert shared.type("run", str(spec)).code == 0
    assert found(shared)["draws", "stuck"].goes


def test_noise_stays_while_the_version_is_not_whole_and_after_it_goes_nothing_is_drawn_again(
    shared: Place, served: PrefectServer, typed: Typed
):
    """A data file that was changed keeps the draws, from which the version can be made again; see what follows."""
    spec = released(shared, "harmed")
    folder = shared.workspace.releases / "harmed" / "v1"
    data = next((folder / "data").glob("*.parquet"))
    sound = data.read_bytes()
    data.chmod(0o600)
    data.write_bytes(sound[:-1] + b"x")
    kept = found(shared)["draws", "harmed"]
    assert (kept.goes, "not whole" in kept.because) == (False, True)
    data.write_bytes(sound)
    with surveyed(shared) as retention_:
        assert retention_.remove(found(shared)["draws", "harmed"])
    spent = typed("budget", "show", "adult-1994", "--json", at=shared.workspace).json["loss"]
    shutil.rmtree(folder)
    refused = typed("run", str(spec), at=shared.workspace)
    refused.assert_ended(4, "no draws of this run", "what an earlier attempt spent stays spent")
    assert "completes it at no cost" not in refused.err, "nothing completes it any more"
    assert typed("budget", "show", "adult-1994", "--json", at=shared.workspace).json["loss"] == spent


def test_a_run_that_goes_on_keeps_its_folder(shared: Place, served: PrefectServer):
    released(shared, "busy", "--keep-snapshot")
    going = found(shared)["snapshot", "busy"]
    with hold(shared.workspace.runs, going.folder.name, keep_snapshot=True), surveyed(shared) as retention_:
        assert found(shared)["snapshot", "busy"].because == "a run holds it now"
        assert found(shared)["draws", "busy"].because == "a run holds it now"
        assert not retention_.remove(going)
    assert found(shared)["snapshot", "busy"].goes


def test_a_removal_that_is_killed_is_finished_by_the_next(
    shared: Place, served: PrefectServer, monkeypatch: pytest.MonkeyPatch
):
    """Once renamed it is no folder of draws any more; before, it is whole."""
    released(shared, "killed")
    going = found(shared)["draws", "killed"]

    def killed(path: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(retention, "_delete", killed)
        with surveyed(shared) as retention_, pytest.raises(KeyboardInterrupt):
            retention_.remove(going)
    assert not going.folder.exists()
    [left] = shared.workspace.draws.glob(".removed-*")
    assert ("draws", "killed") not in found(shared)
    with surveyed(shared) as retention_:
        retention_.finish()
    assert not left.exists()


def test_a_dry_run_lists_and_removes_nothing(shared: Place, served: PrefectServer, typed: Typed):
    released(shared, "listed", "--keep-snapshot")
    before = sorted(shared.workspace.private.rglob("*"))
    said = typed("prune", "--dry-run", "--draws", "1", "--snapshots", "1", "--json", at=shared.workspace)
    assert said.code == 0, said.err
    mine = [each for each in said.json["holdings"] if "/listed-" in each["folder"]]
    assert {each["kind"] for each in mine} == {"snapshot", "draws"}
    assert {each["outcome"] for each in mine} == {"stays"}
    assert sorted(shared.workspace.private.rglob("*")) == before
    words = typed("prune", "--dry-run", "--draws", "1", at=shared.workspace)
    assert "its version is published and whole, within 1 days" in words.out
    assert "kept for ever: no number of days is set" in words.out


def test_without_a_policy_nothing_is_removed_and_a_wrong_one_is_refused(shared: Place, typed: Typed):
    typed("prune", at=shared.workspace).assert_ended(2, "[retention]")
    file = shared.workspace.root / "sudare.toml"
    sound = file.read_text()
    file.write_text(sound.replace('draws = ""', 'draws = "one year"'))
    wrong = typed("prune", at=Workspace.open(shared.workspace.root))
    file.write_text(sound)
    assert wrong.code == 2
    assert "retention.draws" in wrong.err
    assert 'a number of days, such as "31 days"' in wrong.err
