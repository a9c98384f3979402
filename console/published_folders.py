"""Version folders as commands and pages show them: whole as the journal published them, or not at all.

The ledger says which versions there are and what their manifests hash to. A file is served only if that very manifest
lists it; no path is ever built from a request. A version that is just being published is not there yet.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, Literal, TypeVar

from contracts.errors import SudareError
from privacy.ledger.terms import VersionEntry
from tasks.records.model.manifest import files_of_manifest
from tasks.records.record import published_explanation
from tasks.records.values import Values
from tasks.storage.manifest import MANIFEST, PROOF, version_folder

FolderState = Literal["whole", "coming", "elsewhere", "changed"]
_KEPT: Final = 64
_LARGEST_MANIFEST: Final = 1 << 26

KeptT = TypeVar("KeptT")


@dataclass(frozen=True)
class ReleaseListing:
    """A file of a version.

    Args:
        name: relative to the version's folder, with slashes.
        bytes: its size.
        sha256: its digest (hex); None for the proof, which is outside the manifest.
    """

    name: str
    bytes: int
    sha256: str | None


@dataclass(frozen=True)
class Folder:
    """What the store holds of a version.

    Args:
        entry: the version as the ledger knows it.
        path: where it is published.
        standing: whole; coming (being published at this moment); elsewhere (no folder in this store); or changed
            (a manifest that is not the published one).
        files: the files that may be served, by name; none unless whole.
    """

    entry: VersionEntry
    path: Path
    standing: FolderState
    files: Mapping[str, ReleaseListing]

    @property
    def is_readable(self) -> bool:
        """Whether there is something to read."""
        return self.standing == "whole"

    def open(self, name: str) -> int:
        """Return a descriptor of a listed file.

        Raises:
            FileNotFoundError: the manifest does not list it, or it is no plain file inside the folder.
        """
        if name not in self.files:
            raise FileNotFoundError(name)
        descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            *parents, last = name.split("/")
            for parent in parents:
                inner = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = inner
            file = os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=descriptor)
        except OSError as error:
            raise FileNotFoundError(name) from error
        finally:
            os.close(descriptor)
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise FileNotFoundError(name)
        return file

    def read(self, name: str) -> bytes:
        """Return a listed file's bytes, if they are the published ones.

        Raises:
            FileNotFoundError: it is not there, or is not what the manifest states.
        """
        with os.fdopen(self.open(name), "rb") as file:
            content = file.read(self.files[name].bytes + 1)
        if hashlib.sha256(content).hexdigest() != self.files[name].sha256:
            raise FileNotFoundError(f"{name} is not as it was published")
        return content

    def fingerprint(self) -> tuple[tuple[str, int, int], ...]:
        """Return name, size and time of change of every file, so that a change is noticed without reading it all."""
        marks = []
        for name in (*self.files, MANIFEST):
            try:
                seen = (self.path / name).lstat()
            except OSError:
                marks.append((name, -1, -1))
            else:
                marks.append((name, seen.st_size, seen.st_mtime_ns))
        return tuple(marks)


class Folders:
    """The release store.

    Args:
        store: its folder.
    """

    def __init__(self, store: Path) -> None:
        self._store = store
        self._manifests: Kept[Mapping[str, ReleaseListing]] = Kept(_KEPT)
        self._records: Kept[dict[str, Any]] = Kept(_KEPT)
        self._values: Kept[Values] = Kept(_KEPT)

    def of(self, entry: VersionEntry) -> Folder:
        """Look at the folder of a version."""
        path = version_folder(self._store, entry.release, entry.number)
        content = _small_file(path / MANIFEST)
        if content is None:
            staged = (path.parent / f".staging-{path.name}").is_dir()
            content = _small_file(path / MANIFEST)  # between the two looks it may have been renamed
            if content is None:
                return Folder(entry, path, "coming" if staged else "elsewhere", {})
        digest = hashlib.sha256(content).hexdigest()
        if digest != entry.manifest:
            return Folder(entry, path, "changed", {})
        files = self._manifests.get(digest)
        if files is None:
            files = _files(content, digest)
            self._manifests.keep(digest, files)
        return Folder(entry, path, "whole", _with_proof(files, path))

    def record(self, folder: Folder) -> dict[str, Any] | None:
        """Return the published record, or None where it is not there as it was published."""
        listed = folder.files.get("record.json")
        if listed is None or listed.sha256 is None:
            return None
        known = self._records.get(listed.sha256)
        if known is None:
            try:
                known = json.loads(folder.read("record.json"))
            except (FileNotFoundError, ValueError, RecursionError):
                return None
            if not isinstance(known, dict):
                return None
            self._records.keep(listed.sha256, known)
        return known

    def values(self, folder: Folder) -> Values:
        """Return what the published record tells people, by field; nothing where it cannot be explained."""
        record = folder.files.get("record.json")
        if record is None or record.sha256 is None:
            return {}
        known = self._values.get(record.sha256)
        if known is None:
            try:
                known = published_explanation(lambda name: _content(folder, name)).values
            except (OSError, SudareError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
                return {}
            self._values.keep(record.sha256, known)
        return known


def _content(folder: Folder, name: str) -> bytes:
    """Return the record as it was published, or one of the two files that sign and prove it."""
    content = folder.read(name) if name not in (MANIFEST, PROOF) else _small_file(folder.path / name)
    if content is None:
        raise FileNotFoundError(name)
    return content


class Kept(Generic[KeptT]):
    """The last answers, by key.

    Args:
        most: how many.
    """

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, threading.Lock()
        self._held: OrderedDict[object, KeptT] = OrderedDict()

    def get(self, key: object) -> KeptT | None:
        """Return what is kept, or None."""
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
            return self._held.get(key)

    def keep(self, key: object, value: KeptT) -> None:
        """Keep an answer, and let the oldest go."""
        with self._lock:
            self._held[key] = value
            while len(self._held) > self._most:
                self._held.popitem(last=False)


def _files(manifest: bytes, digest: str) -> dict[str, ReleaseListing]:
    listed = files_of_manifest(manifest)
    files = {name: ReleaseListing(name, each.bytes, each.sha256) for name, each in sorted(listed.items())}
    return {**files, MANIFEST: ReleaseListing(MANIFEST, len(manifest), digest)}


def _with_proof(files: Mapping[str, ReleaseListing], path: Path) -> dict[str, ReleaseListing]:
    try:
        size = (path / PROOF).lstat().st_size
    except OSError:
        return dict(files)
    return {**files, PROOF: ReleaseListing(PROOF, size, None)}


def _small_file(path: Path) -> bytes | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        return file.read(_LARGEST_MANIFEST)
