"""Where a table with a log of its own lies: a folder of this machine, or below a prefix of an S3-compatible store.

A place knows its files by their paths below the table's folder. The log's files are read into memory: they hold
values of rows. Data files are brought into the run's private folder, and read there.

A folder that versions are committed to is a place to which files are only added. Each appears whole, and only where
none of its name was: so of two writers of one log entry one wins, and whoever is cut off leaves what no log entry
names.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from shutil import copyfileobj
from tempfile import NamedTemporaryFile
from typing import IO, ClassVar, Final
from urllib.parse import unquote

from privacy.ledger.draw_files import sync_folder
from sudare_lakes.addresses import LakeAddress, S3Address
from sudare_lakes.object_store import ObjectStore, StoredObject
from sudare_lakes.objects import copied_all
from tasks.storage.sources.typed_rows import refuse

_URI: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?(/.*)?", re.DOTALL)


class LakePlace(ABC):
    """The folder of a table, here or in a store."""

    fetches: ClassVar[bool]
    """Whether data files are copied to be read."""
    folder: Path
    """The table's folder; in a store the path of bucket and key."""

    @abstractmethod
    def names(self, below: str) -> list[str] | None:
        """List the names of files in a folder below the table's; None where there is no such folder."""

    @abstractmethod
    def is_there(self) -> bool:
        """Say whether the table's folder is there."""

    @abstractmethod
    def read(self, path: str) -> bytes:
        """Read a small file of the log.

        Raises:
            OSError: it is not there, or cannot be read.
        """

    @abstractmethod
    def written(self, path: str) -> datetime:
        """Return when a file was last written."""

    @abstractmethod
    def facts(self, path: str) -> tuple[int | str, ...] | None:
        """Return what changes when a file is written; None where it is gone."""

    @abstractmethod
    def bring(self, files: Sequence[tuple[str, Path]], advance: Callable[[float], None]) -> bool:
        """Make files readable at other places; False where one is gone."""

    def path_of(self, written: str, *, encoded: bool = True) -> str | None:
        """Return which file of the table is meant, however it is spelled; None where it is outside of the folder.

        Args:
            written: a path below the table's folder, or a URI, as the log has them.
            encoded: whether %20 is a space, as in Delta's log; in Iceberg's it is these three letters.
        """
        scheme, host, path = uri_parts(written)
        if encoded:
            written, path = unquote(written), unquote(path)
        place = Path(written)
        ours = self._is_ours(scheme, host)
        if ours and (scheme or place.is_absolute()):
            absolute, root = self._absolute(scheme, host, path, place), self._root()
            place = absolute.relative_to(root) if absolute.is_relative_to(root) else Path("..")
        return place.as_posix() if ours and ".." not in place.parts else None

    @abstractmethod
    def _is_ours(self, scheme: str, host: str) -> bool:
        """Say whether a URI, or a path without a scheme, can be of this place."""

    @abstractmethod
    def _absolute(self, scheme: str, host: str, path: str, place: Path) -> Path:
        """Return the whole path of a URI, or of an absolute path."""

    def _root(self) -> Path:
        return self.folder


class LocalLake(LakePlace):
    """A table in a folder of this machine."""

    fetches: ClassVar[bool] = False

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def names(self, below: str) -> list[str] | None:
        """List what is in a folder."""
        place = self.folder / below
        return sorted(path.name for path in place.iterdir()) if place.is_dir() else None

    def is_there(self) -> bool:
        """Say whether the folder is there."""
        return self.folder.is_dir()

    def read(self, path: str) -> bytes:
        """Read a file."""
        return (self.folder / path).read_bytes()

    def written(self, path: str) -> datetime:
        """Return the file's time of change."""
        return datetime.fromtimestamp((self.folder / path).stat().st_mtime, UTC)

    def facts(self, path: str) -> tuple[int | str, ...] | None:
        """Return place, size and times of a file."""
        try:
            seen = (self.folder / path).stat()
        except OSError:
            return None
        return (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)

    def bring(self, files: Sequence[tuple[str, Path]], advance: Callable[[float], None]) -> bool:
        """Link the files."""
        for path, to in files:
            to.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            to.unlink(missing_ok=True)
            to.symlink_to(self.folder / path)
        return True

    def _is_ours(self, scheme: str, host: str) -> bool:
        return scheme in ("", "file") and host in ("", "localhost")

    def _absolute(self, scheme: str, host: str, path: str, place: Path) -> Path:
        absolute = Path(path) if scheme else place
        # The folder may be reached by links; a link inside of it is a file like others.
        return absolute.parent.resolve() / absolute.name

    def _root(self) -> Path:
        return self.folder.resolve()


