"""Public keys: read from a file of one line, and pinned once, so that none need be named later.

A pin lies in a workspace's private folder or, where there is no workspace, in the user's configuration folder. It
is one key. Another one takes its place only where that is asked for, and a key out of a version folder is never
pinned: whoever forges a version can put a key beside it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

from contracts.errors import Finding, SpecRefused
from privacy.ledger.journal.signed_note import ED25519, MalformedNote, read_verifier_key
from privacy.ledger.journal.signing import key_id
from tasks.records.strict_json import printable
from tasks.storage.version_folders import published_around

OWN: Final = "workspaces"
PIN: Final = "pinned.pub"
POLICY_PIN: Final = "witnesses.policy"
"""The policy of witnesses, beside the pin of the signing key."""
RECOVERY_PIN: Final = "recovery.pub"
"""The publisher's recovery key, beside the pin of the signing key."""
_REMEDY: Final = "get the key from the publisher; `sudare init` wrote it to .sudare/keys/signing.pub"
_MODE: Final = 0o600
_SECRET_BYTES: Final = 32
_FORM: Final = "one line NAME+HASH+BASE64, a signed note's verifier key"


def read_public_key(path: Path) -> str:
    """Read a public key file: NAME+HASH+BASE64 and a newline, the form in which readers of signed notes pin keys.

    Raises:
        SpecRefused: no such file, or it holds something else.
    """
    where = printable(str(path))
    try:
        with path.open("rb") as file:
            content = file.read(4096)
    except (OSError, ValueError) as error:
        found = getattr(error, "strerror", None) or "no path that can be followed"
        raise SpecRefused([Finding(where, "key file", found, "the publisher's public key", _REMEDY)]) from error
    text = content.decode("utf-8", "replace")
    fault = "no newline at its end" if not text.endswith("\n") else _fault(text[:-1])
    if fault:
        raise SpecRefused([_no_public_key(path, where, content, fault)])
    return text[:-1]


def check_pinned(public_key: str) -> None:
    """Refuse what is no public key.

    Raises:
        SpecRefused: says what is wrong with its form.
    """
    fault = _fault(public_key)
    if fault:
        raise SpecRefused([Finding("the pinned key", "form", printable(fault), _FORM, "pin the publisher's key")])


def _fault(text: str) -> str:
    """Say what is wrong with a key's form; nothing where it is one that signs checkpoints."""
    try:
        kind = read_verifier_key(text).kind
    except MalformedNote as error:
        return str(error)
    return "" if kind == ED25519 else "a witness's key, which signs no versions"


def _no_public_key(path: Path, where: str, content: bytes, fault: str) -> Finding:
    """Say what stands where a public key belongs; a secret one is called so, and never shown."""
    allowed = f"a public key: {_FORM}"
    if len(content) == _SECRET_BYTES:
        this = "the secret signing key" if path.name == "signing.key" else "32 bytes, such as a secret key has"
        half = path.with_name("signing.pub")
        there = f"{printable(str(half))} beside it" if half.is_file() else "signing.pub of its workspace"
        return Finding(where, "key file", this, allowed, f"give its public half, {there}; show this one to nobody")
    if content.lstrip().startswith((b"-----BEGIN", b"ssh-", b"ecdsa-")):
        found = "a key of another kind (PEM or OpenSSH)"
    else:
        found = fault if content.count(b"+") >= 2 and content.count(b"\n") <= 2 else "no key"
    return Finding(where, "key file", found, allowed, _REMEDY)


def remember_own(key: str, root: Path, folder: Path) -> None:
    """Note in the user's folder that a workspace with this key was made here, by this user.

    Raises:
        OSError: the folder cannot be written.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(folder / OWN, os.O_WRONLY | os.O_CREAT | os.O_APPEND, _MODE)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(f"{key} {json.dumps(str(root.resolve()))}\n")


def is_own(key: str, root: Path, folder: Path) -> bool:
    """Say whether this user made a workspace with this key at this place.

    Both must be as they were noted: a download may bring a key of its own, or somebody's key beside another pin.
    """
    try:
        noted = (folder / OWN).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    return f"{key} {json.dumps(str(root.resolve()))}" in noted


def pin_key(source: Path, folder: Path, *, replace: bool = False, name: str = PIN) -> Path:
    """Keep a publisher's public key in a folder, for checks that name none.

    Args:
        source: the key file, as the publisher handed it over.
        folder: takes the pin; made (mode 0700) where it is missing.
        replace: whether another key that is pinned already gives way.
        name: of the pin: that of the signing key, or of the recovery key.
    Returns:
        Path: the pin. Pinning the same key again changes nothing.
    Raises:
        SpecRefused: it is no key, it lies in a version or a release store, another one is pinned, or the folder
            cannot be written.
    """
    key, pin = read_public_key(source), folder / name
    around = published_around(source)
    if around is not None:
        found, allowed = f"a file inside {around}", "a key that came another way than the versions that it signs"
        remedy = "get the key from the publisher's site, by telephone, or from an earlier version that you trusted"
        raise SpecRefused([Finding(printable(str(source)), "key file", printable(found), allowed, remedy)])
    kept = read_public_key(pin) if pin.exists() and not replace else key
    if kept != key:
        found, allowed = f"key {key_id(kept)}", f"no other key than {key_id(key)}, or none"
        remedy = "ask the publisher, over another channel, whether the key was changed; then add --replace"
        raise SpecRefused([Finding(printable(str(pin)), "pinned key", found, allowed, remedy)])
    if pin.exists() and read_public_key(pin) == key:
        return pin  # since when it is pinned stays as it is
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = pin.with_name(f"{name}.{os.getpid()}")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _MODE)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{key}\n")
        fresh.replace(pin)
    except OSError as error:
        found = error.strerror or type(error).__name__
        raise SpecRefused([Finding(printable(str(pin)), "pin", found, "a folder that can be written")]) from None
    return pin


def pin_policy(source: Path, folder: Path) -> Path:
    """Keep a policy of witnesses beside the pin of the signing key; it takes the place of another one.

    Raises:
        SpecRefused: it is no policy, or one that nobody can meet, or the folder cannot be written.
    """
    from tasks.verification.witness_checks import pinned_policy  # few checkers have one

    try:
        text = source.read_text(encoding="utf-8")
        pinned_policy(text, printable(str(source)))
        (folder / POLICY_PIN).write_text(text, encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        found = getattr(error, "strerror", None) or "bytes that are no text"
        raise SpecRefused([Finding(printable(str(source)), "policy", found, "a policy of witnesses")]) from None
    return folder / POLICY_PIN
