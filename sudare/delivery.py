"""Where rows in memory lie while they are released: in the private folder, under the name that they are bound by.

A source is bound to its people by its name, for good, as a file is by its path. Each charge is about the keyed hash
of the rows that were read. The file is there for one run and goes with it, however that ends. What a killed process
left goes with the next delivery.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from contracts.errors import Finding, SourceUnreadable
from sudare.rows import write_rows
from tasks.storage.workspace.keys import refusal
from tasks.storage.workspace.settings import Workspace as Place

FOLDER: Final = "sources"
SUFFIX: Final = ".parquet"
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_ALLOWED: Final = "at most 63 lower-case letters, digits, hyphens and underscores"


def is_name(written: str) -> bool:
    """Say whether a text can name rows in memory; what has a dot or a slash is a file or an address."""
    return _NAME.fullmatch(written) is not None


def rows_file(place: Place, name: str) -> Path:
    """Return where rows of a name lie while they are released.

    Raises:
        SourceUnreadable: it is no name.
    """
    if not is_name(name):
        remedy = "name the rows: run(spec, source=frame, name='visits')"
        raise SourceUnreadable([Finding("source", "name", repr(name), _ALLOWED, remedy)])
    return place.private / FOLDER / f"{name}{SUFFIX}"


@contextmanager
def delivered(place: Place, name: str, rows: Any) -> Iterator[Path]:
    """Have rows lie in their file inside the block, for this process alone.

    Args:
        place: the workspace.
        name: under which they are bound.
        rows: the table in memory.
    Raises:
        SourceUnreadable: the table cannot be written, or another run reads rows of that name now.
        WorkspaceRefused: the folder cannot be written.
    """
    file = rows_file(place, name)
    try:
        file.parent.mkdir(mode=0o700, exist_ok=True)
        file.parent.chmod(0o700)
        lock = os.open(_lock_of(file), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise _unwritable(file, error) from None
    try:
        if not _is_free(lock):
            found, remedy = "rows of that name, which another run is reading", "wait until that run has ended"
            raise SourceUnreadable([Finding(f"source {name!r}", "name", found, "one run at a time", remedy)])
        _sweep(file.parent, file)
        try:
            _write(rows, file)
            yield file
        finally:
            file.unlink(missing_ok=True)
    finally:
        os.close(lock)


def _write(rows: Any, file: Path) -> None:
    try:
        write_rows(rows, file)
    except OSError as error:
        raise _unwritable(file, error) from None


def _lock_of(file: Path) -> Path:
    return file.with_suffix(".lock")


def _is_free(lock: int) -> bool:
    """Take a lock if nobody has it; the kernel lets go of it when its process ends."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sweep(folder: Path, own: Path) -> None:
    """Remove rows that a killed process left."""
    for file in folder.glob(f"*{SUFFIX}"):
        if file == own:
            continue
        lock = os.open(_lock_of(file), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if _is_free(lock):
                file.unlink(missing_ok=True)
        finally:
            os.close(lock)


def _unwritable(file: Path, error: OSError) -> Exception:
    found, remedy = error.strerror or type(error).__name__, "give write access and room; nothing was charged"
    return refusal(str(file.parent), "private folder", found, "a folder that can be written", remedy)
