"""One version of a table that keeps its own log, whatever its kind: its files, read by the rules for folders.

What tells that the table changed is its own id and the version's. Whoever writes meanwhile makes another version, so
the one that is read stays what it is; only a file of it that goes or changes stops the run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn
from urllib.parse import quote

from contracts.contract.contract import Contract
from contracts.errors import Finding, GateBroken
from contracts.release.source import Source
from sudare_lakes.lake_place import LakePlace
from tasks.storage.sources.folder import HIVE_NULL, FolderFile, parts_named
from tasks.storage.sources.source import Origin, checked, read_parts
from tasks.storage.sources.typed_rows import Reading, break_gate, refuse
from tasks.storage.workspace.run_folder import FETCHED


@dataclass(frozen=True)
class LakeFile:
    """One file of a version.

    Args:
        path: where it is, below the table's folder.
        partition: the text of each partition column that the file itself does not hold, None for a missing one.
    """

    path: str
    partition: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True)
class LakeVersion:
    """What the log says of one version.

    Args:
        table: the table's own id.
        number: the version's own.
        columns: the names of its columns.
        files: its files, in the order of their paths.
        stored_as: of files that can be read, how all of them call columns that the table calls otherwise, by the
            table's names.
    """

    table: str
    number: int
    columns: tuple[str, ...]
    files: tuple[LakeFile, ...]
    stored_as: Callable[[Sequence[Path]], Mapping[str, str]] = lambda paths: {}


def lake_origin(
    source: Source, contract: Contract, place: LakePlace, version: LakeVersion, *, cleaner: str
) -> Origin:
    """Return the origin that a version is.

    Args:
        source: the source.
        contract: gives the names of the columns.
        place: where the table is.
        version: the version.
        cleaner: what removes files of earlier versions, for the message.
    """

    def marks() -> object:
        facts = [_facts(source.name, place, each.path, cleaner) for each in version.files]
        return [version.table, version.number, facts]

    def reading(folder: Path, advance: Callable[[float], None]) -> Reading:
        parts = _brought(source.name, place, version, folder / FETCHED, cleaner, advance)
        stored_as = version.stored_as([part.path for part in parts])
        found = read_parts(source.name, parts, source, contract, stored_as=stored_as)
        _check_columns(source.name, version, found)
        return checked(found, source, contract)

    return Origin(marks(), marks, reading, fetches=place.fetches)


def _facts(where: str, place: LakePlace, path: str, cleaner: str) -> tuple[int | str, ...]:
    """Return what changes when a file is written; a file that is gone is refused without its name."""
    facts = place.facts(path)
    if facts is None:
        _gone(where, cleaner)
    return facts


def _gone(where: str, cleaner: str) -> NoReturn:
    found, remedy = f"a version whose files are gone ({cleaner})", "name a later version, or none"
    refuse(where, "source.path", found, "a version whose files are all there", remedy)


def _brought(
    where: str, place: LakePlace, version: LakeVersion, folder: Path, cleaner: str, advance: Callable[[float], None]
) -> tuple[FolderFile, ...]:
    """Bring the files into the run's private folder, to paths that say of partitions what the log says."""
    named = []
    for number, file in enumerate(version.files):
        above = [f"{quote(key, safe='')}={_text(value)}" for key, value in file.partition]
        near = "/".join((f"{number:06d}", *above, "part.parquet"))
        named.append((folder / near, near, _facts(where, place, file.path, cleaner)))
    if not named:
        # Whether anybody is left is the data's: a gate, as for one file without rows.
        break_gate(where, "rows", "a version without a file", "at least one row", "there is nothing to release")
    if not place.bring([(file.path, to) for file, (to, _, _) in zip(version.files, named, strict=True)], advance):
        _gone(where, cleaner)
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
