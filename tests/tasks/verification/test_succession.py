"""A version beside others: whoever cut or rewrote the journal between them is found, and what witnesses saw of it."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from contracts.canonical import readable_json
from contracts.errors import SpecRefused
from privacy.ledger.journal.notes import COSIGNATURE, TreeHead, VerifierKey, cosign_note
from privacy.ledger.journal.signing import SeedKey, Signer
from privacy.ledger.ledger import Ledger
from tasks.records.model.journal_statements import Proof
from tasks.verification.comparison import compare_folders
from tasks.verification.inclusion import JournalledRun, read_run
from tasks.verification.outcomes import VerificationReport
from tasks.verification.succession import Surroundings, Witness, check_before
from tasks.verification.witness_checks import check_witnesses, pinned_policy
from tasks.verify import verify
from tests.tasks.verification.forgery import Json, edit, forge, load, proof_head, prove, with_head
from tests.worlds.tables import first
from tests.worlds.versions import SEED, Version, Worlds, broken, copied, publish_version

SIGNER = Signer(SEED)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a ledger and a store with v1 and v2 of one release."""
    folder = tmp_path_factory.mktemp("twice")
    publish_version(first(), folder)
    publish_version(replace(first(), spec=first().spec.replace("epsilon: 1.0", "epsilon: 0.5")), folder)
    return folder


@pytest.fixture
def folder(published: Path, tmp_path: Path) -> Path:
    return copied(published, tmp_path / "copy")


@pytest.fixture
def ledger(folder: Path) -> Iterator[Ledger]:
    opened = Ledger(f"sqlite:///{folder / 'ledger.sqlite'}", draws=folder / "draws")
    yield opened
    opened.close()


def version(folder: Path, number: int) -> Version:
    return Version(folder / "releases" / "town" / f"v{number}", SIGNER)


def proof_of(folder: Path, number: int) -> Path:
    return version(folder, number).folder / "PROOF.json"


def checked(folder: Path, number: int) -> VerificationReport:
    return verify(version(folder, number).folder, public_key=SIGNER.public_key)


@pytest.mark.long
def test_a_version_beside_the_one_before_passes_and_so_does_that_one(folder: Path):
    for number in (1, 2):
        assert checked(folder, number).findings == ()
    head = proof_head(load(proof_of(folder, 1)))
    assert [(each["size"], each["root"]) for each in load(proof_of(folder, 2))["earlier"]] == [(head.size, head.root)]


def regrow(folder: Path, *, before: int, change: Callable[[Json], object] = lambda proof: None) -> None:
    """Prove v2 in another journal, with `before` other entries before its own; signed with the publisher's key."""
    path = proof_of(folder, 2)
    other: Json = {"kind": "gate_failed", "at": "2026-01-01T00:00:00Z", "body": {}}
    proof = prove([other] * before + [proven["entry"] for proven in load(path)["entries"]], SIGNER)
    proof["entries"] = proof["entries"][before:]
    change(proof)
    path.write_bytes(readable_json(proof))


def accused(folder: Path, field: str) -> str:
    """Check that v2 fails rule 4 alone, in this field too, and v1 does not; return what stands there."""
    report = checked(folder, 2)
    assert broken(report) == {4}
    assert {finding.where for finding in report.findings} == {"PROOF.json"}
    assert all("the journal was cut, rewritten or swapped" in finding.remedy for finding in report.findings)
    assert checked(folder, 1).ok
    [finding] = [each for each in report.findings if each.field.startswith(field)]
    return finding.found


def test_a_proof_that_leaves_the_checkpoint_before_out_is_found(folder: Path):
    edit(proof_of(folder, 2), lambda proof: proof.update(earlier=[]))
    assert accused(folder, "earlier") == "no earlier checkpoint"


def test_a_journal_that_was_cut_and_grown_anew_is_found_though_the_publisher_signs_it(folder: Path):
    regrow(folder, before=20)
    assert accused(folder, "earlier") == "no earlier checkpoint"


def test_a_journal_that_was_rewritten_cannot_show_the_checkpoint_before(folder: Path):
    """Its own root at that size is another one; the root that was published is not one of it."""
    honest = load(proof_of(folder, 2))
    before = proof_head(honest).size - len(honest["entries"])
    regrow(folder, before=before, change=lambda proof: proof.update(earlier=honest["earlier"]))
    assert "other roots" in accused(folder, "earlier[0]")


