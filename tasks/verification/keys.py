"""Public keys: read from a file of one line, and pinned once, so that none need be named later.

A pin lies in a workspace's private folder or, where there is no workspace, in the user's configuration folder. It
is one key. Another one takes its place only where that is asked for, and a key out of a version folder is never
pinned: whoever forges a version can put a key beside it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from contracts.errors import Finding, SpecRefused
from privacy.ledger.journal.key_changes import (
    MOST_CHANGES,
    KeyHistory,
    SignedChange,
    TrustedKey,
    key_history,
    read_change,
)
from privacy.ledger.journal.notes import (
    ED25519,
    FalseSignature,
    MalformedNote,
    read_checkpoint,
    read_verifier_key,
    verified_lines,
)
from privacy.ledger.journal.signing import key_id
from tasks.records.strict_json import printable, read_json
from tasks.storage.manifest import KEYS, PROOF, published_around
from tasks.verification.files.folder import read_text_file
from tasks.verification.outcomes import KeyInUse

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


# --- Which key a version is held against.


_LATEST: Final = "latest"


def key_in_use(
    folder: Path, *, pinned: str, recovery: str | None = None, changes: Sequence[SignedChange] = ()
) -> KeyInUse:
    """Find the key that signed a version's checkpoint among those that the pinned one leads to.

    Args:
        folder: the version's folder, links resolved.
        pinned: the key that the checker pins.
        recovery: the publisher's recovery key, if the checker pins it too.
        changes: what the checker knows from elsewhere.
    Returns:
        KeyInUse: the pinned key itself where no other one signed.
    """
    known = [*changes, *_changes_around(folder)]
    if len({each.note.text for each in known}) > MOST_CHANGES:
        return KeyInUse(pinned, findings=(too_many(PROOF),))
    history = key_history(pinned, known, recovery=recovery)
    note = _checkpoint(folder)
    for key, change in history.revoked:
        if note is None or _signed(note, key) or (key == pinned and not _by_another(note, history)):
            return KeyInUse(key, history.trusted, findings=(_revoked(key, change.at, change.successor),))
    by = next((each for each in history.trusted if note is not None and _signed(note, each.key)), None)
    if by is None:
        return KeyInUse(pinned, history.trusted)
    late = tuple(_too_late(by, note or ""))
    return KeyInUse(by.key, history.trusted, history.before, tuple(_told(by, pinned)), late)


def too_many(where: str) -> Finding:
    """Return that there are more changes than are looked at: among many, one that counts could be hidden."""
    found, allowed = f"more than {MOST_CHANGES} changes of the key", f"at most {MOST_CHANGES}"
    return Finding(where, "keys", found, allowed, "get the file again from the publisher: somebody filled it up")


def read_changes(value: Any, *, where: str) -> list[SignedChange]:
    """Read the changes of a KEYS.json or PROOF.json; what is no change is left out: it leads nowhere."""
    notes = value.get("keys") if isinstance(value, dict) else None
    found = []
    for note in notes if isinstance(notes, list) else ():
        try:
            found.append(read_change(note))
        except (MalformedNote, AttributeError):
            continue
    return found


def _changes_around(folder: Path) -> Iterator[SignedChange]:
    """Yield the changes that lie in the version, beside it and in its store."""
    for place, name in ((folder, PROOF), (folder.parent / _LATEST, PROOF), (folder.parent.parent, KEYS)):
        value = _value(place, name)
        yield from read_changes(value, where=name)


def _value(place: Path, name: str) -> Any:
    if not (place / name).is_file():
        return None
    data, _ = read_text_file(place.resolve(), name)
    return None if data is None else read_json(data, where=name)[0]


def _checkpoint(folder: Path) -> str | None:
    value = _value(folder, PROOF)
    note = value.get("checkpoint") if isinstance(value, dict) else None
    return note if isinstance(note, str) else None


def _signed(note: str, key: str) -> bool:
    """Say whether a key signed a checkpoint."""
    try:
        return bool(verified_lines(read_checkpoint(note)[0], [read_verifier_key(key)]))
    except (MalformedNote, FalseSignature):
        return False


def _by_another(note: str, history: KeyHistory) -> bool:
    return any(_signed(note, each.key) for each in history.trusted)


def _told(by: TrustedKey, pinned: str) -> Iterator[str]:
    if by.key != pinned:
        advice = f"; pin it: {by.key}" if by.most is None else ""
        yield f"signed by key {key_id(by.key)}, to which your pin {key_id(pinned)} leads: {by.why}{advice}"


def _too_late(by: TrustedKey, note: str) -> Iterator[Finding]:
    """Yield that a key signed after it was changed."""
    size = read_checkpoint(note)[1].size
    if by.most is not None and size > by.most:
        found, allowed = f"a journal of {size} entries", f"at most {by.most}, when it was changed for another key"
        remedy = "somebody signs with a key that was given up: ask the publisher over another channel"
        yield Finding(PROOF, f"checkpoint, key {key_id(by.key)}", found, allowed, remedy)


def _revoked(key: str, at: str, successor: str) -> Finding:
    remedy = f"ask the publisher, over another channel, whether {key_id(successor)} is their key; then pin that one"
    found = f"revoked at {at}: others may have it"
    return Finding(PROOF, f"key {key_id(key)}", found, "a key that only the publisher has", remedy)
