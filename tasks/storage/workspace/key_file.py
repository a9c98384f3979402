"""A signing key in a file of 32 bytes that only its owner may read: what `sudare init` makes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from privacy.ledger.journal.signing import SeedKey
from tasks.storage.workspace.keys import KeyKind, KeyPlace, read_key, refusal, write_secret

NAME: Final = "signing.key"


def open_key(place: KeyPlace, secret: str | None) -> SeedKey:
    """Open the file.

    Raises:
        WorkspaceRefused: it is not there, or holds something else.
    """
    return SeedKey(read_key(file_of(place)))


def create_key(place: KeyPlace, secret: str | None) -> SeedKey:
    """Write a new key; none is overwritten."""
    file = file_of(place)
    if file.exists():
        raise refusal(str(file), "signing key", "a key already", "no file of this name", "name another: signer.file")
    seed = Ed25519PrivateKey.generate().private_bytes_raw()
    write_secret(file, seed)
    return SeedKey(seed)


def file_of(place: KeyPlace) -> Path:
    """Return the file of a place."""
    return place.keys / place.values.get("file", NAME)


KIND: Final = KeyKind(open_key, create_key)
