"""Was the version withdrawn or superseded since? One request to the public journal answers, with proof.

Rules, in this order:
    1. the answer is one file, status/RELEASE.json, and is signed under the pinned key
    2. its checkpoint is signed under the pinned key, covers no fewer entries than the version's, and begins with them
    3. each entry is about the release, in order, and under the checkpoint
    4. this version's publication is among them, the very entry that its proof has
    5. no withdrawal of this version is among them
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final
from urllib.parse import quote

from contracts.errors import Finding
from privacy.ledger.entries import CLOCK_SLACK, Entry, is_to_the_hour
from privacy.ledger.journal.key_changes import (
    MOST_CHANGES,
    KeyChange,
    SignedChange,
    TrustedKey,
    key_history,
    read_change,
)
from privacy.ledger.journal.merkle import root_from_proof, roots_from_consistency
from privacy.ledger.journal.notes import (
    FalseSignature,
    LatestStatement,
    MalformedNote,
    read_latest,
    read_verifier_key,
    verified_lines,
)
from privacy.ledger.journal.signing import key_id
from tasks.records.model.journal_statements import EntryStatement, Proof, PublishedBody, WithdrawnBody
from tasks.records.model.manifest import StatusPredicate, check_envelope, read_status
from tasks.records.model.statement import Statement, read_statement
from tasks.records.strict_json import LARGEST_JSON, printable
from tasks.storage.manifest import LATEST_NOTE
from tasks.verification.files.folder import read_text_file
from tasks.verification.inclusion import REWRITTEN, UNPROVEN, check_checkpoint
from tasks.verification.keys import too_many
from tasks.verification.outcomes import WITHDRAWN

_SECONDS: Final = 20
_STALE: Final = timedelta(days=7)
_BODIES: Final[dict[str, type[Statement]]] = {"version_published": PublishedBody, "version_withdrawn": WithdrawnBody}
_BROKEN: Final = "the answer is no status of a journal: look whether the address is right, or ask its publisher"
_UNANSWERED: Final = "nobody can say whether it was withdrawn: try again later, or ask the publisher for the address"


@dataclass(frozen=True)
class JournalStatus:
    """What the public journal says of a version.

    Args:
        findings: what is wrong, a withdrawal among it.
        notes: what is no fault, and whoever relies on the version should know.
    """

    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()


def address_of(journal: str, release: str) -> str:
    """Return where a public journal keeps what became of a release's versions."""
    return f"{journal.rstrip('/')}/status/{quote(release, safe='')}.json"


def ask_journal(
    journal: str,
    proof: Proof,
    published: PublishedBody,
    *,
    public_key: str,
    trusted: Sequence[TrustedKey] = (),
    now: datetime,
) -> JournalStatus:
    """Ask a public journal what became of a version, and check the answer.

    Args:
        journal: where it is: http(s)://..., or a folder.
        proof: the version's own proof, checked before.
        published: the publication that it shows.
        public_key: the key that signed the version, to which the pinned one led, NAME+HASH+BASE64.
        trusted: all keys that the pinned one leads to, each with the journal that it vouches for.
        now: the time by the checker's clock (UTC).
    """
    where = address_of(journal, published.release)
    try:
        content = fetched(where)
    except (OSError, ValueError) as error:
        told = error if hasattr(error, "code") else getattr(error, "reason", None) or error  # 404, or no connection
        found = printable(str(told) or type(error).__name__)
        return JournalStatus((Finding(printable(where), "the journal", found, "an answer", _UNANSWERED),))
    envelope, status, findings = read_status(content, where=printable(where))
    if envelope is None or status is None:
        # The version is as it was: it is the answer that is to be had again.
        return JournalStatus(tuple(replace(each, remedy=_BROKEN) for each in findings))
    if len(status.keys) > MOST_CHANGES:
        return JournalStatus((too_many(printable(where)),))
    history = key_history(public_key, list(_changes(status.keys)))
    known = [*trusted, *history.trusted]
    signers = {by.keyid for by in envelope.signatures}
    key = next((each.key for each in known if key_id(each.key) in signers), public_key)
    findings += check_envelope(envelope, public_key=key, where=printable(where))
    findings += [_revoked(key, change, printable(where)) for key, change in history.revoked if key == public_key]
    findings += [] if findings else _after_its_time(key, known, status, printable(where))
    if findings:
        return JournalStatus(tuple(findings))
    return _Answer(status, proof, published, printable(where)).checked(key, now)


