"""`sudare releases`, `run --backfill`, and what the journal says of versions: superseded, withdrawn, never denied."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks._periodic_place import make_periodic
from benchmarks.orchestration import release_plainly
from console.comparison import meaning
from console.main import execute
from contracts.contract.odcs import load_contract
from flows.outcome import outcome_of, standing
from flows.prepare import MISFITS_GATE
from privacy.ledger.backup import dump
from tasks.publish import Publication
from tasks.storage.manifest import MANIFEST
from tests.console.conftest import ADULT, Place, Typed
from tests.tasks.verification.forgery import proof_head

HALF = ("epsilon: 1.0", "epsilon: 0.5")
NAME = "again"


@pytest.fixture(scope="module")
def twice(shared: Place) -> Place:
    """A release with two versions; `before.sqlite` is the ledger as it was between them."""
    release_plainly(shared.spec(NAME), shared.workspace.root)
    ledger = shared.workspace.private / "ledger.sqlite"
    _copy(ledger, ledger.with_name("before.sqlite"))
    release_plainly(shared.spec(NAME, HALF), shared.workspace.root, supersede=True)
    return shared


def _key(place: Place) -> str:
    return str(place.workspace.public_key_file)


def _statuses(place: Place, typed: Typed) -> list[tuple[int, str]]:
    listed = typed("releases", "list", "--json", at=place.workspace).json["versions"]
    return [(each["version"], each["status"]) for each in listed if each["release"] == NAME]


@pytest.mark.long
def test_a_second_version_supersedes_the_first_and_both_charges_stay(twice: Place, typed: Typed):
    assert _statuses(twice, typed) == [(1, "superseded"), (2, "published")]
    account = typed("budget", "show", "adult-1994", "--json", at=twice.workspace).json
    [spent] = [each for each in account["releases"] if each["release"] == NAME]
    assert spent["runs"] == 2
    assert {each["status"] for each in account["charges"]} == {"published"}


def test_two_versions_are_compared_by_guarantee_contract_and_tables(twice: Place, typed: Typed):
    """Differences have intervals from end to end; a version that is not there, or was changed, is named."""
    said = typed("releases", "diff", NAME, "1", "2", "--json", at=twice.workspace)
    guarantee = {each["name"]: (each["first"], each["second"]) for each in said.json["guarantee"]}
    assert guarantee["epsilon"] == ("1", "0.5")
    [table, *_] = said.json["tables"]
    assert all(row["low"] <= row["second"] - row["first"] <= row["high"] for row in table["rows"])
    people = typed("releases", "diff", NAME, "1", "2", at=twice.workspace)
    people.assert_printed("Both versions were made under the same contract.", table["file"])
    typed("releases", "diff", NAME, "1", "7", at=twice.workspace).assert_ended(2, f"{NAME} v7")
    record = twice.workspace.releases / NAME / "v1" / MANIFEST
    content = record.read_bytes()
    record.chmod(0o644)
    record.write_bytes(content + b" ")
    said = typed("releases", "diff", NAME, "1", "2", at=twice.workspace)
    record.write_bytes(content)
    assert (said.code, "v1 was changed" in said.err, "sudare verify" in said.err) == (2, True, True)


def test_each_version_s_proof_builds_on_the_one_before(twice: Place, typed: Typed):
    """The second names the first one's checkpoint; verify holds both against each other."""
    store = twice.workspace.releases / NAME
    first, second = (json.loads((store / v / "PROOF.json").read_bytes()) for v in ("v1", "v2"))
    assert first["earlier"] == []
    assert [each["size"] for each in second["earlier"]] == [proof_head(first).size]
    assert typed("verify", str(store / "v2"), "--key", _key(twice)).code == 0


def test_the_journal_is_held_against_what_was_published(twice: Place, typed: Typed):
    """A ledger restored from an older copy has lost its tail: exit 5, and the proof that has seen more is named."""
    said = typed("budget", "history", "--verify", "--json", at=twice.workspace)
    assert (said.code, said.json["published_checkpoints"]) == (0, 2)
    ledger = twice.workspace.private / "ledger.sqlite"
    newer = ledger.with_name("newer.sqlite")
    _copy(ledger, newer)
    _copy(ledger.with_name("before.sqlite"), ledger)
    said = typed("budget", "history", "--verify", at=twice.workspace)
    _copy(newer, ledger)
    assert said.code == 5
    assert "v2/PROOF.json: size" in said.err
    assert "entries are missing from the end" in said.err
    assert typed("budget", "history", "--verify", at=twice.workspace).code == 0


