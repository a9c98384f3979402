"""The files of a folder as one table: which files count, what their paths say of each row, and what is refused.

    year=2024/town=north/part-0.parquet      every row has year 2024 and town north (a hive partition)

A partition's value is data: it is read as text by the contract's domain, like a field of a CSV, and never shown.
Two names of one file, a packed file beside its plain one, equal files of one partition (unpacked), and folders that
are no tables (`tasks.storage.sources.lake_formats`) are refused: a row would count twice, and one person could change
more rows than the contract says.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa

from contracts.errors import Finding
from contracts.release.file_names import Files
from tasks.storage.sources.lake_formats import check_plain_folder
from tasks.storage.sources.typed_rows import break_gate, refuse

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
ENDINGS: dict[Files, tuple[str, ...]] = {"parquet": (".parquet",), "csv": (".csv", ".csv.gz", ".csv.zst")}
Partition = tuple[tuple[str, str | None], ...]
_PACKINGS = {".gz": "gzip", ".zst": "zstd"}
_PACKED = re.compile(r"\.(gz|zst)$", re.IGNORECASE)
_CHUNK_BYTES = 1 << 22
_PATIENCE = "run again when nothing writes to the folder"


@dataclass(frozen=True)
class FolderFile:
    """One file of a folder.

    Args:
        path: where it can be read.
        label: how messages call it; its name could hold a value.
        partition: what its path says of each of its rows: column and value, None for a missing one.
        places: which parts of its path say so, counted from the end.
        facts: what changes when it is written.
    """

    path: Path
    label: str
    partition: Partition
    places: tuple[int, ...]
    facts: tuple[int | str, ...]


def parts_of(folder: Path, form: Files) -> tuple[FolderFile, ...]:
    """List the files of a folder and of the folders below it, in the order of their paths.

    Names that begin with `_` or `.` are passed over, as every writer of such folders means it.

    Raises:
        SourceUnreadable: no folder, no file, a link, a file of another kind, or partitions that differ in their keys.
    """
    if not folder.is_dir():
        found = "a file" if folder.exists() else "no such folder"
        refuse(folder, "source.path", found, "a folder, since the spec says `files:`", "correct `path:`, or drop it")
    check_plain_folder(folder)
    try:
        paths = sorted(_files(folder, folder), key=lambda path: path.relative_to(folder).as_posix().encode())
        return parts_named(folder, form, [(path, _relative(path, folder), _facts(path)) for path in paths])
    except (FileNotFoundError, NotADirectoryError):
        pass
    except PermissionError:
        refuse(folder, "source.path", "a folder that cannot be read", "a readable folder", "give read permission")
    refuse(folder, "source.path", "files that went while they were listed", "a folder at rest", _PATIENCE)


def parts_named(
    where: object, form: Files, files: Sequence[tuple[Path, str, tuple[int | str, ...]]]
) -> tuple[FolderFile, ...]:
    """Make parts of files that are listed already.

    Args:
        where: the folder, for messages.
        form: the format that all of them have.
        files: where each can be read, its path below the folder, and what changes when it is written.
    Raises:
        SourceUnreadable: as `parts_of`.
    """
    if not files:
        remedy = "deliver the files, or correct `path:`; for a period without rows there is nothing to release"
        refuse(where, "files", f"no {form} file", f"at least one file: {', '.join(ENDINGS[form])}", remedy)
    parts = []
    for number, (path, relative, facts) in enumerate(files, start=1):
        label = f"{where}: file {number} by name"
        if not relative.lower().endswith(ENDINGS[form]):
            allowed = f"{form} files only: {', '.join(ENDINGS[form])}"
            refuse(label, "files", "a file of another kind", allowed, "move it away, or put `_` before its name")
        partition, places = _partition(relative, label)
        parts.append(FolderFile(path, label, partition, places, facts))
    _check_alike(parts)
    _check_once(parts, [relative for _, relative, _ in files])
    return tuple(parts)


def _files(folder: Path, root: Path) -> Iterator[Path]:
    """Yield the files below a folder; links lead elsewhere and are refused."""
    for entry in os.scandir(folder):
        if entry.name.startswith(".") or (entry.name.startswith("_") and "=" not in entry.name):
            continue
        if entry.is_symlink() or not (entry.is_file() or entry.is_dir()):
            remedy = "put the file itself there; the same rows could come in twice through a link"
            refuse(root, "files", "a link, or something else than a file", "files and folders", remedy)
        if entry.is_dir():
            yield from _files(Path(entry.path), root)
        else:
            yield Path(entry.path)


def _relative(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix()


def _facts(path: Path) -> tuple[int, ...]:
    seen = path.stat()
    return (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)


def _partition(relative: str, label: str) -> tuple[Partition, tuple[int, ...]]:
    """Read `key=value` out of the folders of a path."""
    above = relative.split("/")[:-1]
    found = [(place - len(above), part.partition("=")) for place, part in enumerate(above) if "=" in part]
    try:
        pairs = tuple(
            (unquote(key, errors="strict"), None if value == HIVE_NULL else unquote(value, errors="strict"))
            for _, (key, _, value) in found
        )
        relative.encode()
    except UnicodeError:
        pairs = (("", None),)
    if any(not key or "\0" in key + (value or "") for key, value in pairs):
        refuse(label, "files", "a partition that cannot be read", "COLUMN=VALUE in UTF-8", "rename the folder")
    return pairs, tuple(place - 1 for place, _ in found)


def _check_alike(parts: Sequence[FolderFile]) -> None:
    """Refuse partitions whose keys differ, or come twice in one path."""
    keys = [name for name, _ in parts[0].partition]
    for part in parts:
        theirs = [name for name, _ in part.partition]
        if theirs != keys or part.places != parts[0].places:
            found = f"the partition columns {', '.join(theirs) or '(none)'}"
            allowed = f"{', '.join(keys) or 'none'}, as in the first file, at the same depth"
            refuse(part.label, "files", found, allowed, "lay all files out alike")
    if len({name.casefold() for name in keys}) < len(keys):
        refuse(parts[0].label, "files", f"the partition columns {', '.join(keys)}", "each once", "rename a folder")


def _check_once(parts: Sequence[FolderFile], names: Sequence[str]) -> None:
    """Refuse two names of one file, and a packed file beside its plain one."""
    seen: dict[tuple[int | str, ...], FolderFile] = {}
    named: dict[str, FolderFile] = {}
    for part, name in zip(parts, names, strict=True):
        twin = named.setdefault(_PACKED.sub("", name), part)
        if twin is not part:
            remedy = "remove one of the two: each row would count twice"
            refuse(part.label, "files", f"the name of {twin.label}, packed otherwise", "each table once", remedy)
        first = seen.setdefault(part.facts[:2], part)
        if first is not part:
            remedy = "remove one of the two: each row would count twice"
            refuse(part.label, "files", f"a second name of {first.label}", "each file under one name", remedy)


def check_different(parts: Sequence[FolderFile]) -> None:
    """Refuse two files of one partition with the same bytes, once unpacked: a file that was delivered twice.

    Only files of one size are read for it; what is packed by zstd does not tell its size.

    Raises:
        GateBroken: there are two.
    """
    unsized = {part.partition for part in parts if part.path.name.lower().endswith(".zst")}
    alike: dict[tuple[object, ...], list[FolderFile]] = {}
    for part in parts:
        size = None if part.partition in unsized else _size(part.path)
        alike.setdefault((part.partition, size), []).append(part)
    for group in (group for group in alike.values() if len(group) > 1):
        seen: dict[bytes, FolderFile] = {}
        for part in group:
            first = seen.setdefault(_digest(part), part)
            if first is not part:
                remedy = "remove one of the two, if it was delivered twice: each row would count twice"
                break_gate(part.label, "files", f"the same bytes as {first.label}", "files that differ", remedy)


def _size(path: Path) -> int:
    """Return the size of a file, unpacked; modulo 2^32, which is all that gzip writes down."""
    try:
        with path.open("rb") as file:
            if not path.name.lower().endswith(".gz"):
                return file.seek(0, os.SEEK_END) % 2**32
            file.seek(-4, os.SEEK_END)
            return int.from_bytes(file.read(4), "little")
    except OSError:
        return -1


def _digest(part: FolderFile) -> bytes:
    """Hash a file, unpacked; one that cannot be unpacked is like no other, and its reading will say so."""
    packed = _PACKED.search(part.path.name.lower())
    digest = hashlib.sha256()
    try:
        with pa.input_stream(str(part.path), compression=_PACKINGS[packed[0]] if packed else None) as file:
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
        return digest.digest()
    except FileNotFoundError:
        pass
    except OSError:
        return str(part.path).encode()
    refuse(part.path.parent, "files", "a file that went while it was read", "a folder at rest", _PATIENCE)


def drift(part: FolderFile, columns: Sequence[str], first: Sequence[str], *, named: bool) -> Finding:
    """Say how the columns of a file differ from those of the first one; names are shown only if they surely are."""
    new = [name for name in columns if name not in first] if named else []
    gone = [name for name in first if name not in columns]
    said = [f"new: {', '.join(new)}"] * bool(new) + [f"missing: {', '.join(gone)}"] * bool(gone and named)
    found = "other columns than in the first file" + (f" ({'; '.join(said)})" if said else "")
    remedy = "deliver all files with the same columns, or read old and new ones as two sources"
    return Finding(part.label, "columns", found, "the same columns in every file", remedy)
