"""Changes of a journal's signing key: signed notes that lead a checker from a key that it pinned to another one.

    sudare-key-change/1
    NUMBER                 from 1, without gap
    rotated                or revoked
    KEY                    NAME+HASH+BASE64: the key that is changed
    SUCCESSOR              the key that signs from now on, of the same name
    SIZE                   what the journal held then; the key vouches for no larger one
    HOUR

A rotation is signed by the key and by its successor. So it leads both ways: whoever pinned the one can follow to the
other. A revocation says that others may have the key. It is signed by the successor, and by the key itself or by the
recovery key: a second key of the publisher's that signs nothing else and lies elsewhere. Only under the recovery key
does a revocation lead on to the successor: whoever stole a key could name their own.

The first line keeps these notes apart from checkpoints, whose first line is the name of their key.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from privacy.ledger.entries import is_to_the_hour
from privacy.ledger.journal.notes import (
    MalformedNote,
    SignedNote,
    read_note,
    read_verifier_key,
    sign_note,
    verified_lines,
)
from privacy.ledger.journal.signing import Signer

FORM: Final = "sudare-key-change/1"
_LINES: Final = 7
_KINDS: Final = ("rotated", "revoked")
MOST_CHANGES: Final = 100


@dataclass(frozen=True)
class KeyChange:
    """One change of the signing key.

    Args:
        number: its place among the changes, from 1.
        kind: whether the key was given up, or may be in other hands.
        key: the key that is changed, NAME+HASH+BASE64.
        successor: the key that follows, of the same name.
        size: what the journal held then [entries].
        at: the hour.
    """

    number: int
    kind: Literal["rotated", "revoked"]
    key: str
    successor: str
    size: int
    at: str

    @property
    def text(self) -> str:
        """The note's text."""
        lines = (FORM, str(self.number), self.kind, self.key, self.successor, str(self.size), self.at)
        return "".join(f"{line}\n" for line in lines)


@dataclass(frozen=True)
class SignedChange:
    """A change with its note.

    Args:
        change: what it says.
        note: the signed note.
    """

    change: KeyChange
    note: SignedNote

    def is_signed_by(self, key: str) -> bool:
        """Say whether a key signed it; a line of the key's that does not hold counts as none."""
        try:
            return bool(verified_lines(self.note, [read_verifier_key(key)]))
        except ValueError:
            return False


def signed_change(change: KeyChange, signers: Sequence[Signer]) -> SignedChange:
    """Sign a change with each of these keys, and hold it against its own rules.

    Raises:
        MalformedNote: no change can be so.
    """
    lines = tuple(sign_note(change.text, signer.verifier, signer.sign_bytes) for signer in signers)
    return read_change(SignedNote(change.text, lines).to_bytes().decode())


def read_change(note: str) -> SignedChange:
    """Read a change, whoever signed it.

    Raises:
        MalformedNote: names the line and the rule that it breaks.
    """
    signed = read_note(note.encode())
    lines = signed.text[:-1].split("\n")
    if len(lines) != _LINES or lines[0] != FORM:
        raise MalformedNote(f"key change: {_LINES} lines are needed, the first {FORM}")
    _, number, kind, key, successor, size, at = lines
    if not (_is_whole(number) and _is_whole(size)) or number == "0":
        raise MalformedNote(
            "key change, lines 2 and 6: whole numbers without leading zeros are needed, from 1 and from 0"
        )
    if kind not in _KINDS:
        raise MalformedNote("key change, line 3: rotated or revoked is needed")
    first, second = read_verifier_key(key), read_verifier_key(successor)
    if first.name != second.name or first.public == second.public or first.kind != second.kind:
        raise MalformedNote("key change, lines 4 and 5: two keys of one name are needed")
    if not is_to_the_hour(at):
        raise MalformedNote("key change, line 7: an hour is needed, such as 2026-11-25T22:00:00Z")
    return SignedChange(KeyChange(int(number), kind, key, successor, int(size), at), signed)  # type: ignore[arg-type]