def _after_its_time(key: str, known: Sequence[TrustedKey], status: StatusPredicate, where: str) -> Iterator[Finding]:
    """Yield that the key was given up before: somebody else may have signed, and left a withdrawal out."""
    for each in known:
        if each.key == key and not each.vouches(status.head.size, status.at):
            found = f"{status.head.size} entries at {printable(status.at)}, by a key that was given up"
            allowed = f"at most {each.most} entries, until {each.until}, or the key that followed it"
            yield Finding(where, f"key {key_id(key)}", found, allowed, UNPROVEN)
            return


def _changes(notes: Iterable[str]) -> Iterator[SignedChange]:
    """Read changes of the key; what is no change leads nowhere, and only its signatures count."""
    for note in notes:
        with suppress(MalformedNote):
            yield read_change(note)


def _revoked(key: str, change: KeyChange, where: str) -> Finding:
    remedy = "others may have it, and this version may be theirs: ask the publisher, over another channel"
    return Finding(where, f"key {key_id(key)}", f"revoked at {change.at}", "a key that was not revoked", remedy)


def fetched(where: str) -> bytes:
    """Return a file of a public journal: one request, or one file of a folder.

    Raises:
        OSError: it cannot be had.
        ValueError: it is too large, or the address is none.
    """
    if not where.startswith(("http://", "https://")):
        if "://" in where:
            raise ValueError("an address of another kind: write http(s)://..., or the path of a folder")
        if Path(where).exists() and not Path(where).is_file():  # a pipe would be waited on for ever
            raise ValueError("no file")
        with Path(where).open("rb") as file:
            return _bounded(file.read)
    from urllib.request import urlopen

    with urlopen(where, timeout=_SECONDS) as answer:
        return _bounded(answer.read)


def _bounded(read: Callable[[int], bytes]) -> bytes:
    content = read(LARGEST_JSON + 1)
    if len(content) > LARGEST_JSON:
        raise ValueError(f"more than {LARGEST_JSON} bytes")
    return content


