"""`sudare run` on the Adult example, the real thing: published, verified, resumed, stopped, refused."""

import json
import os
import re
import shutil
import signal
import sqlite3
import stat
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows.prefect_runs.server import DATABASE, PrefectServer
from tasks.storage.workspace.run_folder import run_name
from tasks.storage.workspace.settings import Workspace
from tests.console.conftest import Place, Said, Typed
from tests.worlds.waiting import wait_until

pytestmark = pytest.mark.services

STEPS = {"ingest", "validate", "charge", "measure", "refine", "report", "publish"}


@pytest.fixture(scope="module")
def released(shared: Place) -> Said:
    """One release with a Prefect server of its own, as the first command a person types."""
    return shared.run("run", str(shared.spec("first")), "--json")


def _folder(place: Place, release: str) -> Path:
    [folder] = place.workspace.runs.glob(f"{release}-*")
    return folder


def _charges(place: Place, release: str) -> list[str]:
    with sqlite3.connect(place.workspace.private / "ledger.sqlite") as ledger:
        return [
            row[0] for row in ledger.execute("select status from charges where run_key like ?", (f"{release}-%",))
        ]


def _unused(place: Place, name: str) -> str:
    """A release of its own for each try: what a run that ended too early has published is not looked at again."""
    return f"{name}{len(list(place.adult.glob(f'{name}*.yaml')))}"


def _until(reached: Any, process: subprocess.Popen[str]) -> None:
    """Wait until something is true while a process runs."""
    while not reached():
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)


def test_a_run_ends_with_where_it_is_what_it_cost_and_what_is_left(shared: Place, released: Said):
    """JSON alone on standard output, progress on standard error, a whole version on disk, no snapshot left."""
    assert released.code == 0, released.err
    told = released.json
    assert (told["release"], told["version"], told["repeated"]) == ("first", 1, False)
    assert (told["epsilon"], told["delta"], told["account"]) == ("1", "0", "adult-1994")
    assert float(told["charged"]) + float(told["remaining"]) == pytest.approx(float(told["cap"]))
    folder = Path(told["folder"])
    assert folder == shared.workspace.releases / "first" / "v1"
    assert (folder / "MANIFEST.json").is_file()
    assert (folder / "record.html").is_file()
    for step in ("ingest", "Great Expectations", "Prefect", "validate", "measure", "refine", "report", "publish"):
        assert step in released.err
    assert not (_folder(shared, "first") / "snapshot.duckdb").exists()


def test_nothing_private_is_readable_by_others(shared: Place, released: Said):
    """All below .sudare sits in a folder that only the owner enters; what names rows is 0600 besides."""
    assert stat.S_IMODE(shared.workspace.private.stat().st_mode) == 0o700
    assert stat.S_IMODE(_folder(shared, "first").stat().st_mode) == 0o700
    files = [path for path in shared.workspace.private.rglob("*") if path.is_file()]
    private = [path for path in files if re.search(r"private|auditor|\.key$|\.draw$", path.name)]
    assert {"validation.private.json", "record.auditor.json"} <= {path.name for path in private}
    assert {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in private} == {
        path.name: "0o600" for path in private
    }


def test_what_was_published_is_listed_shown_and_verified(shared: Place, released: Said, typed: Typed):
    """`releases` and `verify` read what `run` has made; one flipped byte fails the check with exit code 5."""
    folder = released.json["folder"]
    [listed] = typed("releases", "list", "--json", at=shared.workspace).json["versions"]
    assert (listed["release"], listed["status"], listed["folder"]) == ("first", "published", folder)
    shown = typed("releases", "show", "first", at=shared.workspace).out
    assert "education_x_income" in shown
    assert "(published)" in shown
    typed("releases", "show", "first", "--version", "2", at=shared.workspace).assert_ended(2, "v1")
    key = released.json["public_key_file"]
    assert typed("verify", folder, "--key", key).code == 0
    assert typed("verify", folder, "--json", at=shared.workspace).json["ok"] is True
    page = Path(folder) / "record.html"
    page.chmod(0o644)
    content = bytearray(page.read_bytes())
    content[100] ^= 1
    page.write_bytes(content)
    broken = typed("verify", folder, "--key", key)
    content[100] ^= 1
    page.write_bytes(content)
    assert broken.code == 5
    assert "record.html" in broken.err
    assert "does NOT hold" in broken.out