class StoredLake(LakePlace):
    """A table below a prefix of a store; the log's URIs may name the store by any of its usual schemes."""

    fetches: ClassVar[bool] = True

    def __init__(self, address: S3Address, store: ObjectStore) -> None:
        self.folder = Path("/", address.bucket, address.key)
        self._address = address
        self._store = store

    def names(self, below: str) -> list[str] | None:
        """List the objects whose keys have nothing more after the folder than a name."""
        start = f"{self._address.key}/{below}/"
        found = [each.key[len(start) :] for each in self._store.list(start)]
        return [name for name in found if name and "/" not in name] or None

    def is_there(self) -> bool:
        """Say whether any object lies below the prefix."""
        return bool(self._store.list(f"{self._address.key}/"))

    def read(self, path: str) -> bytes:
        """Read a small object."""
        found = self._store.read(self._key(path))
        if found is None:
            raise FileNotFoundError(path)
        return found[0]

    def written(self, path: str) -> datetime:
        """Return when an object was written, by the store's clock."""
        found = self._store.find(self._key(path))
        if found is None:
            raise FileNotFoundError(path)
        return found.written

    def facts(self, path: str) -> tuple[int | str, ...] | None:
        """Return key, size and tag of an object."""
        found = self._store.find(self._key(path))
        return None if found is None else (found.key, found.size, found.etag)

    def bring(self, files: Sequence[tuple[str, Path]], advance: Callable[[float], None]) -> bool:
        """Copy the objects, each in the state in which it is found."""
        found = [(self._store.find(self._key(path)), to) for path, to in files]
        there: list[tuple[StoredObject, Path]] = [(stored, to) for stored, to in found if stored is not None]
        return len(there) == len(files) and copied_all(self._store, there, advance)

    def _key(self, path: str) -> str:
        return f"{self._address.key}/{path}"

    def _is_ours(self, scheme: str, host: str) -> bool:
        return scheme == "" or (scheme in ("s3", "s3a", "s3n") and host == self._address.bucket)

    def _absolute(self, scheme: str, host: str, path: str, place: Path) -> Path:
        return Path(f"/{host}{path}") if scheme else place


def uri_parts(written: str) -> tuple[str, str, str]:
    """Split a URI into scheme, host and path; of a path without a scheme the first two are empty."""
    found = _URI.fullmatch(written)
    return (found[1].lower(), found[2] or "", found[3] or "") if found else ("", "", written)


def lake_place(address: LakeAddress, credentials: str | None) -> LakePlace:
    """Return the place that an address names.

    Raises:
        StoreRefuses: of a store, no package or no such credentials.
    """
    if address.store is not None:
        return StoredLake(address.store, ObjectStore(address.store, credentials, field="source.path"))
    return LocalLake(address.folder)


def placed(where: str, place: LakePlace, written: str, *, encoded: bool = True) -> str:
    """Return which file of a table is meant: below the table's own folder, and nowhere else.

    Args:
        where: the table, for messages.
        place: its folder.
        written: a path below it, or a URI, as the log has them.
        encoded: as for `LakePlace.path_of`.
    Raises:
        SourceUnreadable: it is somewhere else.
    """
    path = place.path_of(written, encoded=encoded)
    if path is None:
        found, remedy = "a table with files outside its folder", "copy the table whole, and name the copy"
        refuse(where, "source.path", found, "files below the table's folder", remedy)
    return path