def test_a_copy_that_a_version_has_seen_more_of_is_not_restored(
    twice: Place, typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """What is in the store was paid: an older ledger would let it be paid for again. A whole copy is restored, and
    the ledger that it replaces is named."""
    private = twice.workspace.private
    older, whole = tmp_path / "older", tmp_path / "whole"
    dump(f"sqlite:///{private / 'before.sqlite'}", older)
    assert typed("budget", "backup", str(whole), at=twice.workspace).code == 0
    monkeypatch.setenv("SUDARE_LEDGER_URL", f"sqlite:///{tmp_path / 'new.sqlite'}")
    typed("budget", "restore", str(older), at=twice.workspace).assert_ended(4, f"{NAME}/v2/PROOF.json", "spent again")
    (tmp_path / "bad.json").write_text("{}")
    said = typed("budget", "restore", str(whole), "--proof", str(tmp_path / "bad.json"), at=twice.workspace)
    assert said.code == 5
    told = typed("budget", "restore", str(whole), "--json", at=twice.workspace)
    assert (told.code, told.json["published_checkpoints"]) == (0, 2)
    assert told.json["old_ledger"] == str(private / "ledger.sqlite")
    assert typed("budget", "history", "--verify", at=twice.workspace).code == 0


def _copy(source: Path, target: Path) -> None:
    with closing(sqlite3.connect(source)) as held, closing(sqlite3.connect(target)) as copied:
        held.backup(copied)


def test_a_proof_that_is_kept_elsewhere_is_held_against_the_journal_too(twice: Place, typed: Typed, tmp_path: Path):
    kept = tmp_path / "PROOF.json"
    shutil.copyfile(twice.workspace.releases / NAME / "v1" / "PROOF.json", kept)
    said = typed("budget", "history", "--verify", "--proof", str(kept), "--json", at=twice.workspace)
    assert (said.code, said.json["published_checkpoints"]) == (0, 3)
    proof = json.loads(kept.read_bytes())
    proof["checkpoint"] = proof["checkpoint"].replace("\n", "\n1", 1)
    kept.chmod(0o644)
    kept.write_text(json.dumps(proof))
    typed("budget", "history", "--verify", "--proof", str(kept), at=twice.workspace).assert_ended(5, "does not hold")
    missing = typed("budget", "history", "--verify", "--proof", str(tmp_path / "none.json"), at=twice.workspace)
    missing.assert_ended(5, "none.json")


@pytest.mark.long
def test_a_withdrawal_reaches_the_public_journal_and_has_an_exit_code_of_its_own(place: Place, typed: Typed):
    """As an operator and a reader do it: publish, ask, withdraw, ask again; each command writes the journal."""
    settings = place.workspace.root / "sudare.toml"
    asked = typed("releases", "journal", at=place.workspace)
    assert (asked.code, "journal = " in asked.err) == (2, True)
    settings.write_text(settings.read_text().replace('journal = ""', 'journal = "public/journal"'))
    release_plainly(place.spec(NAME), place.workspace.root)
    said = typed("releases", "journal", "--json", at=place.workspace).json
    public = place.workspace.root / "public" / "journal"
    assert (said["journal"], (public / "checkpoint").is_file()) == (str(public), True)
    verify = ["verify", str(place.workspace.releases / NAME / "v1"), "--key", _key(place), "--online", str(public)]
    report = typed(*verify, "--json")
    assert (report.code, report.json["checks"][-1]["code"]) == (0, "status")
    assert not any("withdrawn since" in line for line in report.json["cannot_tell"])
    withdraw = ["releases", "withdraw", NAME, "--version", "1", "--reason", "wrong reference year"]
    assert typed(*withdraw, at=place.workspace).code == 0
    said = typed(*verify)
    assert (said.code, "was withdrawn: wrong reference year" in said.err) == (6, True)
    report = typed(*verify, "--json")
    assert (report.code, report.json["ok"], report.json["checks"][-1]["findings"][0]["field"]) == (
        6,
        False,
        "withdrawn",
    )
    assert typed(*verify[:-2]).code == 0


@pytest.mark.long
def test_a_withdrawn_version_keeps_its_charge_and_its_files_and_latest_goes(place: Place, typed: Typed):
    release_plainly(place.spec(NAME), place.workspace.root)
    store = place.workspace.releases / NAME
    before = typed("budget", "show", "adult-1994", "--json", at=place.workspace).json["loss"]
    withdraw = ["releases", "withdraw", NAME, "--version", "1", "--reason", "wrong reference year"]
    said = typed(*withdraw, "--json", at=place.workspace)
    assert (said.code, said.json["status"]) == (0, "withdrawn")
    assert _statuses(place, typed) == [(1, "withdrawn")]
    assert not (store / "latest").is_symlink()
    assert typed("verify", str(store / "v1"), "--key", _key(place)).code == 0
    assert typed("budget", "show", "adult-1994", "--json", at=place.workspace).json["loss"] == before
    entry = typed("budget", "history", "--verify", "--json", at=place.workspace).json["entries"][-1]
    assert (entry["kind"], entry["body"]["reason"]) == ("version_withdrawn", "wrong reference year")
    typed(*withdraw, at=place.workspace).assert_ended(4, "found:   withdrawn")
    copied = typed("publish", NAME, "--to", "postgresql://nobody/releases", at=place.workspace)
    copied.assert_ended(4, f"found:   {NAME}, which was withdrawn")
    release_plainly(place.spec(NAME, HALF), place.workspace.root, supersede=True)
    assert (store / "latest").readlink() == Path("v2")
    assert _statuses(place, typed) == [(1, "withdrawn"), (2, "published")]


@pytest.mark.parametrize(("release", "version", "told"), [("nobody", "1", "releases list"), (NAME, "9", "v1, v2")])
def test_a_version_that_is_not_there_is_named_with_those_that_are(
    twice: Place, typed: Typed, release: str, version: str, told: str
):
    words = ["releases", "withdraw", release, "--version", version, "--reason", "none"]
    typed(*words, at=twice.workspace).assert_ended(4, told, "do:", "sudare releases list")


@pytest.mark.long
def test_a_run_again_says_how_its_version_stands_and_that_a_closed_account_gives_nothing(place: Place, typed: Typed):
    """A version that was withdrawn is not told as published."""
    release_plainly(place.spec(NAME), place.workspace.root)
    assert _again(place) == ("was published already", True)
    typed("releases", "withdraw", NAME, "--version", "1", "--reason", "wrong reference year", at=place.workspace)
    assert _again(place) == ("was published and withdrawn", True)
    typed("budget", "close", "adult-1994", at=place.workspace)
    assert _again(place) == ("was published and withdrawn", False)


@pytest.mark.usefixtures("served")
def test_a_run_of_what_was_withdrawn_is_refused_and_brings_nothing_back(place: Place, typed: Typed):
    """Exit 4 with what to do; `latest` stays away, and nothing is charged."""
    spec = str(place.spec(NAME))
    assert typed("run", spec, "--json", at=place.workspace).code == 0
    typed("releases", "withdraw", NAME, "--version", "1", "--reason", "wrong reference year", at=place.workspace)
    before = typed("budget", "show", "adult-1994", "--json", at=place.workspace).json["loss"]
    for words in ((), ("--supersede",)):
        said = typed("run", spec, *words, at=place.workspace)
        said.assert_ended(4, "found:   v1, which was withdrawn; nothing was drawn or charged", "--supersede")
    assert typed("budget", "show", "adult-1994", "--json", at=place.workspace).json["loss"] == before
    assert not (place.workspace.releases / NAME / "latest").is_symlink()
    assert _statuses(place, typed) == [(1, "withdrawn")]


def _again(place: Place) -> tuple[str, bool]:
    """Return what a run is told that finds its version, and whether something is left for another one."""
    with closing(place.workspace.open_ledger()) as ledger:
        [version] = ledger.versions(NAME)
        found = Publication(NAME, version.number, place.workspace.releases / NAME / "v1", version.run_key)
        outcome = outcome_of(found, ledger, place.workspace, repeated=True)
    return standing(outcome.status, repeated=outcome.repeated), outcome.can_give is not None


def test_contracts_are_compared_by_what_they_mean():
    """A wider bin is breaking for the account, another purpose is not; what is no contract is told as none."""
    old = load_contract(ADULT / "adult.odcs.yaml").model_dump(mode="json")
    new = json.loads(
        json.dumps(old).replace("[17, 19], [20, 24], ", "[17, 24], ").replace("public already", "public")
    )
    assert meaning(old, new) is not None
    found = {change["field"]: change["effect"] for change in meaning(old, new) or []}
    assert found["columns.age.bins"] == "account"
    assert set(found.values()) == {"account", "compatible"}
    assert meaning(old, json.loads(json.dumps(old))) == []
    assert meaning(old, {"id": "adult"}) is None
    assert meaning(old, "<script>") is None


@pytest.mark.usefixtures("served")
def test_a_backfill_releases_what_is_missing_and_tells_why_the_rest_is_not(
    tmp_path: Path, prefect_home: Path, typed: Typed, capfd: pytest.CaptureFixture[str]
):
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
def test_rows_that_do_not_fit_stop_a_period_that_was_watched_for(tmp_path: Path, prefect_home: Path, typed: Typed):
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