@pytest.mark.usefixtures("served")
def test_the_same_run_again_says_that_it_is_published(shared: Place, released: Said, typed: Typed):
    """Nothing is drawn, nothing is charged."""
    before = _charges(shared, "first")
    again = typed("run", str(shared.adult / "first.yaml"), "--json", at=shared.workspace)
    assert again.code == 0
    assert again.json["repeated"] is True
    assert again.json["folder"] == released.json["folder"]
    assert again.json["remaining"] == released.json["remaining"]
    assert _charges(shared, "first") == before == ["published"]


@pytest.mark.usefixtures("served")
def test_a_run_that_is_stopped_after_its_charge_resumes_and_pays_nothing_more(shared: Place):
    """Ctrl-C exits 130 and says that the charge is spent; the same command completes the version under it."""
    name = _unused(shared, "resumed")
    spec = shared.spec(name, ("epsilon: 1.0", "epsilon: 0.1"))
    with shared.start("run", str(spec)) as process:
        _until(lambda: _charges(shared, name) == ["opened"], process)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert process.returncode == 130, err
    assert "its charge is spent and stays spent" in err
    assert "the same command on the same rows goes on" in err
    assert not (shared.workspace.releases / name / "v1").exists()
    assert (_folder(shared, name) / "snapshot.duckdb").exists()
    done = shared.type("run", str(spec))
    assert done.code == 0, done.err
    assert f"{name} v1 is published\n" in done.out
    assert _charges(shared, name) == ["published"]
    assert not (_folder(shared, name) / "snapshot.duckdb").exists()


def test_two_runs_of_a_spec_at_once(shared: Place, typed: Typed):
    """The second is told who holds the run; the first, stopped before its charge, leaves no rows and no server."""
    name = _unused(shared, "twice")
    spec = shared.spec(name, ("epsilon: 1.0", "epsilon: 0.1"))
    with shared.start("run", str(spec)) as process:
        _until(lambda: list(shared.workspace.runs.glob(f"{name}-*/lock")), process)
        second = typed("run", str(spec), at=shared.workspace)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate()
    assert second.code == 1
    assert f"process {process.pid}" in second.err
    assert "one run of a spec at a time" in second.err
    assert process.returncode == 130
    assert "nothing was charged" in err
    assert _charges(shared, name) == []
    left = {path.name for path in _folder(shared, name).iterdir()}
    assert left <= {"lock", "error.private.log"}  # a library may meet the signal inside an import of its own


def test_a_refusal_ends_the_process_in_good_order(shared: Place):
    """Libraries are still being loaded when the file is found missing; the process waits for them."""
    spec = shared.spec("nowhere", ("epsilon: 1.0", "epsilon: 0.1"), ("path: adult.parquet", "path: nowhere.parquet"))
    said = shared.run("run", str(spec))
    assert said.code == 2
    assert "an existing file" in said.err
    assert "terminate" not in said.err


