"""The journal for the public: its tree and its entries as tiles, its checkpoint, and what became of each version.

    FOLDER/checkpoint               the signed note; last, so that who reads it finds all that it covers
    FOLDER/tile/...                 hashes and entries, which never change
    FOLDER/status/RELEASE.json      publications and withdrawals of a release, proven and signed

Order: what the folder holds is held against the ledger; tiles; the root read back from the tiles; status; checkpoint.
Whoever stops in between leaves a folder that holds, as of the checkpoint before. Doing it again finishes it.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final
from urllib.parse import quote

from contracts.canonical import readable_json
from contracts.errors import Finding, Refused, StoreUnwritable
from privacy.ledger.entries import to_the_hour
from privacy.ledger.journal.merkle import (
    HEIGHT,
    WIDTH,
    MalformedTile,
    TilePlace,
    bundle,
    nodes_of_tiles,
    read_bundle,
    read_tile,
    tiles_of,
    tree_root,
)
from privacy.ledger.journal.notes import SignedNote, TreeHead, read_checkpoint
from privacy.ledger.journal.signing import Signer, enveloped
from privacy.ledger.ledger import Ledger
from privacy.ledger.store.journal import JournalLog
from tasks.records.model.manifest import stated_status
from tasks.storage.workspace.run_folder import now_to_the_second
from tasks.storage.workspace.settings import Workspace

logger = logging.getLogger(__name__)

CHECKPOINT: Final = "checkpoint"
STATUS: Final = "status"


class JournalFolderRefused(Refused):
    """The folder of the public journal holds something else than the beginning of this journal."""

    exit_code = 1


@dataclass(frozen=True)
class PublicJournal:
    """What a public journal shows now.

    Args:
        folder: where it is.
        size: number of entries.
        files: how many files were written.
    """

    folder: Path
    size: int
    files: int


def status_file(release: str) -> str:
    """Return the name of a release's status below a journal's address."""
    return f"{STATUS}/{quote(release, safe='')}.json"


def publish_journal(ledger: Ledger, signer: Signer, folder: Path, *, lock: Path, now: str) -> PublicJournal:
    """Write the public journal, as the ledger is now.

    Args:
        ledger: the ledger.
        signer: signs checkpoint and status.
        folder: takes the journal.
        lock: a file outside the folder; one process at a time publishes.
        now: the time (ISO 8601, UTC); what is published has its hour.
    Raises:
        JournalFolderRefused: the folder holds another journal, or a later one.
        StoreUnwritable: it cannot be written; what readers see is as it was.
    Privacy: open entries, and salted commitments to all others. Times are cut to the hour. The number of entries is
        public, as it is in every proof.
    """
    try:
        with _alone(lock), ledger.log() as log:
            written = _Folder(folder, log, signer, to_the_hour(now)).publish()
    except OSError as error:
        raise StoreUnwritable(
            f"the public journal {folder} cannot be written ({error.strerror or type(error).__name__}); versions are "
            "as they were. Give write access or make room, then type: sudare releases journal"
        ) from error
    logger.info("public journal: %d entries, %d files written", written.size, written.files)
    return written


def show_journal(workspace: Workspace, ledger: Ledger, folder: Path | None = None) -> PublicJournal | None:
    """Write the public journal of a workspace, where it has one.

    Args:
        workspace: says where, and has the key.
        ledger: its ledger.
        folder: another folder than that of the settings.
    Raises:
        JournalFolderRefused, StoreUnwritable: as `publish_journal`; versions are as they were.
    """
    to = workspace.journal if folder is None else folder
    if to is None:
        return None
    lock = workspace.private / "journal.lock"
    return publish_journal(ledger, workspace.signer(), to, lock=lock, now=now_to_the_second())


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


class _Folder:
    """One publication into one folder."""

    def __init__(self, folder: Path, log: JournalLog, signer: Signer, at: str) -> None:
        self._folder, self._log, self._signer, self._at = folder, log, signer, at
        self._seconds = datetime.fromisoformat(at).timestamp()
        self._files = 0

    def publish(self) -> PublicJournal:
        """Write what is missing, in the order of the module."""
        head = TreeHead(self._signer.verifier.name, self._log.size, self._log.root)
        note = self._signer.note(head.text)
        self._write_tiles(self._published_size())
        self._check_root()
        self._write_status(note)
        self._write(CHECKPOINT, note.to_bytes())
        return PublicJournal(self._folder, self._log.size, self._files)

    def _published_size(self) -> int:
        """Return how many entries the folder's checkpoint covers, once the journal is seen to begin with them."""
        path = self._folder / CHECKPOINT
        if not path.exists():
            return 0
        try:
            there = read_checkpoint(path.read_text(encoding="utf-8"))[1]
        except ValueError as error:
            raise self._another(str(error), "a checkpoint of this workspace's journal") from None
        if there.origin != self._signer.verifier.name:
            raise self._another(f"a checkpoint of {there.origin}", f"one of {self._signer.verifier.name}")
        if there.size > self._log.size or tree_root(self._log.nodes, there.size) != there.root:
            found = f"a checkpoint of {there.size} entries that this ledger's journal does not begin with"
            raise self._another(found, f"one that its {self._log.size} entries begin with")
        return there.size

    def _another(self, found: str, allowed: str) -> JournalFolderRefused:
        remedy = (
            "if the ledger was restored from an older copy, restore the newest one: sudare budget history --verify; "
            "else publish the journal into a folder of its own: [publish] journal in sudare.toml"
        )
        return JournalFolderRefused([Finding(str(self._folder / CHECKPOINT), "checkpoint", found, allowed, remedy)])

    def _write_tiles(self, since: int) -> None:
        """Write tiles that are new, and those whose file is missing or cut."""
        for place in tiles_of(self._log.size):
            begun = place.index * WIDTH << (HEIGHT * (place.level or 0))
            fresh = begun + (WIDTH << (HEIGHT * (place.level or 0))) > since
            if fresh or self._is_cut(place):
                self._write(place.path, self._content(place))

    def _is_cut(self, place: TilePlace) -> bool:
        """Say whether a file that should be there is missing, or was cut."""
        path = self._folder / place.path
        try:
            (read_bundle if place.level is None else read_tile)(path.read_bytes(), place.width)
        except (FileNotFoundError, MalformedTile):
            return True
        return False

    def _content(self, place: TilePlace) -> bytes:
        begin = place.index * WIDTH
        if place.level is None:
            return bundle(self._log.logged(begin, begin + place.width))
        level = HEIGHT * place.level
        return b"".join(bytes.fromhex(self._log.nodes(level, index)) for index in range(begin, begin + place.width))

    def _check_root(self) -> None:
        """Refuse to sign for tiles from which another root follows: what lies in the folder was changed."""

        def read(place: TilePlace) -> tuple[str, ...]:
            return read_tile((self._folder / place.path).read_bytes(), place.width)

        if tree_root(nodes_of_tiles(read, self._log.size), self._log.size) != self._log.root:
            raise self._another("tiles that lead to another root", f"tiles of its {self._log.size} entries")

    def _write_status(self, note: SignedNote) -> None:
        """Write what became of each release's versions."""
        entries: dict[str, list[dict[str, object]]] = {}
        runs: dict[str, set[str]] = {}
        keys: list[str] = []
        for entry in self._log.open_entries():
            if entry.kind == "key_changed":
                keys.append(entry.body["note"])
                continue
            release = entry.body["release"]
            entries.setdefault(release, []).append(self._log.proven(entry))
            runs.setdefault(release, set()).add(entry.body["run_key"])
        text = note.to_bytes().decode()
        for release, proven in entries.items():
            earlier = self._log.earlier(runs[release])
            stated = stated_status(release, at=self._at, note=text, entries=proven, earlier=earlier, keys=keys)
            self._write(status_file(release), readable_json(enveloped(stated, self._signer)))

    def _write(self, name: str, content: bytes) -> None:
        """Put a file in its place, whole, with the hour as its time; one that has these bytes stays."""
        path = self._folder / name
        if path.is_file() and path.read_bytes() == content:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.partial")
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.utime(partial, (self._seconds, self._seconds))
        partial.replace(path)
        # A folder's time is that of its last file: it too is told to the hour.
        for folder in (each for each in path.parents if each.is_relative_to(self._folder)):
            os.utime(folder, (self._seconds, self._seconds))
        self._files += 1
