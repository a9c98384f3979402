"""The files of a table as pyiceberg reads and writes them: out of the table's own place, and nothing else.

Each file that is written is added whole to the table's folder, where none of its name was.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import NoReturn

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream, load_file_io
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import StaticTable

from sudare_lakes.lake_place import LakePlace, TableFolder, placed


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


class AddedFiles(PlacedFiles):
    """The files of one table, to which files are added.

    Args:
        folder: the table's.
        known: files of this machine that are read in place of a file of the table, by its URI.
    """

    def __init__(self, folder: TableFolder, known: Mapping[str, Path]) -> None:
        super().__init__(folder.name, folder.place)
        self._folder, self._known = folder, known

    def new_input(self, location: str) -> InputFile:
        """Return a file by its URI."""
        if location in self._known:
            here = self._known[location].as_uri()
            return load_file_io(location=here).new_input(here)
        return super().new_input(location)

    def new_output(self, location: str) -> OutputFile:
        """Return a file that is to be added."""
        return AddedFile(location, self._folder, self)


class AddedFile(OutputFile):  # type: ignore[misc] # pyiceberg is not followed
    """A file that appears when it is closed."""

    def __init__(self, location: str, folder: TableFolder, files: AddedFiles) -> None:
        super().__init__(location)
        self._folder, self._files, self._size = folder, files, 0

    def __len__(self) -> int:
        """Return its size in bytes, once it is there."""
        return self._size

    def exists(self) -> bool:
        """Say whether one of that name is there."""
        return bool(self._files.new_input(self.location).exists())

    def to_input_file(self) -> InputFile:
        """Return it, to be read."""
        return self._files.new_input(self.location)

    def create(self, overwrite: bool = False) -> OutputStream:
        """Return what its content is written to; nothing is replaced, whatever is asked."""
        return _Content(self)

    def add(self, content: bytes) -> None:
        """Add it to the folder."""
        path = placed(self._folder.name, self._folder.place, self.location, encoded=False)
        self._folder.put(path, content)
        self._size = len(content)


class _Content(BytesIO):
    """The content of a file that is written; closing adds it, and closing again does nothing."""

    def __init__(self, file: AddedFile) -> None:
        super().__init__()
        self._file = file

    def close(self) -> None:
        if not self.closed:
            content = self.getvalue()
            super().close()
            self._file.add(content)