HOUR_MS: Final = 3_600_000


class TableFolder(ABC):
    """The folder of one table.

    Args:
        place: the folder, as it is read.
    """

    def __init__(self, place: LakePlace) -> None:
        self.place = place

    @property
    def name(self) -> str:
        """What the table is called."""
        return self.place.folder.name

    def names(self, below: str) -> list[str]:
        """List the files of a folder below the table's."""
        return self.place.names(below) or []

    def hour_ms(self, path: str) -> int:
        """Return the hour in which a file was written [ms since 1970]: the minute depends on the rows of a run."""
        return int(self.place.written(path).timestamp() * 1000) // HOUR_MS * HOUR_MS

    @abstractmethod
    def uri(self, path: str = "") -> str:
        """Return the URI of a file of the table, or of its folder."""

    @abstractmethod
    def put(self, path: str, content: bytes) -> None:
        """Add a file; the same content is found and left.

        Raises:
            FileExistsError: another content is there.
            OSError: the disk refuses.
            StoreAway, StoreRefuses: the store does not answer, or says no.
        """

    @abstractmethod
    def copy(self, path: str, file: Path) -> None:
        """Add a copy of a file of this machine, as `put` does."""


class LocalTableFolder(TableFolder):
    """A folder of this machine."""

    def __init__(self, folder: Path) -> None:
        super().__init__(LocalLake(folder))
        self._folder = folder

    def uri(self, path: str = "") -> str:
        """Return the path as a URI."""
        return (self._folder / path).as_uri()

    def put(self, path: str, content: bytes) -> None:
        """Write beside, then link."""
        self._add(path, lambda file: file.write(content), lambda there: there.read_bytes() == content)

    def copy(self, path: str, file: Path) -> None:
        """Copy beside, then link."""

        def filled(to: IO[bytes]) -> None:
            with file.open("rb") as content:
                copyfileobj(content, to)

        self._add(path, filled, lambda there: there.read_bytes() == file.read_bytes())

    def _add(self, path: str, fill: Callable[[IO[bytes]], object], same: Callable[[Path], bool]) -> None:
        to = self._folder / path
        to.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=to.parent, prefix=".", suffix=".partial") as file:
            fill(file)
            file.flush()
            os.fchmod(file.fileno(), 0o644)
            os.fsync(file.fileno())
            try:
                os.link(file.name, to)
            except FileExistsError:
                if not same(to):
                    raise
        sync_folder(to.parent)


class StoredTableFolder(TableFolder):
    """A prefix of keys in a store; the store itself takes a key only where none is."""

    def __init__(self, address: S3Address, store: ObjectStore) -> None:
        super().__init__(StoredLake(address, store))
        self._address, self._store = address, store

    def uri(self, path: str = "") -> str:
        """Return the URI that programs use which were told the store's endpoint."""
        return f"s3://{self._address.bucket}/{self._key(path)}".rstrip("/")

    def put(self, path: str, content: bytes) -> None:
        """Write an object where none is."""
        if not self._store.replace(self._key(path), content, None):
            there = self._store.read(self._key(path))
            if there is None or there[0] != content:
                raise FileExistsError(path)

    def copy(self, path: str, file: Path) -> None:
        """Write an object where none is; the store checks its digest."""
        self._store.put_new(self._key(path), file)

    def _key(self, path: str) -> str:
        return f"{self._address.key}/{path}"


def table_folders(address: LakeAddress, credentials: str | None, release: str) -> Callable[[str], TableFolder]:
    """Return what gives the folder of each table of a release.

    Args:
        address: the folder or the prefix of all releases.
        credentials: their name, of a store.
        release: name of the product.
    Raises:
        StoreRefuses: of a store, no package or no such credentials.
    """
    if address.store is None:
        return lambda table: LocalTableFolder(address.folder / release / table)
    base, store = address.store, ObjectStore(address.store, credentials, field="publish.to")
    return lambda table: StoredTableFolder(replace(base, key=f"{base.key}/{release}/{table}"), store)
