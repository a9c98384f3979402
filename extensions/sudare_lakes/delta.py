"""Delta tables: a version as a source, and versions as commits (`lake_copies`).

A version is the newest checkpoint at or below it, and the commits from there on. Each commit adds and removes whole
files; what a reader would have to know besides (deletion vectors, column mapping and the like) is refused by name.
A commit of ours is a log entry in the protocol's own text. Its `userMetadata` says which version it is of, and it
appears only where none of its number was, so of two writers one wins.

Source: the Delta transaction log protocol, "Reader requirements", of reader version 1, and 3 without features that
change what a file's rows are; writer version 2 without features.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from contracts.canonical import digest
from contracts.contract.contract import Contract
from contracts.release.source import Source
from sudare_lakes.addresses import DeltaAddress
from sudare_lakes.lake_copies import Commit, TableHistory, said_by, to_lake, told
from sudare_lakes.lake_place import LakePlace, TableFolder, lake_place, placed
from sudare_lakes.lake_version import LakeFile, LakeVersion, lake_origin
from tasks.storage.sinks.sink_kinds import SinkKind
from tasks.storage.sinks.version_copy import WholeVersion
from tasks.storage.sources.source import Origin, SourceKind
from tasks.storage.sources.typed_rows import break_gate, refuse

LOG: Final = "_delta_log"
_COMMIT: Final = re.compile(r"([0-9]{20})\.json")
_CHECKPOINT: Final = re.compile(r"([0-9]{20})\.checkpoint(?:\.([0-9]{10})\.([0-9]{10}))?\.parquet")
_HARMLESS: Final = frozenset({"timestampNtz", "vacuumProtocolCheck", "columnMapping", "deletionVectors"})
"""Reader features that change nothing by themselves; the last two are looked at where they are in use."""
_WORDS: Final = {
    "deletionVectors": "deletion vectors",
    "columnMapping": "column mapping",
    "v2Checkpoint": "checkpoints of version 2",
}
_ACTIONS: Final = ("protocol", "metaData", "add", "remove")
_REPAIR: Final = "repair the table, and run again"


def read_version(where: str, place: LakePlace, *, number: int | None, at: datetime | None) -> LakeVersion:
    """Read one version of a table.

    Args:
        where: the table, for messages.
        place: where the table is.
        number: the version; None for the newest.
        at: instead of a number, the instant at which it was the newest.
    Raises:
        SourceUnreadable: no table, no such version, or one that cannot be read without knowing more.
    """
    commits, checkpoints = _listed(where, place)
    meant = _meant(where, place, commits, checkpoints, number, at)
    starts = [each for each in checkpoints if each <= meant]
    start = max(starts, default=-1)
    needed = range(start + 1, meant + 1)
    if any(each not in commits for each in needed):
        _expired(where, meant, commits, checkpoints)
    protocol: Mapping[str, Any] = {}
    about: Mapping[str, Any] = {}
    # By place: a commit may spell a path otherwise than the one before (%20 or a space, absolute or not). A file that
    # was removed so must not come back, or the people in it count twice.
    files: dict[str, Mapping[str, Any]] = {}
    for kind, action in _actions(where, place, checkpoints.get(start, ()), [commits[each] for each in needed]):
        if kind == "protocol":
            protocol = action
        elif kind == "metaData":
            about = action
        elif kind == "add":
            files[_key(where, place, action)] = action
        else:
            key = _key(where, place, action)
            if files.pop(key, None) is None and place.path_of(key) is None:
                _check_elsewhere(where, key, files)
    _check_understood(where, protocol, about, files.values())
    return _version(where, place, meant, about, files.values())


def _key(where: str, place: LakePlace, action: Mapping[str, Any]) -> str:
    """Return by what an action knows its file: its place, or outside of the folder what is written."""
    written = action.get("path")
    if not isinstance(written, str):
        refuse(where, "source.path", "a Delta log that cannot be read", "a whole log", _REPAIR)
    return place.path_of(written) or written


def _check_elsewhere(where: str, removed: str, files: Iterable[str]) -> None:
    """Refuse a file that is removed by a path outside the folder, where one of its name is there: which is meant?"""
    name = Path(unquote(urlsplit(removed).path)).name
    if any(Path(each).name == name for each in files):
        found = "a Delta log that removes a file by a path outside the table's folder"
        remedy = "write the table as it is now to a new table, and name that one"
        refuse(where, "source.path", found, "files that are named below the table's folder", remedy)


def last_commit(where: str, place: LakePlace) -> datetime | None:
    """Return when the newest version was written; None where there is no table."""
    if place.names(LOG) is None:
        return None
    commits, _ = _listed(where, place)
    return _instant_of(place, commits[max(commits)]) if commits else None


def _listed(where: str, place: LakePlace) -> tuple[dict[int, str], dict[int, tuple[str, ...]]]:
    """List commits and whole checkpoints by version, as paths below the table's folder."""
    names = place.names(LOG)
    if names is None:
        found = "a folder without a Delta log" if place.is_there() else "no such folder"
        refuse(where, "source.path", found, f"a folder with {LOG}", "correct `path:`")
    commits: dict[int, str] = {}
    pieces: dict[int, dict[str, list[str]]] = {}
    for each in sorted(names):
        if name := _COMMIT.fullmatch(each):
            commits[int(name[1])] = f"{LOG}/{each}"
        elif name := _CHECKPOINT.fullmatch(each):
            pieces.setdefault(int(name[1]), {}).setdefault(name[3] or "1", []).append(f"{LOG}/{each}")
    whole = {
        version: tuple(paths)
        for version, ways in pieces.items()
        for number, paths in ways.items()
        if len(paths) == int(number)
    }
    if not commits and not whole:
        refuse(where, "source.path", "a Delta log without a version", "at least one commit", "correct `path:`")
    return commits, whole


