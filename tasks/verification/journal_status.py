"""Was the version withdrawn or superseded since? One request to the public journal answers, with proof.

Rules, in this order:
    1. the answer is one file, status/RELEASE.json, and is signed under the pinned key
    2. its checkpoint is signed under the pinned key, covers no fewer entries than the version's, and begins with them
    3. each entry is about the release, in order, and under the checkpoint
    4. this version's publication is among them, the very entry that its proof has
    5. no withdrawal of this version is among them
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
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
from privacy.ledger.journal.signed_note import MalformedNote
from privacy.ledger.journal.signing import key_id
from tasks.records.model.journal_statements import PublishedBody, WithdrawnBody
from tasks.records.model.release_statement import check_envelope
from tasks.records.model.statement import Statement, read_statement
from tasks.records.model.status_statement import StatusPredicate, read_status
from tasks.records.model.version_statements import EntryStatement, Proof
from tasks.records.strict_json import LARGEST_JSON, printable
from tasks.verification.inclusion import REWRITTEN, UNPROVEN, check_checkpoint
from tasks.verification.key_succession import too_many
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
