"""A signing key in a file that a passphrase opens: PKCS#8 in PEM, encrypted, as OpenSSL reads and writes it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from privacy.ledger.journal.signing import SeedKey
from tasks.storage.workspace.keys import KeyKind, KeyPlace, refusal, write_secret

NAME: Final = "signing.pem"
_SHORTEST: Final = 12


def open_key(place: KeyPlace, secret: str | None) -> SeedKey:
    """Open the file with the passphrase.

    Raises:
        WorkspaceRefused: no such file, no encrypted Ed25519 key, or the passphrase is another one.
    """
    file = file_of(place)
    try:
        content = file.read_bytes()
    except OSError as error:
        found, allowed = error.strerror or type(error).__name__, "the encrypted signing key (PKCS#8, PEM)"
        raise refusal(str(file), "signing key", found, allowed, "restore it from a backup") from None
    if b"BEGIN ENCRYPTED PRIVATE KEY" not in content:
        allowed = "a PEM file that begins with BEGIN ENCRYPTED PRIVATE KEY"
        raise refusal(str(file), "signing key", "no encrypted key", allowed, "restore it from a backup")
    try:
        key = load_pem_private_key(content, (secret or "").encode())
    except ValueError:  # its text tells no more than that
        found, allowed = (
            "a passphrase that does not open it, or a damaged file",
            "the passphrase that it was made with",
        )
        remedy = f"give the command again with the right one, at the terminal or in {place.secret_env}"
        raise refusal(str(file), "passphrase", found, allowed, remedy) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise refusal(str(file), "signing key", type(key).__name__, "an Ed25519 key", "name the right file")
    return SeedKey(key.private_bytes_raw())


def create_key(place: KeyPlace, secret: str | None) -> SeedKey:
    """Write a new key under the passphrase; none is overwritten."""
    key = Ed25519PrivateKey.generate()
    write_encrypted(place, key.private_bytes_raw(), secret)
    return SeedKey(key.private_bytes_raw())


def write_encrypted(place: KeyPlace, seed: bytes, secret: str | None) -> Path:
    """Write a key under a passphrase, and read it back.

    Raises:
        WorkspaceRefused: the file is there already, or the passphrase is short.
    """
    file = file_of(place)
    if file.exists():
        raise refusal(str(file), "signing key", "a key already", "no file of this name", "name another: signer.file")
    if len(secret or "") < _SHORTEST:
        allowed = f"{_SHORTEST} characters or more"
        raise refusal("the passphrase", "length", f"{len(secret or '')} characters", allowed, "choose a longer one")
    closed = BestAvailableEncryption((secret or "").encode())
    key = Ed25519PrivateKey.from_private_bytes(seed)
    write_secret(file, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, closed))
    open_key(place, secret)
    return file


def file_of(place: KeyPlace) -> Path:
    """Return the file of a place."""
    return place.keys / place.values.get("file", NAME)


KIND: Final = KeyKind(open_key, create_key, "Passphrase of the signing key")
