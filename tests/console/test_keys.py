"""`sudare keys`: a key under a passphrase or in a token signs a release; what is missing costs nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.prefect_runs.server import PrefectServer
from tasks.storage.workspace import keys as signing_keys
from tasks.storage.workspace.settings import Workspace
from tests.console.conftest import Place, Typed
from tests.worlds.tables import first
from tests.worlds.versions import Worlds, publish_version

PASSPHRASE = "a quiet morning by the lake"


@pytest.fixture(autouse=True)
def _nothing_open(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("SUDARE_SIGNING_SECRET", raising=False)
    signing_keys._open.clear()
    yield
    signing_keys._open.clear()


def again(place: Place) -> Workspace:
    """The workspace as another process finds it."""
    signing_keys._open.clear()
    return Workspace.open(place.workspace.root)


def test_a_release_is_signed_by_a_key_under_a_passphrase(
    shared: Place, served: PrefectServer, typed: Typed, monkeypatch: pytest.MonkeyPatch
):
    """Without the passphrase, or with another one, nothing is charged; the same command with it publishes."""
    before = shared.workspace.public_key_file.read_text()
    monkeypatch.setenv("SUDARE_SIGNING_SECRET", PASSPHRASE)
    assert typed("keys", "encrypt", at=shared.workspace).code == 0
    place = again(shared)
    assert not (place.keys / "signing.key").exists()
    assert place.public_key_file.read_text() == before
    spent = typed("budget", "show", "--json", at=place).json
    for secret, words in (("", "at the terminal, or set SUDARE_SIGNING_SECRET"), ("another one", "does not open it")):
        monkeypatch.setenv("SUDARE_SIGNING_SECRET", secret)
        refused = typed("run", str(shared.spec("closed")), at=again(shared))
        assert refused.code == 2
        assert words in " ".join(refused.err.split())
    assert typed("budget", "show", "--json", at=place).json == spent
    assert "closed" not in typed("releases", "list", at=place).out
    monkeypatch.setenv("SUDARE_SIGNING_SECRET", PASSPHRASE)
    assert typed("run", str(shared.spec("closed")), at=again(shared)).code == 0
    (tmp := place.root.parent / "copy.pub").write_text(before)
    assert typed("verify", str(place.releases / "closed" / "v1"), "--key", str(tmp)).code == 0


def test_show_tells_where_the_key_lies_and_that_it_signs(place: Place, typed: Typed):
    said = typed("keys", "show", "--json", at=place.workspace).json
    assert said["kind"] == "file"
    assert said["signs"] is True
    assert said["public_key"] == place.workspace.public_key_file.read_text().strip()


def test_a_key_is_encrypted_once(place: Place, typed: Typed, monkeypatch: pytest.MonkeyPatch):
    """A second time, or with a short passphrase, nothing changes."""
    short = typed("keys", "encrypt", at=place.workspace)
    assert (short.code, "SUDARE_SIGNING_SECRET" in short.err) == (2, True)
    monkeypatch.setenv("SUDARE_SIGNING_SECRET", "short")
    assert "12 characters or more" in typed("keys", "encrypt", at=place.workspace).err
    assert (place.workspace.keys / "signing.key").exists()
    monkeypatch.setenv("SUDARE_SIGNING_SECRET", PASSPHRASE)
    assert typed("keys", "encrypt", at=place.workspace).code == 0
    assert "protected already" in typed("keys", "encrypt", at=again(place)).err
    assert PASSPHRASE.encode() not in b"".join(
        path.read_bytes() for path in Path(place.workspace.root).rglob("*") if path.is_file()
    )


def test_the_doctor_says_a_closed_key_was_not_opened(place: Place, typed: Typed, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SUDARE_SIGNING_SECRET", PASSPHRASE)
    typed("keys", "encrypt", at=place.workspace)
    monkeypatch.delenv("SUDARE_SIGNING_SECRET")
    seen = {each["matter"]: each for each in typed("doctor", "--json", at=again(place)).json["observations"]}
    assert seen["keys"]["health"] == "notable"
    assert "sudare keys show" in seen["keys"]["remedy"]


def test_the_key_is_rotated_and_revoked_by_commands(tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch):
    """Each says what signs from now on; without the recovery key's passphrase nothing changes."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    where = Workspace.create(tmp_path / "w")
    rotated = typed("keys", "rotate", "--json", at=where).json
    assert (rotated["number"], rotated["change"]) == (1, "rotated")
    assert where.public_key_file.read_text() == f"{rotated['public_key']}\n"
    monkeypatch.setenv("SUDARE_RECOVERY_SECRET", PASSPHRASE)
    made = typed("keys", "recovery", str(tmp_path / "recovery.pem"), "--json", at=where)
    assert made.code == 0
    assert Path(made.json["public_key_file"]).read_text() == f"{made.json['public_key']}\n"
    monkeypatch.setenv("SUDARE_RECOVERY_SECRET", "something else entirely")
    refused = typed("keys", "revoke", "--recovery", str(tmp_path / "recovery.pem"), at=where)
    assert (refused.code, "does not open it" in refused.err) == (2, True)
    assert len(Workspace.open(where.root).open_ledger().key_changes()) == 1
    monkeypatch.setenv("SUDARE_RECOVERY_SECRET", PASSPHRASE)
    signing_keys._open.clear()
    revoked = typed("keys", "revoke", "--recovery", str(tmp_path / "recovery.pem"), "--json", at=where).json
    assert (revoked["number"], revoked["change"], revoked["key_id"]) == (2, "revoked", rotated["successor"])
    assert typed("keys", "show", "--json", at=Workspace.open(where.root)).json["public_key"] == revoked["public_key"]
    assert typed("keys", "reprove", "--json", at=Workspace.open(where.root)).json == {"proofs": []}


def test_two_folders_are_compared_by_a_command(worlds: Worlds, tmp_path: Path, typed: Typed):
    """Exit 0 for a copy, 5 for two journals of one key, 2 for a folder without a proof."""
    one, other = worlds.published(first()), publish_version(first(), tmp_path / "other")
    (tmp_path / "key.pub").write_text(f"{one.key}\n")
    key = ("--key", str(tmp_path / "key.pub"))
    assert typed("verify", "--compare", str(one.folder), str(one.folder.parent), *key).code == 0
    told = typed("verify", "--compare", str(one.folder), str(other.folder), *key, "--json")
    assert told.code == 5
    assert any(finding["field"].startswith("manifest") for finding in told.json["findings"])
    (tmp_path / "empty").mkdir()
    refused = typed("verify", "--compare", str(one.folder), str(tmp_path / "empty"), *key)
    assert (refused.code, "no PROOF.json" in refused.err) == (2, True)
