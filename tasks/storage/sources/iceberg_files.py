"""How pyiceberg reads the metadata of a table: out of the place where the table is, and nothing else."""

from __future__ import annotations

from io import BytesIO
from typing import NoReturn

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import StaticTable

from tasks.storage.sources.lake_place import LakePlace, placed


class PlacedFile(InputFile):  # type: ignore[misc]
    """A file of a table; it is read once, into memory."""

    def __init__(self, location: str, place: LakePlace, path: str) -> None:
        super().__init__(location)
        self._place, self._path = place, path
        self._content: bytes | None = None

    def _read(self) -> bytes:
        if self._content is None:
            self._content = self._place.read(self._path)
        return self._content

    def __len__(self) -> int:
        """Return its size in bytes."""
        return len(self._read())

    def exists(self) -> bool:
        """Say whether it is there."""
        return self._place.facts(self._path) is not None

    def open(self, seekable: bool = True) -> InputStream:
        """Open it."""
        return BytesIO(self._read())


class PlacedFiles(FileIO):  # type: ignore[misc]
    """The files of one table, which are only read.

    Args:
        where: the table, for messages.
        place: where it is.
    """

    def __init__(self, where: str, place: LakePlace) -> None:
        super().__init__()
        self._where, self._place = where, place

    def new_input(self, location: str) -> InputFile:
        """Return a file by its path or URI.

        Raises:
            SourceUnreadable: it is outside the table's folder.
        """
        return PlacedFile(location, self._place, placed(self._where, self._place, location, encoded=False))

    def new_output(self, location: str) -> OutputFile:
        """Refuse to write."""
        _only_read()

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Refuse to delete."""
        _only_read()


def static_table(where: str, place: LakePlace, path: str) -> StaticTable:
    """Return a table as one of its metadata files has it.

    Args:
        where: the table, for messages.
        place: where it is.
        path: the metadata file, below the table's folder.
    """
    files = PlacedFiles(where, place)
    metadata = FromInputFile.table_metadata(PlacedFile(path, place, path))
    return StaticTable(("static-table", path), metadata, path, files, NoopCatalog("static-table"))


def _only_read() -> NoReturn:
    raise PermissionError("a source is only read")
