"""Is this the newest version? Rule 14: the publisher's note says so, is not too old, and is no older one again.

    rollback   an older version, or an older note, than this checker has seen before
    freeze     a note that is too old: somebody keeps newer ones back, or the publisher stopped
    two faces  another manifest of this very number than the note names

Clocks differ: an hour is allowed on either side. What the checker has seen is kept in the folder of its pins, by
journal and release; it only ever grows.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from contracts.errors import Finding
from privacy.ledger.entries import is_to_the_hour
from privacy.ledger.journal.key_changes import TrustedKey
from privacy.ledger.journal.latest_note import LatestStatement, read_latest
from privacy.ledger.journal.signed_note import FalseSignature, MalformedNote, read_verifier_key, verified_lines
from tasks.records.strict_json import printable
from tasks.storage.version_folders import LATEST_NOTE
from tasks.verification.files.version_folder import read_text_file

SLACK: Final = timedelta(hours=1)
SEEN: Final = "seen.json"
_ASK: Final = "ask the publisher for a new one: sudare releases refresh"
_BACK: Final = "an older state was put back: get the folder from the publisher again"


@dataclass(frozen=True)
class CheckedVersion:
    """The version that is held against the note.

    Args:
        folder: where it is, links resolved.
        release: its name.
        number: its number.
        manifest: SHA-256 (hex) of its MANIFEST.json.
        size: what the journal held by its proof [entries].
    """

    folder: Path
    release: str
    number: int
    manifest: str
    size: int


@dataclass(frozen=True)
class _Seen:
    """The newest note that was seen of a release: size of the journal, version, and the hour when it was made."""

    size: int = 0
    version: int = 0
    made: str = ""

    @property
    def sound(self) -> bool:
        """Whether a note can have said this."""
        whole = all(type(number) is int and number >= 0 for number in (self.size, self.version))
        return whole and isinstance(self.made, str) and is_to_the_hour(self.made)


def check_latest(
    version: CheckedVersion, *, public_key: str, trusted: Sequence[TrustedKey] = (), now: datetime, pins: Path | None
) -> list[Finding]:
    """Hold a version against LATEST.note beside it, and the note against what was seen before.

    Args:
        version: the version, whose own rules hold.
        public_key: the key that it is held against.
        trusted: all keys that the pinned one leads to, each with the journal that it vouches for.
        now: the checker's clock.
        pins: the folder that remembers what was seen; None to remember nothing.
    Returns:
        list[Finding]: empty where the version is the newest one. Then the note is remembered.
    """
    data, findings = read_text_file(version.folder.parent, LATEST_NOTE)
    if data is None:
        return [
            Finding(LATEST_NOTE, each.field, each.found, "the publisher's note beside the versions", _ASK)
            for each in findings
        ]
    try:
        note, said = read_latest(data)
        # A key that was given up signs no later note: a thief would hide newer versions by it.
        keys = [each.key for each in trusted if each.vouches(said.size, said.made)]
        keys += [public_key] if public_key not in {each.key for each in trusted} else []
        signed = verified_lines(note, [read_verifier_key(key) for key in keys])
    except (MalformedNote, FalseSignature) as error:
        return [Finding(LATEST_NOTE, "note", printable(str(error)), "the publisher's signed note", _ASK)]
    if not signed:
        found = "none by a key that your pin leads to and that was in use then"
        return [Finding(LATEST_NOTE, "signature", found, "one by the key that signs now", _ASK)]
    kept, damaged = ({}, []) if pins is None else _kept(pins)
    if damaged:
        return damaged
    seen = kept.get(_name(public_key, version.release), _Seen())
    findings = [*_age(said, now), *_of_version(said, version), *_rolled_back(said, seen)]
    if not findings and pins is not None:
        _remember(pins, kept | {_name(public_key, said.release): _Seen(said.size, said.version, said.made)})
    return findings


def _age(said: LatestStatement, now: datetime) -> Iterator[Finding]:
    if now > datetime.fromisoformat(said.until) + SLACK:
        found, allowed = f"good until {said.until}", f"a note that is good at {now:%Y-%m-%dT%H:%MZ}, an hour allowed"
        yield Finding(
            LATEST_NOTE, "until", found, allowed, f"newer ones are kept from you, or there are none: {_ASK}"
        )
    if now < datetime.fromisoformat(said.made) - SLACK:
        found, allowed = f"made at {said.made}", f"before {now:%Y-%m-%dT%H:%MZ}, an hour allowed"
        remedy = "one of the two clocks is wrong: correct yours, or name --at TIME"
        yield Finding(LATEST_NOTE, "made", found, allowed, remedy)


def _of_version(said: LatestStatement, version: CheckedVersion) -> Iterator[Finding]:
    if said.release != version.release:
        yield Finding(LATEST_NOTE, "release", printable(said.release), version.release, _BACK)
    elif said.version != version.number:
        found = f"v{said.version} is the newest" if said.version else "all versions were withdrawn"
        yield Finding(LATEST_NOTE, "version", found, f"v{version.number}, which you check", "get the newest version")
    elif said.manifest != version.manifest:
        found, allowed = f"{said.manifest[:16]}…", f"{version.manifest[:16]}…, this version's"
        remedy = "there are two versions of one number: tell the publisher, and show both"
        yield Finding(LATEST_NOTE, "manifest", found, allowed, remedy)
    if said.size < version.size:
        found, allowed = f"a journal of {said.size} entries", f"at least {version.size}, as in this version's proof"
        yield Finding(LATEST_NOTE, "size", found, allowed, _BACK)


def _rolled_back(said: LatestStatement, seen: _Seen) -> Iterator[Finding]:
    if said.size < seen.size or said.made < seen.made:
        found = f"a journal of {said.size} entries at {said.made}"
        allowed = (
            f"at least {seen.size} entries, and not before {seen.made}: you have seen that, with v{seen.version}"
        )
        yield Finding(LATEST_NOTE, "size", found, allowed, _BACK)


def _kept(pins: Path) -> tuple[dict[str, _Seen], list[Finding]]:
    """Return the newest note that was seen of each release, by name; a finding where the file is damaged."""
    file = pins / SEEN
    try:
        value = json.loads(file.read_bytes())
        seen = {name: _Seen(**each) for name, each in value.items()}
    except FileNotFoundError:
        return {}, []
    except OSError as error:
        return {}, [_damaged(file, error.strerror or "a file that cannot be read")]
    except (ValueError, TypeError, AttributeError, RecursionError):
        return {}, [_damaged(file, "something else")]
    if not seen or not all(each.sound for each in seen.values()):
        return {}, [_damaged(file, "something else")]
    return seen, []


def _damaged(file: Path, found: str) -> Finding:
    allowed = "what this program wrote: size, version and hour of the newest note that was seen of each release"
    remedy = (
        f"move {printable(str(file))} away and type the command again. The publisher is not at fault. "
        "What you have seen before is forgotten then: an older state that is put back is not found this time"
    )
    return Finding(printable(str(file)), "your own file", found, allowed, remedy)


def _name(public_key: str, release: str) -> str:
    """Name a journal and a release; a changed key has the name of the one before."""
    return f"{read_verifier_key(public_key).name} {release}"


def _remember(pins: Path, kept: Mapping[str, _Seen]) -> None:
    pins.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = pins / f".{SEEN}.{os.getpid()}"
    content = {name: asdict(seen) for name, seen in kept.items()}
    partial.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    partial.replace(pins / SEEN)