def _is_whole(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 16 and (text == "0" or text[0] != "0")


@dataclass(frozen=True)
class TrustedKey:
    """A key that a pinned key, or the recovery key, leads to.

    Args:
        key: NAME+HASH+BASE64.
        most: the largest journal that it vouches for [entries]; None for the one that signs now.
        until: the hour in which it was given up; None for the one that signs now.
        why: how it was reached, for people.
    """

    key: str
    most: int | None
    until: str | None
    why: str

    def vouches(self, size: int, at: str) -> bool:
        """Say whether it could sign for a journal of so many entries in an hour: it was not given up before."""
        return self.most is None or self.until is None or (size <= self.most and at <= self.until)


@dataclass(frozen=True)
class KeyHistory:
    """Which keys count for a checker, and which do not any more.

    Args:
        trusted: in the order in which they were reached, the pinned one first.
        revoked: keys that others may have, with the change that says so.
        before: keys that a trusted one follows. What they signed counts where a trusted key vouches for its digest.
    """

    trusted: tuple[TrustedKey, ...]
    revoked: tuple[tuple[str, KeyChange], ...]
    before: tuple[str, ...]


def key_history(pinned: str, changes: Iterable[SignedChange], *, recovery: str | None = None) -> KeyHistory:
    """Follow the changes from a pinned key, forwards and backwards.

    A key with two rotations leads nowhere: its owner, or a thief, showed different successors to different people.

    Args:
        pinned: the key that the checker pins.
        changes: what was found, from wherever; only signatures count.
        recovery: the publisher's recovery key, if the checker pins it.
    """
    known = list({each.note.text: each for each in changes}.values())
    rotations = [each.change for each in known if _is_rotation(each)]
    revoked = {each.change.key: each.change for each in known if _is_revocation(each, recovery)}
    recovered = {
        each.change.key: each.change
        for each in known
        if each.change.kind == "revoked"
        and recovery is not None
        and each.is_signed_by(recovery)
        and each.is_signed_by(each.change.successor)
    }
    trusted: dict[str, TrustedKey] = {pinned: _trusted(pinned, rotations, "the pinned key")}
    waiting = [pinned]
    while waiting:
        key = waiting.pop()
        for other, why in _neighbours(key, rotations, revoked, recovered):
            if other not in trusted:
                trusted[other] = _trusted(other, rotations, why)
                waiting.append(other)
    counted = tuple(each for each in trusted.values() if each.key not in revoked)
    return KeyHistory(
        counted,
        tuple((key, change) for key, change in revoked.items() if key in trusted),
        tuple(_before({each.key for each in counted}, known)),
    )


def _before(keys: set[str], known: Sequence[SignedChange]) -> list[str]:
    """Return the keys that lead to one of these by changes that each successor signed."""
    found, waiting = [], list(keys)
    while waiting:
        successor = waiting.pop()
        for each in known:
            if each.change.successor == successor and each.is_signed_by(successor) and each.change.key not in found:
                found.append(each.change.key)
                waiting.append(each.change.key)
    return found


def _is_rotation(each: SignedChange) -> bool:
    change = each.change
    return change.kind == "rotated" and each.is_signed_by(change.key) and each.is_signed_by(change.successor)


def _is_revocation(each: SignedChange, recovery: str | None) -> bool:
    by = [each.change.key, *([] if recovery is None else [recovery])]
    return each.change.kind == "revoked" and any(each.is_signed_by(key) for key in by)


def _neighbours(
    key: str, rotations: list[KeyChange], revoked: dict[str, KeyChange], recovered: dict[str, KeyChange]
) -> Iterable[tuple[str, str]]:
    """Yield the keys that a key leads to, and why."""
    if key in recovered:
        change = recovered[key]
        yield change.successor, f"the recovery key named it as the successor of a revoked key at {change.at}"
    forwards = {change.successor: change for change in rotations if change.key == key}
    if len(forwards) == 1 and key not in revoked:
        for successor, change in forwards.items():
            yield successor, f"change {change.number}, at {change.at}: the key before named it as its successor"
    for change in rotations:
        # Backwards a key vouches for the one before it, of which one successor alone is known.
        alone = {other.successor for other in rotations if other.key == change.key} == {key}
        if change.successor == key and alone and key not in revoked:
            yield change.key, f"change {change.number}, at {change.at}: the key before, for what it signed until then"


def _trusted(key: str, rotations: list[KeyChange], why: str) -> TrustedKey:
    """Return a key with what the journal held, and the hour, when it was first given up."""
    found = [(change.size, change.at) for change in rotations if change.key == key]
    most, until = min(found) if found else (None, None)
    return TrustedKey(key, most, until, why)
