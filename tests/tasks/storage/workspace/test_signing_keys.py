"""Signing keys that lie elsewhere: what opens them, what they sign, and how each refusal reads."""

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from contracts import plug_ins
from privacy.ledger.journal.signing import SecretKey
from tasks.storage.workspace import keys as signing_keys
from tasks.storage.workspace.encrypted_key import write_encrypted
from tasks.storage.workspace.keys import (
    KINDS,
    KeyPlace,
    WorkspaceRefused,
    close_key,
    key_place,
    open_key,
    opened,
    replace_signer,
)

PASSPHRASE = "a quiet morning by the lake"
WRONG = "not this one at all"
SEED = bytes(range(32))


@pytest.fixture(autouse=True)
def _nothing_open() -> Iterator[None]:
    signing_keys._open.clear()
    yield
    signing_keys._open.clear()


def place(tmp_path: Path, values: Mapping[str, str], secret: str | None = None) -> KeyPlace:
    settings = {f"signer.{name}": value for name, value in values.items()}
    environment = {} if secret is None else {"SUDARE_SIGNING_SECRET": secret}
    return key_place(tmp_path, tmp_path / "sudare.toml", settings, environment)


def holds(key: SecretKey, message: bytes) -> bool:
    """Whether another library takes the signature for one of the public key."""
    Ed25519PublicKey.from_public_bytes(key.public).verify(key.sign(message), message)
    return True


def refused(action: object, *parts: str) -> None:
    assert callable(action)
    with pytest.raises(WorkspaceRefused) as caught:
        action()
    for part in parts:
        assert part in str(caught.value), str(caught.value)
    for secret in (PASSPHRASE, WRONG):
        assert secret not in str(caught.value)


@pytest.mark.services
def test_a_key_under_a_passphrase_is_the_same_key(tmp_path: Path):
    """What the passphrase opens signs as the bytes did, and OpenSSL reads the file too."""
    closed = place(tmp_path, {"kind": "encrypted_file"}, PASSPHRASE)
    file = write_encrypted(closed, SEED, PASSPHRASE)
    assert file.stat().st_mode & 0o777 == 0o600
    assert SEED not in file.read_bytes()
    assert open_key(closed).sign(b"text") == Ed25519PrivateKey.from_private_bytes(SEED).sign(b"text")
    said = subprocess.run(
        ["openssl", "pkey", "-in", file, "-passin", f"pass:{PASSPHRASE}", "-noout", "-text"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "ED25519" in said.stdout


def test_a_wrong_or_missing_passphrase_is_told_without_being_shown(tmp_path: Path):
    write_encrypted(place(tmp_path, {"kind": "encrypted_file"}), SEED, PASSPHRASE)
    wrong = place(tmp_path, {"kind": "encrypted_file"}, WRONG)
    refused(lambda: open_key(wrong), "a passphrase that does not open it", "give the command again")
    refused(lambda: open_key(place(tmp_path, {"kind": "encrypted_file"})), "SUDARE_SIGNING_SECRET", "at the terminal")
    asked: list[str] = []
    key = open_key(place(tmp_path, {"kind": "encrypted_file"}), lambda what: asked.append(what) or PASSPHRASE)
    assert holds(key, b"text")
    assert asked == ["Passphrase of the signing key"]


def test_another_file_than_an_encrypted_key_is_told(tmp_path: Path):
    closed = place(tmp_path, {"kind": "encrypted_file"}, PASSPHRASE)
    refused(lambda: open_key(closed), "signing.pem", "No such file")
    plain = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "signing.pem").write_bytes(plain)
    refused(lambda: open_key(closed), "no encrypted key", "BEGIN ENCRYPTED PRIVATE KEY")
    refused(lambda: write_encrypted(closed, SEED, PASSPHRASE), "a key already")
    (tmp_path / "signing.pem").unlink()
    refused(lambda: write_encrypted(closed, SEED, "short"), "5 characters", "choose a longer one")
    assert not (tmp_path / "signing.pem").exists()


def test_a_key_is_opened_once_a_process(tmp_path: Path):
    closed = place(tmp_path, {"kind": "encrypted_file"}, PASSPHRASE)
    write_encrypted(closed, SEED, PASSPHRASE)
    assert opened(closed) is None
    assert open_key(closed) is open_key(place(tmp_path, {"kind": "encrypted_file"}))
    close_key(closed)
    assert opened(closed) is None


def test_an_unknown_kind_is_refused_with_those_that_there_are(tmp_path: Path):
    refused(lambda: place(tmp_path, {"kind": "cloud"}), "'cloud'", *KINDS)


def test_a_kind_of_an_extension_that_is_not_installed_is_refused_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(plug_ins, "registered", lambda group: ())
    refused(lambda: place(tmp_path, {"kind": "pkcs11"}), "needs the extension sudare_keys", "file, encrypted_file")


def test_a_place_shows_no_secret(tmp_path: Path):
    assert PASSPHRASE not in repr(place(tmp_path, {"kind": "encrypted_file"}, PASSPHRASE))


def test_another_table_is_written_and_all_else_stays(tmp_path: Path):
    file = tmp_path / "sudare.toml"
    file.write_text('# mine\n[store]\nreleases = "r" # here\n\n[signer] # old\nkind = "file"\n\n[ledger]\nurl = ""\n')
    replace_signer(file, {"kind": "pkcs11", "token": 'a "b" \\ c'})
    import tomllib

    assert tomllib.loads(file.read_text()) == {
        "store": {"releases": "r"},
        "ledger": {"url": ""},
        "signer": {"kind": "pkcs11", "token": 'a "b" \\ c'},
    }
    assert "# mine\n" in file.read_text()
    replace_signer(file, {})
    assert "signer" not in file.read_text()