def _meant(
    where: str,
    place: LakePlace,
    commits: Mapping[int, str],
    checkpoints: Mapping[int, Any],
    number: int | None,
    at: datetime | None,
) -> int:
    """Return the number of the version that is meant."""
    newest = max((*commits, *checkpoints))
    if number is not None and number > newest:
        found, allowed = f"the version {number}", f"a version up to {newest}, the newest"
        refuse(where, "source.path", found, allowed, "correct `?version=`")
    if at is None:
        return newest if number is None else number
    there = [version for version, path in sorted(commits.items()) if _instant_of(place, path) <= at]
    if not there:
        found, allowed = (
            f"the instant {at.isoformat()}",
            "an instant at which a version was there that the log still has",
        )
        refuse(where, "source.path", found, allowed, "name a later instant")
    return max(there)


def _expired(where: str, meant: int, commits: Mapping[int, str], checkpoints: Mapping[int, Any]) -> None:
    first = min((*checkpoints, *([0] if 0 in commits else [])), default=None)
    allowed = "a version that the log still has" + ("" if first is None else f", from {first} on")
    refuse(where, "source.path", f"the version {meant}, which has expired", allowed, "name a later version, or none")


def _instant_of(place: LakePlace, commit: str) -> datetime:
    """Return when a commit was written: by its own word, or by the file's."""
    for action in _lines(place.read(commit)):
        told = action.get("commitInfo", {})
        written = told.get("inCommitTimestamp", told.get("timestamp"))
        if isinstance(written, int):
            return datetime.fromtimestamp(written / 1000, UTC)
    return place.written(commit)


