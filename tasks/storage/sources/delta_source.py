"""A Delta table as a source: the files of one version, read by the rules for folders.

What tells that the table changed is its own id and the number of its version. Whoever writes meanwhile makes another
version, so the one that is read stays what it is; only a file of it that goes or changes stops the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from contracts.contract.contract import Contract
from contracts.errors import Finding, GateBroken
from contracts.release.delta_address import DeltaAddress
from contracts.release.source import Source
from tasks.storage.sources.delta_log import DeltaFile, DeltaVersion, last_commit, read_version
from tasks.storage.sources.folder import HIVE_NULL, FolderFile, parts_named
from tasks.storage.sources.origin import Origin, checked, read_parts
from tasks.storage.sources.source_kinds import SourceKind
from tasks.storage.sources.typed_rows import Reading, refuse
from tasks.storage.workspace.run_folder import FETCHED


@contextmanager
def delta_origin(source: Source, address: DeltaAddress, contract: Contract) -> Iterator[Origin]:
    """Look at a version of the table.

    Raises:
        SourceUnreadable: there is no such version, or none that can be read; a file of it is gone.
    """
    version = read_version(source.name, address.folder, number=address.version, at=address.at)
    files = [_place(source.name, address.folder, each) for each in version.files]

    def marks() -> object:
        return [version.table, version.number, [_facts(source.name, path) for path in files]]

    def reading(folder: Path, advance: Callable[[float], None]) -> Reading:
        parts = _linked(source.name, version, files, folder / FETCHED)
        found = read_parts(source.name, parts, source, contract)
        _check_columns(source.name, version, found)
        return checked(found, source, contract)

    yield Origin(marks(), marks, reading)


def last_written(source: Source, address: DeltaAddress) -> datetime | None:
    """Return when the newest version was written."""
    return last_commit(source.name, address.folder)


def _place(where: str, folder: Path, file: DeltaFile) -> Path:
    """Return where a file of a version is: below the table's own folder, and nowhere else."""
    written = urlsplit(file.path)
    place = Path(unquote(file.path))
    if written.scheme or place.is_absolute() or ".." in place.parts:
        found, remedy = "a Delta table with files outside its folder (a shallow clone)", "copy the table whole"
        refuse(where, "source.path", found, "files below the table's folder", remedy)
    return folder / place


def _facts(where: str, path: Path) -> tuple[int, ...]:
    """Return what changes when a file is written; a file that is gone is refused without its name."""
    try:
        seen = path.stat()
        return (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)
    except OSError:
        pass
    found, remedy = "a version whose files are gone (VACUUM)", "name a later version, or none"
    refuse(where, "source.path", found, "a version whose files are all there", remedy)


def _linked(where: str, version: DeltaVersion, files: list[Path], folder: Path) -> tuple[FolderFile, ...]:
    """Link the files into the run's private folder, under paths that say of partitions what the log says."""
    named = []
    for number, (file, path) in enumerate(zip(version.files, files, strict=True)):
        above = [f"{quote(key, safe='')}={_text(value)}" for key, value in file.partition]
        near = "/".join((f"{number:06d}", *above, "part.parquet"))
        (folder / near).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / near).unlink(missing_ok=True)
        (folder / near).symlink_to(path)
        named.append((folder / near, near, _facts(where, path)))
    if not named:
        refuse(where, "source.path", "a version without a file", "a table with rows", "there is nothing to release")
    return parts_named(where, "parquet", named)


def _text(value: str | None) -> str:
    return HIVE_NULL if value is None else quote(value, safe="")


def _check_columns(where: str, version: DeltaVersion, reading: Reading) -> None:
    """Refuse a table whose files, all alike, lack a column that its schema has, or have one more."""
    if set(reading.columns) == set(version.columns):
        return
    new = [name for name in version.columns if name not in reading.columns]
    gone = [name for name in reading.columns if name not in version.columns]
    said = [f"not in the files: {', '.join(new)}"] * bool(new) + [f"not in the table: {', '.join(gone)}"] * bool(gone)
    remedy = "rewrite the table's files (an overwrite of all rows), or leave the column out of the table"
    finding = Finding(where, "columns", "; ".join(said), "files with the columns of the table", remedy)
    raise GateBroken([finding])


DELTA: Final = SourceKind(delta_origin, last_written)
