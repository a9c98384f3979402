"""The signing key is changed, lost and stolen: what checkers with one pin or another are told of each version."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from privacy.ledger.journal.key_changes import KeyChange, signed_change
from privacy.ledger.journal.signing import Signer
from tasks import key_rotation
from tasks.checkpoints import proofs_in, published_checkpoints
from tasks.key_rotation import prove_again, revoke_key, rotate_key
from tasks.storage.manifest import KEYS
from tasks.storage.workspace import keys as signing_keys
from tasks.storage.workspace.keys import WorkspaceRefused
from tasks.storage.workspace.settings import Workspace
from tasks.verification.outcomes import CheckerTerms, VerificationReport
from tasks.verify import verify
from tests.worlds.tables import first
from tests.worlds.versions import SEED, Worlds, broken

OLD = Signer(SEED)


@pytest.fixture(autouse=True)
def _nothing_open(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("SUDARE_SIGNING_KEY", "SUDARE_SIGNING_KEY_FILE", "SUDARE_SIGNING_SECRET"):
        monkeypatch.delenv(name, raising=False)
    signing_keys._open.clear()
    yield
    signing_keys._open.clear()


@pytest.fixture
def place(worlds: Worlds, tmp_path: Path) -> Workspace:
    """A workspace around a copy of a published version, its ledger and its key."""
    shutil.copytree(worlds.published(first()).folder.parents[2], tmp_path / "w", symlinks=True)
    for path in (tmp_path / "w").rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() else 0o644)
    workspace = Workspace.create(tmp_path / "w")
    (workspace.keys / "signing.key").write_bytes(SEED)
    workspace.public_key_file.write_text(f"{OLD.public_key}\n")
    shutil.rmtree(workspace.draws)
    (tmp_path / "w" / "draws").rename(workspace.draws)
    settings = tmp_path / "w" / "sudare.toml"
    settings.write_text(settings.read_text().replace('url = "" ', 'url = "sqlite:///ledger.sqlite" ', 1))
    return Workspace.open(tmp_path / "w")


def again(place: Workspace) -> Workspace:
    signing_keys._open.clear()
    return Workspace.open(place.root)


def version_of(place: Workspace) -> Path:
    [folder] = [path.parent for path in place.releases.glob("*/v*/MANIFEST.json")]
    return folder


def checked(place: Workspace, key: Signer | str, recovery: Signer | None = None) -> VerificationReport:
    pinned = key if isinstance(key, str) else key.public_key
    terms = CheckerTerms(None if recovery is None else recovery.public_key)
    return verify(version_of(place), public_key=pinned, terms=terms)


def test_whoever_pinned_either_key_is_led_to_the_other(place: Workspace):
    """Versions before the change hold under both, and so do those after it; the report says how."""
    made = rotate_key(place)
    new = again(place).signer()
    assert made.change.successor == new.public_key != OLD.public_key
    assert new.verifier.name == OLD.verifier.name
    assert checked(place, OLD).ok
    before = checked(place, new)
    assert before.ok
    assert any("the key before, for what it signed until then" in note for note in before.notes)
    prove_again(again(place), new)
    after = checked(place, OLD)
    assert after.ok, after.findings
    assert any("the key before named it as its successor" in note and new.public_key in note for note in after.notes)
    assert checked(place, new).ok
    assert not checked(place, Signer(bytes(32), OLD.verifier.name)).ok


def test_the_ledger_holds_after_changes_of_the_key(place: Workspace):
    rotate_key(place)
    revoke_key(again(place), None)
    later = again(place)
    key = later.signer().public_key
    prove_again(later, later.signer())
    checkpoints, findings = published_checkpoints(proofs_in(later.releases), public_key=key)
    assert (len(checkpoints), findings) == (1, [])
    ledger = later.open_ledger()
    assert ledger.verify(checkpoints, public_key=key) == []
    assert [each.change.kind for each in ledger.key_changes()] == ["rotated", "revoked"]


def test_a_key_that_was_given_up_vouches_for_no_larger_journal(place: Workspace):
    """Whoever finds the old key signs with it in vain: the change says how large the journal was."""
    rotate_key(place)
    prove_again(again(place), OLD)
    report = checked(place, again(place).signer())
    assert 2 in broken(report)
    assert any("key that was given up" in finding.remedy for finding in report.findings)
    assert 2 in broken(checked(place, OLD))


def test_a_stolen_key_is_revoked_by_the_recovery_key(place: Workspace):
    """Checkers with the recovery key's pin are led on; versions count again once they are proven again."""
    recovery = Signer(bytes([9]) * 32, OLD.verifier.name)
    revoke_key(place, recovery)
    new = again(place).signer()
    stolen = checked(place, OLD, recovery)
    assert 2 in broken(stolen)
    assert any("others may have it" in finding.found for finding in stolen.findings)
    prove_again(again(place), new)
    assert checked(place, OLD, recovery).ok
    assert checked(place, new).ok
    assert not checked(place, OLD).ok, "without the recovery key nothing leads from the stolen key to the next"


def test_a_thief_who_rotates_is_stopped_by_the_recovery_key(place: Workspace):
    thief, recovery = Signer(bytes([7]) * 32, OLD.verifier.name), Signer(bytes([9]) * 32, OLD.verifier.name)
    revoke_key(place, recovery)
    prove_again(again(place), thief)
    said = KeyChange(1, "rotated", OLD.public_key, thief.public_key, 5, "2026-01-01T00:00:00Z")
    terms = CheckerTerms(recovery.public_key, (signed_change(said, (OLD, thief)),))
    assert not verify(version_of(place), public_key=OLD.public_key, terms=terms).ok


def test_the_change_is_finished_by_the_same_command(place: Workspace, monkeypatch: pytest.MonkeyPatch):
    """Killed after the journal, after signing.pub, or before sudare.toml: one change, one new key, all led to it."""
    for step in ("_use", "replace_signer", "write_changes"):
        with monkeypatch.context() as patch:
            patch.setattr(key_rotation, step, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                rotate_key(again(place))
        made = rotate_key(again(place)) if step != "write_changes" else None
        if made is not None:
            assert again(place).open_ledger().key_changes()[-1].change == made.change
            assert again(place).signer().public_key == made.change.successor
    assert len(again(place).open_ledger().key_changes()) == 3
    rotate_key(again(place))
    assert len(list(place.keys.glob("signing-*.key"))) == 4
    assert (place.releases / KEYS).is_file()


def test_a_key_from_the_environment_is_not_changed(place: Workspace, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SUDARE_SIGNING_KEY", SEED.hex())
    with pytest.raises(WorkspaceRefused, match="unset SUDARE_SIGNING_KEY"):
        rotate_key(place)
    assert place.open_ledger().key_changes() == ()