@pytest.mark.parametrize("before", [0, 1])
def test_a_proof_of_another_ledger_is_found_however_short_its_journal_is(folder: Path, before: int):
    """One journal has one entry at a place: the two proofs differ where both have an entry."""
    regrow(folder, before=before)
    findings = checked(folder, 2).findings
    assert "another entry" in {each.found for each in findings if each.field.startswith("entries, sequence")}


def test_a_version_that_was_finished_later_does_not_accuse_the_one_after_it(folder: Path, ledger: Ledger):
    """Its checkpoint has seen more than theirs: the later proof of v1 says nothing about that of v2."""
    later = ledger.prove(ledger.versions("town")[0].run_key, SIGNER)
    assert proof_head(later).size >= proof_head(load(proof_of(folder, 2))).size
    proof_of(folder, 1).write_bytes(readable_json(later))
    for number in (1, 2):
        assert checked(folder, number).findings == ()


def garble(folder: Path) -> None:
    proof_of(folder, 1).write_bytes(b"no JSON")


def remove(folder: Path) -> None:
    proof_of(folder, 1).unlink()


def sign_otherwise(folder: Path) -> None:
    other = Signer(bytes(32))
    entries = [proven["entry"] for proven in load(proof_of(folder, 1))["entries"]]
    proof_of(folder, 1).write_bytes(readable_json(prove(entries, other)))


def sign_nothing(folder: Path) -> None:
    edit(proof_of(folder, 1), lambda proof: with_head(proof, Signer(bytes(32), SIGNER.verifier.name), root="0" * 64))


def be_of_another_release(folder: Path) -> None:
    entries = [proven["entry"] for proven in load(proof_of(folder, 1))["entries"]]
    entries[-1]["body"]["release"] = "village"
    proof_of(folder, 1).write_bytes(readable_json(prove(entries, SIGNER)))


@pytest.mark.parametrize("spoil", [garble, remove, sign_otherwise, sign_nothing, be_of_another_release])
def test_a_version_before_that_does_not_hold_itself_is_no_witness(folder: Path, spoil: Callable[[Path], None]):
    """Whoever can put a folder beside a version cannot make it fail; the folder fails where it is verified itself."""
    spoil(folder)
    report = checked(folder, 2)
    assert report.findings == ()
    [note] = report.notes
    assert note.startswith("v1, which lies beside this version, was not asked: it")
    assert not checked(folder, 1).ok


def test_a_later_version_is_no_witness_of_an_earlier_one(folder: Path):
    edit(proof_of(folder, 1), lambda proof: proof.update(earlier=[]))
    edit(proof_of(folder, 2), lambda proof: proof.update(earlier=[]))
    assert checked(folder, 1).ok


def test_what_is_no_version_of_the_store_is_not_asked(folder: Path):
    store = folder / "releases" / "town"
    for name in ("v01", "v1.5", ".staging-v1", "w1", "v3"):
        shutil.copytree(store / "v1", store / name)
    shutil.rmtree(store / "v1")
    report = checked(folder, 2)
    assert report.findings == ()
    assert report.notes == ("v3, which lies beside this version, was not asked: it holds town v1",)
    edit(proof_of(folder, 2), lambda proof: proof.update(earlier=[]))
    (finding,) = checked(folder, 2).findings  # its own entry names the checkpoint that the proof leaves out
    assert (finding.where, finding.field, finding.found) == ("PROOF.json", "earlier", "no earlier checkpoint")
    assert "which the entry version_published names" in finding.allowed


@pytest.mark.parametrize(("returnable", "found"), [(0, 1), (10**12, 0)])
def test_an_account_never_holds_less_than_the_charge_before_left_on_it(folder: Path, returnable: int, found: int):
    """v2 says that less stood there than v1 left. Only what could still be given back explains that."""
    proofs = [Proof.model_validate(load(proof_of(folder, number))) for number in (1, 2)]
    runs = [run for run, _ in (read_run(proof, where="PROOF.json") for proof in proofs) if run is not None]
    [left], [part] = (run.charge.parts for run in runs)
    assert (left.returnable, part.before) == (0, left.after)

    def stating(run: JournalledRun, **changed: int) -> JournalledRun:
        taken = run.charge.parts[0].model_copy(update=changed)
        return replace(run, charge=run.charge.model_copy(update={"parts": (taken,)}))

    around = Surroundings([Witness(1, proofs[0], stating(runs[0], returnable=returnable))])
    assert check_before(proofs[1], runs[1], around, where="PROOF.json") == []
    lower = stating(runs[1], before=left.after - 1)
    findings = check_before(proofs[1], lower, around, where="PROOF.json")
    assert (len(findings), around.notes) == (found, [])
    assert all("at least 1, what v1 left on it" in finding.allowed for finding in findings)
    later = Surroundings([Witness(1, proofs[0], replace(around.older[0].run, reserved_at=lower.reserved_at + 1))])
    assert check_before(proofs[1], lower, later, where="PROOF.json") == []  # it was charged after this one


