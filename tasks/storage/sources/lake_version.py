"""One version of a table that keeps its own log, whatever its kind: its files, read by the rules for folders.

What tells that the table changed is its own id and the version's. Whoever writes meanwhile makes another version, so
the one that is read stays what it is; only a file of it that goes or changes stops the run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from contracts.contract.contract import Contract
from contracts.errors import Finding, GateBroken
from contracts.release.source import Source
from tasks.storage.sources.folder import HIVE_NULL, FolderFile, parts_named
from tasks.storage.sources.origin import Origin, checked, read_parts
from tasks.storage.sources.typed_rows import Reading, break_gate, refuse
from tasks.storage.workspace.run_folder import FETCHED


@dataclass(frozen=True)
class LakeFile:
    """One file of a version.

    Args:
        path: where it is.
        partition: the text of each partition column that the file itself does not hold, None for a missing one.
    """

    path: Path
    partition: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True)
class LakeVersion:
    """What the log says of one version.

    Args:
        table: the table's own id.
        number: the version's own.
        columns: the names of its columns.
        files: its files, in the order of their paths.
        stored_as: how all its files call columns that the table calls otherwise, by the table's names.
    """

    table: str
    number: int
    columns: tuple[str, ...]
    files: tuple[LakeFile, ...]
    stored_as: tuple[tuple[str, str], ...] = ()


def place_of(folder: Path, written: str) -> Path | None:
    """Return where a file of a version is, however its path is spelled; None where that is not below the folder.

    Args:
        folder: the table's folder.
        written: a path below it, or a URI, as the log has them.
    """
    parts = urlsplit(written)
    place = Path(unquote(written))
    local = parts.scheme in ("", "file") and parts.netloc in ("", "localhost")
    if local and (parts.scheme or place.is_absolute()):
        absolute = Path(unquote(parts.path)) if parts.scheme else place
        # The folder may be reached by links; a link inside of it is a file like others.
        absolute, real = absolute.parent.resolve() / absolute.name, folder.resolve()
        place = absolute.relative_to(real) if absolute.is_relative_to(real) else Path("..")
    return folder / place if local and ".." not in place.parts else None


def placed(where: str, folder: Path, written: str) -> Path:
    """Return where a file of a version is: below the table's own folder, and nowhere else.

    Args:
        where: the table, for messages.
        folder: its folder.
        written: a path below it, or a URI, as the log has them.
    Raises:
        SourceUnreadable: it is somewhere else.
    """
    place = place_of(folder, written)
    if place is None:
        found, remedy = "a table with files outside its folder", "copy the table whole, and name the copy"
        refuse(where, "source.path", found, "files below the table's folder", remedy)
    return place


def lake_origin(source: Source, contract: Contract, version: LakeVersion, *, cleaner: str) -> Origin:
    """Return the origin that a version is.

    Args:
        source: the source.
        contract: gives the names of the columns.
        version: the version.
        cleaner: what removes files of earlier versions, for the message.
    """

    def marks() -> object:
        facts = [_facts(source.name, each.path, cleaner) for each in version.files]
        return [version.table, version.number, facts]

    def reading(folder: Path, advance: Callable[[float], None]) -> Reading:
        parts = _linked(source.name, version, folder / FETCHED, cleaner)
        found = read_parts(source.name, parts, source, contract, stored_as=dict(version.stored_as))
        _check_columns(source.name, version, found)
        return checked(found, source, contract)

    return Origin(marks(), marks, reading)


def _facts(where: str, path: Path, cleaner: str) -> tuple[int, ...]:
    """Return what changes when a file is written; a file that is gone is refused without its name."""
    try:
        seen = path.stat()
        return (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)
    except OSError:
        pass
    found, remedy = f"a version whose files are gone ({cleaner})", "name a later version, or none"
    refuse(where, "source.path", found, "a version whose files are all there", remedy)


def _linked(where: str, version: LakeVersion, folder: Path, cleaner: str) -> tuple[FolderFile, ...]:
    """Link the files into the run's private folder, under paths that say of partitions what the log says."""
    named = []
    for number, file in enumerate(version.files):
        above = [f"{quote(key, safe='')}={_text(value)}" for key, value in file.partition]
        near = "/".join((f"{number:06d}", *above, "part.parquet"))
        (folder / near).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / near).unlink(missing_ok=True)
        (folder / near).symlink_to(file.path)
        named.append((folder / near, near, _facts(where, file.path, cleaner)))
    if not named:
        # Whether anybody is left is the data's: a gate, as for one file without rows.
        break_gate(where, "rows", "a version without a file", "at least one row", "there is nothing to release")
    return parts_named(where, "parquet", named)


def _text(value: str | None) -> str:
    return HIVE_NULL if value is None else quote(value, safe="")


def _check_columns(where: str, version: LakeVersion, reading: Reading) -> None:
    """Refuse a table whose files, all alike, lack a column that its schema has, or have one more."""
    if set(reading.columns) == set(version.columns):
        return
    new = [name for name in version.columns if name not in reading.columns]
    gone = [name for name in reading.columns if name not in version.columns]
    said = [f"not in the files: {', '.join(new)}"] * bool(new) + [f"not in the table: {', '.join(gone)}"] * bool(gone)
    remedy = "rewrite the table's files (an overwrite of all rows), or leave the column out of the table"
    finding = Finding(where, "columns", "; ".join(said), "files with the columns of the table", remedy)
    raise GateBroken([finding])
