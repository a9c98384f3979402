"""The folder of a table that versions are committed to: on this machine, or below a prefix of an S3-compatible store.

Files are only added. Each appears whole, and only where none of its name was: so of two writers of one log entry one
wins, and whoever is cut off leaves what no log entry names.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from shutil import copyfileobj
from tempfile import NamedTemporaryFile
from typing import IO, Final

from contracts.release.lake_address import LakeAddress
from contracts.release.s3_address import S3Address
from privacy.ledger.draw_files import sync_folder
from tasks.storage.object_store import ObjectStore
from tasks.storage.sources.lake_place import LakePlace, LocalLake, StoredLake

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
