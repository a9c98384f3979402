"""What pyiceberg writes of a table: each file is added whole to the table's folder, where none of its name was."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

from pyiceberg.io import InputFile, OutputFile, OutputStream, load_file_io

from tasks.storage.sinks.table_folders import TableFolder
from tasks.storage.sources.iceberg_files import PlacedFiles
from tasks.storage.sources.lake_place import placed


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