def test_against_a_running_server_the_same_flow_runs_there(shared: Place, served: PrefectServer, typed: Typed):
    """Its steps and its artifact are on the server; parameters are paths; no server of our own is started."""
    assert os.environ["PREFECT_API_URL"] == served.api_url
    spec = shared.spec("served", ("epsilon: 1.0", "epsilon: 0.1"))
    done = typed("run", str(spec), at=shared.workspace)
    assert done.code == 0, done.err
    assert "served v1 is published" in done.out
    assert "Prefect" not in done.err
    assert served.log is not None
    with sqlite3.connect(served.log.parent / DATABASE) as prefect:
        query = "select id, parameters, state_type from flow_run order by created desc limit 1"
        [(run, parameters, state)] = prefect.execute(query).fetchall()

        def tasks() -> list[tuple[str, str]]:
            return prefect.execute("select name, state_type from task_run where flow_run_id = ?", (run,)).fetchall()

        # the server writes the last states of tasks in batches
        assert wait_until(lambda: [each for _, each in tasks()] == ["COMPLETED"] * len(STEPS)), tasks()
        [(markdown,)] = prefect.execute("select data from artifact where key = 'release-served'").fetchall()
    assert state == "COMPLETED"
    paths = {"spec_path": str(spec), "workspace_path": str(shared.workspace.root)}
    others = dict.fromkeys(("keep_snapshot", "supersede", "early"), False) | dict.fromkeys(
        ("period", "timezone", "due")
    )
    assert json.loads(parameters) == paths | others
    assert {name.rsplit("-", 1)[0] for name, _ in tasks()} == STEPS
    assert "ε = 0.1" in json.loads(markdown)


@pytest.mark.usefixtures("served")
def test_a_store_that_cannot_be_written_leaves_nothing_and_the_run_completes_later(shared: Place, typed: Typed):
    """The error names the store; nothing is charged or left; mended, the same command publishes."""
    spec = shared.spec("blocked", ("epsilon: 1.0", "epsilon: 0.1"), ("to: releases/", "to: blocked/"))
    (shared.workspace.root / "blocked").write_text("a file where the store should be")
    said = typed("run", str(spec), at=shared.workspace)
    said.assert_ended(1, f"{shared.workspace.root}/blocked", "nothing was charged")
    assert _charges(shared, "blocked") == []
    (shared.workspace.root / "blocked").unlink()
    done = typed("run", str(spec), "--json", at=shared.workspace)
    assert done.code == 0, done.err
    assert done.json["folder"] == f"{shared.workspace.root}/blocked/blocked/v1"
    assert _charges(shared, "blocked") == ["published"]


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize(
    ("change", "code", "told"),
    [
        (("epsilon: 0.1", "epsilon: 8"), 4, "at most"),
        (("account: adult-1994", "account: nobody"), 4, "one of adult-1994"),
        (("path: adult.parquet", "path: copy.parquet"), 4, "sudare budget bind"),
        (("path: adult.parquet", "path: nowhere.parquet"), 2, "nowhere.parquet"),
        (("mechanism:", "mechanizm:"), 2, "mechanizm"),
    ],
    ids=["more than is left", "unknown account", "source bound to nobody", "missing file", "typo in a key"],
)
def test_a_run_that_cannot_be_is_refused_and_nothing_is_left(
    shared: Place, typed: Typed, change: tuple[str, str], code: int, told: str
):
    """Exit code and words as for every refusal; no charge, no snapshot, no version."""
    (shared.adult / "copy.parquet").write_bytes((shared.adult / "adult.parquet").read_bytes())
    spec = shared.spec("refused", ("epsilon: 1.0", "epsilon: 0.1"), change)
    typed("run", str(spec), at=shared.workspace).assert_ended(code, told, "found:")
    assert _charges(shared, "refused") == []
    assert not (shared.workspace.releases / "refused").exists()
    assert not list(shared.workspace.runs.glob("refused-*/snapshot*"))


@pytest.mark.usefixtures("served")
def test_noise_that_the_account_cannot_hold_is_refused_before_the_data_are_read(shared: Place, typed: Typed):
    """Gaussian noise on a pure account: exit 4 and what to do instead; nothing was ingested."""
    said = typed("run", str(shared.pure_account("gaussian")), at=shared.workspace)
    assert said.code == 4
    assert "--calculus renyi" in said.err
    assert "ingest" not in said.err
    assert _charges(shared, "gaussian") == []