def _actions(
    where: str, place: LakePlace, checkpoint: Iterable[str], commits: Iterable[str]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield what a checkpoint holds, then what each commit does."""
    try:
        for path in checkpoint:
            content = pa.BufferReader(place.read(path))
            there = [name for name in _ACTIONS if name in pq.read_schema(content).names]
            content.seek(0)
            for row in pq.read_table(content, columns=there).to_pylist(maps_as_pydicts="strict"):
                yield from ((kind, row[kind]) for kind in there if row[kind] is not None)
        for path in commits:
            for action in _lines(place.read(path)):
                yield from ((kind, action[kind]) for kind in _ACTIONS if action.get(kind) is not None)
        return
    except (OSError, ValueError, pa.ArrowException):
        pass
    refuse(where, "source.path", "a Delta log that cannot be read", "a whole log", _REPAIR)


def _lines(commit: bytes) -> Iterator[Mapping[str, Any]]:
    for line in commit.decode("utf-8").splitlines():
        action = json.loads(line) if line.strip() else {}
        if not isinstance(action, dict):
            raise ValueError("an action that is no object")
        yield action


def _check_understood(
    where: str, protocol: Mapping[str, Any], about: Mapping[str, Any], files: Iterable[Mapping[str, Any]]
) -> None:
    """Refuse a version whose files are not the rows, or do not name their columns as the table does."""
    version, features = protocol.get("minReaderVersion", 0), set(protocol.get("readerFeatures") or ())
    settings = dict(about.get("configuration") or {})
    used = features - _HARMLESS
    if settings.get("delta.columnMapping.mode", "none") != "none":
        used.add("columnMapping")
    if version > 3 or version < 1:
        used.add(f"reader version {version}")
    if used:
        named = ", ".join(sorted(_WORDS.get(each, each) for each in used))
        remedy = "write the table as it is now to a table without it"
        refuse(where, "source.path", f"a Delta table with {named}", "a table whose files are its rows", remedy)
    if any(each.get("deletionVector") for each in files):
        # Whether a row was deleted is the data's: a gate.
        remedy = "write the table as it is now to a table without them: REORG TABLE ... APPLY (PURGE)"
        break_gate(where, "rows", "a Delta table with deletion vectors", "a table whose files are its rows", remedy)


def _version(
    where: str, place: LakePlace, number: int, about: Mapping[str, Any], files: Iterable[Mapping[str, Any]]
) -> LakeVersion:
    """Put together what was found."""
    try:
        columns = tuple(field["name"] for field in json.loads(about["schemaString"])["fields"])
        keys = tuple(about.get("partitionColumns") or ())
        found = [
            (add["path"], tuple((key, add["partitionValues"].get(key)) for key in keys))
            for add in sorted(files, key=lambda each: each["path"].encode())
        ]
        table = str(about["id"])
        return LakeVersion(
            table, number, columns, tuple(LakeFile(placed(where, place, each), of) for each, of in found)
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        pass
    refuse(where, "source.path", "a Delta log that cannot be read", "a whole log", _REPAIR)


@contextmanager
def delta_origin(source: Source, address: DeltaAddress, contract: Contract) -> Iterator[Origin]:
    """Look at a version of the table.

    Raises:
        SourceUnreadable: there is no such version, or none that can be read; a file of it is gone.
    """
    place = lake_place(address, source.credentials)
    version = read_version(source.name, place, number=address.number, at=address.at)
    yield lake_origin(source, contract, place, version, cleaner="VACUUM")


def last_written(source: Source, address: DeltaAddress) -> datetime | None:
    """Return when the newest version was written."""
    return last_commit(source.name, lake_place(address, source.credentials))


SOURCE: Final = SourceKind(delta_origin, last_written)


_PLAIN: Final = {
    pa.string(): "string",
    pa.large_string(): "string",
    pa.bool_(): "boolean",
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.date32(): "date",
    pa.binary(): "binary",
}


class DeltaTables:
    """Delta tables, read and written by their log alone."""

    def history(self, folder: TableFolder) -> TableHistory:
        """Read the whole log."""
        found, numbers = [], _numbers(folder)
        for place in numbers:
            actions = [json.loads(line) for line in folder.place.read(_entry(place)).decode().splitlines()]
            said = next((each["commitInfo"].get("userMetadata") for each in actions if "commitInfo" in each), None)
            of = told(said)
            if of is not None:
                added = tuple(unquote(each["add"]["path"]) for each in actions if "add" in each)
                found.append(Commit(place, *of, added))
        return TableHistory(max(numbers, default=None), tuple(found))

    def commit(self, folder: TableFolder, version: WholeVersion, name: str, file: Path, seen: TableHistory) -> Commit:
        """Write the log entry of a file."""
        place = 0 if seen.number is None else seen.number + 1
        content = "\n".join(json.dumps(each) for each in _commit_actions(folder, version, name, file, seen)) + "\n"
        folder.put(_entry(place), content.encode())
        return Commit(place, version.number, version.digest, (name,))

    def holds(self, schema: pa.Schema) -> bool:
        """Say whether Delta has a type for each column."""
        return all(_type_of(field.type) is not None for field in schema)


def _entry(place: int) -> str:
    return f"{LOG}/{place:020}.json"


def _numbers(folder: TableFolder) -> list[int]:
    paths = [PurePosixPath(each) for each in folder.names(LOG)]
    return sorted(int(each.stem) for each in paths if each.suffix == ".json" and each.stem.isdecimal())


def _commit_actions(
    folder: TableFolder, version: WholeVersion, name: str, file: Path, seen: TableHistory
) -> Iterator[Mapping[str, Any]]:
    """Yield the actions of a commit that replaces the rows of the version before; its times are hours."""
    hour = folder.hour_ms(name)
    yield {
        "commitInfo": {
            "timestamp": hour,
            "operation": "WRITE",
            "operationParameters": {"mode": "Overwrite", "partitionBy": "[]"},
            "engineInfo": "sudare",
            "userMetadata": json.dumps(said_by(version)),
        }
    }
    if not seen.commits:
        yield {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    fields = [
        {"name": each.name, "type": _type_of(each.type), "nullable": each.nullable, "metadata": {}}
        for each in pq.read_schema(file)
    ]
    yield {
        "metaData": {
            "id": _table_id(version.release, folder.name),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": [],
            "configuration": {},
            "createdTime": hour,
        }
    }
    for gone in seen.commits[-1].added if seen.commits else ():
        yield {"remove": {"path": quote(gone), "deletionTimestamp": hour, "dataChange": True}}
    yield {
        "add": {
            "path": quote(name),
            "partitionValues": {},
            "size": file.stat().st_size,
            "modificationTime": hour,
            "dataChange": True,
            "stats": json.dumps({"numRecords": pq.read_metadata(file).num_rows}),
        }
    }


def _table_id(release: str, table: str) -> str:
    """Return the table's id, in the form of a UUID; the same release and table have the same one."""
    known = digest({"release": release, "table": table})[:32]
    return "-".join((known[:8], known[8:12], known[12:16], known[16:20], known[20:]))


def _type_of(type_: pa.DataType) -> Any:
    """Return a column's type in Delta's words; None where it has none."""
    if pa.types.is_dictionary(type_):
        return _type_of(type_.value_type)
    if pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_):
        element = _type_of(type_.value_type)
        return element and {"type": "array", "elementType": element, "containsNull": True}
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    return _PLAIN.get(type_)


SINK: Final = SinkKind(partial(to_lake, DeltaTables()))
