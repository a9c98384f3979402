"""The keys of a workspace: files that only their owner may read, made once."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from contracts.errors import Finding, Refused


class WorkspaceRefused(Refused):
    """There is no workspace where one is needed, one where none may be, or its settings cannot be followed."""


def refusal(where: str, field: str, found: str, allowed: str, remedy: str = "") -> WorkspaceRefused:
    """Return the error with one finding."""
    return WorkspaceRefused([Finding(where, field, found, allowed, remedy)])


def create_keys(folder: Path, *, seed: bytes | None, name: str | None) -> None:
    """Make what is missing; a key that is there (an `init` that was interrupted) stays.

    Args:
        folder: of the keys.
        seed: the signing key's seed, where the environment gives it; then none is written.
        name: of the signing key and its journal; one is made of the key where it is None.
    Raises:
        WorkspaceRefused: no key can have this name.
    """
    for file in ("signing.key", "snapshot.key") if seed is None else ("snapshot.key",):
        if not (folder / file).exists():
            write_secret(folder / file, secrets.token_bytes(32))
    public = public_half(seed or read_key(folder / "signing.key"), name)
    (folder / "signing.pub").write_text(public + "\n", encoding="utf-8")


def create_signing_key(file: Path, name: str | None) -> str:
    """Make a signing key in a file of its own, with its public half in FILE.pub; return the public half.

    Raises:
        WorkspaceRefused: one of the two files is there already, or no key can have this name.
    """
    public = file.with_name(f"{file.name}.pub")
    for each in (file, public):
        if each.exists():
            raise refusal(str(each), "FILE", "a file that is there", "a name that is free", "name another file")
    seed = secrets.token_bytes(32)
    half = public_half(seed, name)
    write_secret(file, seed)
    public.write_text(half + "\n", encoding="utf-8")
    return half


def public_half(seed: bytes, name: str | None) -> str:
    """Return the public half of a signing key under a name: NAME+HASH+BASE64.

    Raises:
        WorkspaceRefused: no key can have this name.
    """
    from privacy.ledger.journal.signed_note import MalformedNote
    from privacy.ledger.journal.signing import Signer

    try:
        return Signer(seed, name).public_key
    except MalformedNote as error:
        allowed = "such as statistics.example/journal: no spaces, no plus"
        raise refusal("the command", "--name", str(error), allowed, "give another name") from None


def write_secret(path: Path, secret: bytes) -> None:
    """Write a file that only its owner may read; it appears whole or not at all."""
    partial = path.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(secret)
        file.flush()
        os.fsync(file.fileno())
    partial.rename(path)


def key_from_hex(text: str) -> bytes:
    """Read a signing key's seed as the environment writes it."""
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != 32:
        allowed = "64 hex digits: the 32-byte seed of an Ed25519 key"
        raise refusal("the environment", "SUDARE_SIGNING_KEY", "something else", allowed)
    return key


def read_key(path: Path) -> bytes:
    """Read the 32 secret bytes of a key file."""
    try:
        key = path.read_bytes()
    except OSError as error:
        found = error.strerror or type(error).__name__
        raise refusal(str(path), "key", found, "the key that `sudare init` made", "restore it") from error
    if len(key) != 32:
        raise refusal(str(path), "key", f"{len(key)} bytes", "the 32 bytes that `sudare init` made", "restore it")
    return key
