"""Which key a version is held against: the pinned one, or one that it leads to by signed changes.

Changes are read from PROOF.json of the version, from that of `latest` beside it, from KEYS.json of the store, and
from what the checker knows. Only signatures count, so it does not matter where a change was found. A change that is
kept from the checker cannot be missed here: the freshness of `latest` and witnesses are for that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from contracts.errors import Finding
from privacy.ledger.journal.checkpoints import read_checkpoint
from privacy.ledger.journal.key_changes import (
    MOST_CHANGES,
    KeyHistory,
    SignedChange,
    TrustedKey,
    key_history,
    read_change,
)
from privacy.ledger.journal.signed_note import FalseSignature, MalformedNote, read_verifier_key, verified_lines
from privacy.ledger.journal.signing import key_id
from tasks.records.strict_json import read_json
from tasks.storage.version_folders import KEYS, PROOF
from tasks.verification.files.version_folder import read_text_file
from tasks.verification.outcomes import KeyInUse

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