@pytest.mark.usefixtures("served")
def test_a_version_whose_folder_was_lost_comes_back_the_same_or_not_at_all(shared: Place, typed: Typed):
    """Nothing is drawn again, so the same code writes the same manifest; another one is refused."""
    spec = shared.spec("lost", ("epsilon: 1.0", "epsilon: 0.1"))
    assert typed("run", str(spec), at=shared.workspace).code == 0
    folder = shared.workspace.releases / "lost" / "v1"
    manifest = (folder / "MANIFEST.json").read_bytes()
    shutil.rmtree(folder)
    assert typed("run", str(spec), at=shared.workspace).code == 0
    assert (folder / "MANIFEST.json").read_bytes() == manifest
    elsewhere = shared.spec("lost", ("epsilon: 1.0", "epsilon: 0.1"), ("to: releases/", "to: elsewhere/"))
    again = typed("run", str(elsewhere), at=shared.workspace)
    assert again.code == 0, again.err
    assert "lost v1 was published already; nothing was drawn or charged" in again.out
    assert "charged once, when it was published" in again.out
    second = shared.workspace.root / "elsewhere" / "lost" / "v1"
    assert str(second) in again.out
    assert (second / "MANIFEST.json").read_bytes() == manifest
    assert _charges(shared, "lost") == ["published"]


@pytest.mark.usefixtures("served")
def test_other_formats_of_what_is_published_are_not_applied_and_it_says_so(shared: Place, typed: Typed):
    """They name no other run: nothing is charged, a version there keeps its files, another store gets none."""
    changes = ("epsilon: 1.0", "epsilon: 0.1"), ("formats: [parquet, csv]", "formats: [parquet]")
    spec = shared.spec("formats", changes[0])
    assert typed("run", str(spec), at=shared.workspace).code == 0
    shared.spec("formats", *changes)
    again = typed("run", str(spec), at=shared.workspace)
    assert (again.code, "as they were published, whatever `formats:` says by now" in again.out) == (0, True)
    assert list((shared.workspace.releases / "formats" / "v1" / "data").glob("*.csv"))
    shared.spec("formats", *changes, ("to: releases/", "to: elsewhere/"))
    refused = typed("run", str(spec), at=shared.workspace)
    assert (refused.code, "other `formats:` or other code write other files" in refused.err) == (4, True)
    assert _charges(shared, "formats") == ["published"]


def test_prefect_is_not_told_where_a_gate_broke(shared: Place, served: PrefectServer, typed: Typed):
    """Whoever ran the command reads file and line; Prefect's database holds the gate and the remedy."""
    rows = shared.adult / "torn.csv"
    columns = [column["name"] for column in _columns(shared)]
    good = ",".join("0" for _ in columns)
    rows.write_text("\n".join([",".join(columns), *[good] * 7, good + ",0,0", good, ""]))
    spec = shared.spec("torn", ("epsilon: 1.0", "epsilon: 0.1"), ("path: adult.parquet", "path: torn.csv"))
    bound = typed("budget", "bind", str(rows), "--population", "adults", "--block", "1994", at=shared.workspace)
    assert bound.code == 0, bound.err
    typed("run", str(spec), at=shared.workspace).assert_ended(3, "torn.csv:9", "fields")
    assert served.log is not None
    home = served.log.parent

    def stored() -> bytes:
        return b"".join(path.read_bytes() for path in home.glob("prefect.db*"))

    assert wait_until(lambda: b"GateBroken" in stored() and b"correct the file at its origin" in stored())
    time.sleep(1)  # what more the server writes, in batches
    assert b"torn.csv:" not in stored()
    for log in served.log.parent.glob("*.log"):
        assert "torn.csv:" not in log.read_text()


def _columns(place: Place) -> list[dict[str, Any]]:
    contract = yaml.safe_load((place.adult / "adult.odcs.yaml").read_text())
    columns: list[dict[str, Any]] = contract["schema"][0]["properties"]
    return columns


def test_the_folder_of_a_run_is_named_by_release_and_spec(shared: Place, released: Said):
    """Another text of the spec is another run, with a folder of its own."""
    from contracts.release.spec import load_spec

    spec = load_spec(shared.adult / "first.yaml")
    assert _folder(shared, "first").name == run_name("first", spec.digest)
    assert Workspace.open(shared.workspace.root).runs == _folder(shared, "first").parent