def test_what_stands_on_an_account_and_may_be_given_back_is_written_into_the_charge(tmp_path: Path):
    """Two charges at once, and the first is given back: the second said that this could come."""
    facts = first().run(tmp_path)
    opened = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}", draws=tmp_path / "draws")
    request = facts.charge.request
    for key in ("waiting", "after it"):
        opened.reserve(replace(request, run_key=key))
    [waiting], [later] = (opened.entries_of(key)[0].body["parts"] for key in ("waiting", "after it"))
    assert (waiting["returnable"], later["returnable"]) == (0, waiting["amount"])
    opened.return_charge("waiting")
    assert opened.verify() == []
    opened.close()


def test_a_folder_that_is_called_like_another_version_is_found(folder: Path):
    store = folder / "releases" / "town"
    (store / "v2").rename(store / "v7")
    report = verify(store / "v7", public_key=SIGNER.public_key)
    assert broken(report) == {1}
    [finding] = report.findings
    assert (finding.field, finding.found, finding.allowed) == ("the folder's name", "v7, which holds town v2", "v2")
    (store / "v7").rename(store / "a copy of mine")
    assert verify(store / "a copy of mine", public_key=SIGNER.public_key).ok


def test_latest_that_leads_to_an_older_version_is_said(folder: Path):
    store = folder / "releases" / "town"
    latest = store / "latest"
    honest = [verify(store / name, public_key=SIGNER.public_key) for name in ("latest", "v1", "v2")]
    assert [(report.ok, report.notes) for report in honest] == [(True, ())] * 3
    latest.unlink()
    latest.symlink_to("v1")
    for name in ("latest", "v1", "v2"):
        report = verify(store / name, public_key=SIGNER.public_key)
        assert report.ok
        [note] = report.notes
        assert note.startswith("latest leads to v1, although v2 lies beside it")


def test_latest_that_leads_to_another_release_is_found(folder: Path):
    store = folder / "releases" / "town"
    shutil.copytree(folder / "releases" / "town" / "v1", folder / "releases" / "village" / "v1")
    (store / "latest").unlink()
    (store / "latest").symlink_to("../village/v1")
    report = verify(store / "latest", public_key=SIGNER.public_key)
    assert [(f.where, f.field) for f in report.findings] == [("latest", "where it leads")]
    beside = verify(store / "v2", public_key=SIGNER.public_key)
    assert beside.ok
    assert [note.startswith("latest, beside this version, leads elsewhere") for note in beside.notes] == [True]


def test_a_withdrawn_version_still_verifies_and_can_be_proven_again(folder: Path, ledger: Ledger):
    """Its withdrawal is the journal's to tell; the proof is of what was published."""
    run_key = ledger.versions("town")[0].run_key
    ledger.withdraw("town", 1, reason="a column was mislabelled")
    assert checked(folder, 1).ok
    again = ledger.prove(run_key, SIGNER)
    assert [proven["entry"]["kind"] for proven in again["entries"]][-1] == "version_published"
    assert again["entries"][-1]["entry"]["body"]["run_key"] == run_key
    proof_of(folder, 1).write_bytes(readable_json(again))
    for number in (1, 2):
        assert checked(folder, number).findings == ()
    assert ledger.verify(public_key=SIGNER.public_key) == []


@pytest.fixture
def mine(worlds: Worlds, tmp_path: Path) -> Version:
    return worlds.published(first()).copy(tmp_path / "mine" / "town" / "v1")


def test_a_copy_contradicts_nothing(mine: Version, tmp_path: Path):
    """Whether the two are named as versions, releases or stores."""
    theirs = mine.copy(tmp_path / "theirs" / "town" / "v1")
    for up in (0, 1, 2):
        one, other = ([v.folder, *v.folder.parents][up] for v in (mine, theirs))
        assert compare_folders(one, other, public_key=mine.key) == ([], [])


def test_two_versions_of_one_number_are_found(mine: Version, tmp_path: Path):
    """Both hold by themselves, signed by the publisher; side by side they do not."""
    theirs = forge(mine.copy(tmp_path / "theirs" / "town" / "v1"))
    findings, _ = compare_folders(mine.folder, theirs.folder, public_key=mine.key)
    fields = [finding.field for finding in findings]
    assert any(field.startswith("journal") for field in fields)
    other = publish_version(first(), tmp_path / "other")
    findings, _ = compare_folders(mine.folder, other.folder, public_key=mine.key)
    kinds = {finding.field.rpartition(" ")[0] for finding in findings}
    assert {"journal entry", "journal of size"} <= kinds
    assert any(finding.field.startswith("manifest ") for finding in findings)
    assert all("show both" in finding.remedy for finding in findings)