class _Answer:
    """A signed answer, held against the version's proof."""

    def __init__(self, status: StatusPredicate, proof: Proof, published: PublishedBody, where: str) -> None:
        self._status, self._proof, self._published, self._where = status, proof, published, where
        self._findings: list[Finding] = []

    def checked(self, public_key: str, now: datetime) -> JournalStatus:
        """Check rules 2 to 5."""
        if self._status.release != self._published.release:
            self._say("release", printable(self._status.release), self._published.release)
        self._findings += check_checkpoint(self._status.checkpoint, public_key=public_key, where=self._where)
        notes = self._times(now)
        self._checkpoints()
        bodies = [body for proven in self._status.entries if (body := self._entry(proven.entry, proven.path))]
        self._own()
        if self._findings:
            return JournalStatus(tuple(self._findings))
        return self._outcome(bodies, notes)

    def _say(self, field: str, found: str, allowed: str, remedy: str = UNPROVEN) -> None:
        self._findings.append(Finding(self._where, field, found, allowed, remedy))

    def _times(self, now: datetime) -> list[str]:
        at = self._status.at
        if not is_to_the_hour(at):
            self._say("at", printable(at), "a time cut to the hour")
            return []
        stated = datetime.fromisoformat(at)
        if stated > now + CLOCK_SLACK:  # clocks differ, by an hour or a few
            found = f"{at}, and here it is {now.astimezone(UTC):%Y-%m-%dT%H:%MZ}"
            self._say("at", found, "at most a day ahead of this machine's clock", "set the clock, or ask again")
        asked = [f"the public journal answered as of {at}"]
        old = "the answer is more than a week old: a newer one may say otherwise"
        return [*asked, old] if stated < now - _STALE else asked

    def _checkpoints(self) -> None:
        """Check that the journal covers, and begins with, what the version's own checkpoint covers."""
        own, head = self._proof.head, self._status.head
        if head.size < own.size:
            remedy = "an old answer was served, or the journal was cut: ask again, or ask the publisher"
            found = f"{head.size} entries"
            return self._say("checkpoint", found, f"at least {own.size}, as in PROOF.json", remedy)
        known = {(each.size, each.root): each.path for each in self._status.earlier}
        allowed = f"a proof that it begins with the {own.size} entries of PROOF.json, root {own.root[:16]}…"
        path = known.get((own.size, own.root))
        if path is None:
            return self._say("earlier", "no such checkpoint", allowed, REWRITTEN)
        try:
            reached = roots_from_consistency(own.size, head.size, own.root, path)
        except ValueError as error:
            return self._say("earlier", str(error), allowed, REWRITTEN)
        if reached != (own.root, head.root):
            self._say("earlier", "a proof that leads to other roots", allowed, REWRITTEN)
        return None

    def _entry(self, stated: EntryStatement, path: tuple[str, ...]) -> tuple[str, Statement] | None:
        """Check that an entry is under the checkpoint and about the release; return its kind and body."""
        field, head = f"entry {stated.sequence}", self._status.head
        model = _BODIES.get(stated.kind)
        body, wrong = (None, []) if model is None else read_statement(model, stated.body, where=self._where, at=field)
        self._findings += wrong
        if body is None or getattr(body, "release", None) != self._published.release:
            self._say(field, printable(stated.kind), f"a publication or withdrawal of {self._published.release}")
            return None
        try:
            reached = root_from_proof(Entry(**stated.model_dump()).hash, stated.sequence, head.size, path)
        except ValueError as error:
            self._say(field, str(error), f"a path to the root of {head.size} entries")
            return None
        if reached != head.root:
            self._say(field, "a path to another root", f"to {head.root}, the checkpoint's")
        return stated.kind, body

    def _own(self) -> None:
        """Check that the answer has the version's own publication, and each entry once, in order."""
        places = [proven.entry.sequence for proven in self._status.entries]
        if places != sorted(set(places)):
            self._say("entries", "in another order", "each entry once, in the order of the journal")
        own = next(each.entry for each in self._proof.entries if each.entry.kind == "version_published")
        if own not in [proven.entry for proven in self._status.entries]:
            found = "this version's publication is not among them"
            self._say("entries", found, f"the entry {own.sequence} of PROOF.json", REWRITTEN)

    def _outcome(self, bodies: list[tuple[str, Statement]], notes: list[str]) -> JournalStatus:
        """Say what became of the version, from entries that hold."""
        number, release = self._published.number, self._published.release
        for _, body in bodies:
            if isinstance(body, WithdrawnBody) and body.number == number:
                found = f"{release} v{number} was withdrawn: {printable(body.reason)}"
                remedy = "do not use it: take a version that was not withdrawn, or ask the publisher"
                finding = Finding(self._where, WITHDRAWN, found, "a version that was not withdrawn", remedy)
                return JournalStatus((finding,), tuple(notes))
        gone = {body.number for _, body in bodies if isinstance(body, WithdrawnBody)}
        newer = [body.number for _, body in bodies if isinstance(body, PublishedBody) and body.number > number]
        newest = max((each for each in newer if each not in gone), default=None)
        if newest is not None:
            notes = [*notes, f"v{number} was superseded: v{newest} is the newest version that was not withdrawn"]
        return JournalStatus((), tuple(notes))


# --- Is this the newest version? Rule 14.


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