def test_a_proof_that_does_not_hold_is_no_testimony(mine: Version, tmp_path: Path):
    """Whoever changes a copy cannot make the publisher look like a cheat: what does not hold is left out."""
    theirs = mine.copy(tmp_path / "theirs" / "town" / "v1")
    proof = theirs.folder / "PROOF.json"
    assert load(proof)["checkpoint"]
    edit(proof, lambda value: with_head(value, theirs.signer, root="0" * 64))
    with pytest.raises(SpecRefused, match="proofs that hold under the pinned key"):
        compare_folders(mine.folder, theirs.folder, public_key=mine.key)


def test_a_folder_without_a_proof_under_the_key_is_refused(mine: Version, tmp_path: Path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(SpecRefused, match=r"no PROOF\.json"):
        compare_folders(mine.folder, tmp_path / "empty", public_key=mine.key)
    with pytest.raises(SpecRefused, match="does not hold"):
        compare_folders(mine.folder, mine.folder, public_key=Signer(bytes(32)).public_key)


def test_two_journals_of_one_key_within_one_folder_are_found(mine: Version, tmp_path: Path):
    """A store may have both of them: the second proof is held against the first, and does not take its place."""
    publish_version(first(), tmp_path / "other").copy(tmp_path / "mine" / "village" / "v1")
    store, theirs = tmp_path / "mine", mine.copy(tmp_path / "theirs" / "town" / "v1")
    for one, other in ((store, theirs.folder), (theirs.folder, store), (store, store)):
        findings, _ = compare_folders(one, other, public_key=mine.key)
        inside = [finding for finding in findings if "another version in" in finding.allowed]
        kinds = {finding.field.rpartition(" ")[0] for finding in inside}
        assert {"journal entry", "journal of size"} <= kinds
        assert len(inside) == 3, "the manifest of the number too, the first place of each kind"
        assert all(finding.where.endswith("village/v1") for finding in inside)


NOW = datetime(2026, 11, 25, 12, 30, tzinfo=UTC)
COSIGNED = Signer(bytes([7]) * 32)
WITNESS = SeedKey(bytes([8]) * 32)
WITNESS_KEY = VerifierKey("witness.example/a", WITNESS.public, COSIGNATURE)
POLICY = pinned_policy(f"witness a {WITNESS_KEY.text}\nquorum a\n", "policy")


def cosigned_at(time: int) -> str:
    note = COSIGNED.note(TreeHead(COSIGNED.verifier.name, 3, "0" * 64).text)
    return note.signed_by(cosign_note(note.text, WITNESS_KEY, WITNESS.sign, time=time)).to_bytes().decode()


@pytest.mark.parametrize("ahead", [-86_400, 0, 3600])
def test_a_witness_whose_clock_is_an_hour_ahead_counts(ahead: int):
    findings, notes = check_witnesses(cosigned_at(int(NOW.timestamp()) + ahead), POLICY, now=NOW)
    assert findings == []
    assert notes[0].startswith("witness a saw this journal at 2026-11-2")


@pytest.mark.parametrize("time", [0, int(NOW.timestamp()) + 3601, 2**62, 2**63 - 1])
def test_a_time_that_cannot_be_is_a_finding_by_name_and_its_line_does_not_count(time: int):
    """Its signature holds: whoever has the witness's key made it. No number stops the checker."""
    findings, notes = check_witnesses(cosigned_at(time), POLICY, now=NOW)
    assert [finding.field for finding in findings] == ["witness a", "cosignatures"]
    assert findings[0].found.startswith(f"time {time}")
    assert findings[0].remedy
    assert notes == []


@pytest.mark.parametrize(
    ("days", "holds"), [(0, True), (-1, True), (29, True), (-2, False), (33, False), (7 * 365, False)]
)
def test_the_journals_dates_are_those_at_which_witnesses_saw_it(days: int, holds: bool):
    """A journal that is dated 2019 and was first seen in 2026 was dated by a clock that was wrong, or by choice."""
    seen = cosigned_at(int(NOW.timestamp()) - 3600)
    published = NOW - timedelta(days=days, hours=1)
    findings, notes = check_witnesses(seen, POLICY, now=NOW, published=published)
    assert [finding.field for finding in findings] == ([] if holds else ["version_published, date"])
    assert len(notes) == 1
