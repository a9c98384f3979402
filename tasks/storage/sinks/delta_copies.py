"""Versions in Delta tables, in a folder of this machine: a commit for each table of a version, and one that shows it.

    FOLDER/RELEASE/data_age/           a Delta table for each Parquet file of data/ and measurements/
    FOLDER/RELEASE/version/            a Delta table of the version's files: file, sha256, table, content

The Parquet files are the published ones, byte for byte, so their digests are the manifest's. The commit to `version`
comes last: without it the version is not there. Every commit names release, version and the manifest's SHA-256
(`userMetadata`). A commit replaces what the newest state shows; earlier versions stay, by time travel. Nothing that
was written is ever changed: a log entry appears whole, and only where none of its number was.

Source: the Delta transaction log protocol, writer version 2 without features.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import NamedTemporaryFile
from typing import Any, Final
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.parquet as pq

from contracts.canonical import digest
from contracts.errors import Finding
from contracts.release.lake_address import DeltaAddress
from privacy.ledger.draw_files import sync_folder
from tasks.storage.object_store import StoreAway, StoreRefuses
from tasks.storage.sinks.sink_kinds import SinkKind
from tasks.storage.sinks.version_copy import WholeVersion, whole_version
from tasks.storage.version_folders import MANIFEST, PROOF, digests_in

LOG: Final = "_delta_log"
VERSION: Final = "version"
FOLDERS: Final = ("data/", "measurements/")
_HOUR_MS: Final = 3_600_000
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
_FILES: Final = pa.schema(
    [
        pa.field("file", pa.string(), nullable=False),
        pa.field("sha256", pa.string()),
        pa.field("table", pa.string()),
        pa.field("content", pa.binary()),
    ]
)


@dataclass(frozen=True)
class Commit:
    """A commit of a version to one table.

    Args:
        place: its number in the table's log.
        version: the version of the release.
        manifest: SHA-256 of the version's manifest.
        added: the files that it adds, from the table's folder.
    """

    place: int
    version: int
    manifest: str
    added: tuple[str, ...]


def to_delta(
    version: WholeVersion,
    address: DeltaAddress,
    credentials: str | None,
    *,
    newest: bool = False,
    advance: Callable[[float], None] = lambda fraction: None,
) -> str:
    """Write a version; what is there already from an earlier attempt is left as it is.

    Args:
        version: the version.
        address: the folder of the releases' tables.
        credentials: none are needed.
        newest: whether it is the newest; a commit shows the version that it is of, so that they go up.
        advance: called with the fraction done.
    Returns:
        str: the table of the version's files, at its commit.
    Raises:
        StoreRefuses: another version, or a later one, is there.
        StoreAway: the disk refused; running again goes on.
    """
    if address.number is not None or address.at is not None:
        raise _refusal(address, "an address of one version", "delta:///FOLDER", "drop what follows the `?`")
    base = address.folder / version.release
    try:
        tables = [name for name in version.files if name.startswith(FOLDERS) and name.endswith(".parquet")]
        known = {name: table for name in tables if (table := _table_name(name, version)) is not None}
        for number, (name, table) in enumerate(known.items(), start=1):
            _commit(address, base / table, version, version.folder / name)
            advance(number / (len(known) + 1))
        with NamedTemporaryFile(suffix=".parquet") as listed:
            pq.write_table(_files_of(version, known), listed.name, store_schema=False)
            made = _commit(address, base / VERSION, version, Path(listed.name))
    except OSError as error:
        raise StoreAway(
            f"{address}: it cannot be written ({error.strerror or type(error).__name__}). The version is not visible "
            "there: make room or give write access, then run again."
        ) from error
    return f"{address.kind}://{base / VERSION}?version={made.place}"


def read_version(address: DeltaAddress, release: str, number: int | None, to: Path) -> WholeVersion:
    """Copy a version out of its tables into a new folder, which `sudare verify` checks.

    Args:
        address: the folder that versions were published to.
        release: name of the product.
        number: which version; the newest without it.
        to: the folder to make; nothing may be there.
    Returns:
        The version, whole: each file has the digest that the manifest states, and that the commit names.
    Raises:
        StoreRefuses: no such version.
        VersionBroken: a file is missing, or is not the one that was published.
    """
    base = address.folder / release
    commits = [each for each in _commits(base / VERSION) if number in (None, each.version)]
    if not commits:
        raise _refusal(address, "no such version", "a version that was published there", "list the commits there")
    wanted = commits[-1]
    to.mkdir(parents=True)
    for row in pq.read_table(base / VERSION / wanted.added[0]).to_pylist():
        path = to / row["file"]
        if PurePosixPath(row["file"]).is_absolute() or ".." in PurePosixPath(row["file"]).parts:
            continue  # the manifest does not know it, or is refused below
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(row["content"] if row["table"] is None else _bytes_of(base / row["table"], wanted))
    return whole_version(to, release, wanted.version, wanted.manifest)


def _bytes_of(table: Path, wanted: Commit) -> bytes:
    """Return the file that a version's commit added to a table; nothing where it is not there."""
    of = [each for each in _commits(table) if (each.version, each.manifest) == (wanted.version, wanted.manifest)]
    path = table / of[-1].added[0] if of else None
    return path.read_bytes() if path is not None and path.is_file() else b""


def _commit(address: DeltaAddress, folder: Path, version: WholeVersion, file: Path) -> Commit:
    """Commit a version's file to a table, unless it was; the file first, then the log entry."""
    (folder / LOG).mkdir(parents=True, exist_ok=True)
    earlier = _commits(folder)
    for each in earlier:
        if each.version == version.number and each.manifest == version.digest:
            return each
        if each.version >= version.number:
            found = f"{folder.name}, which holds version {each.version}" + (
                " with another content" if each.version == version.number else ""
            )
            raise _refusal(address, found, "versions that go up, each of one content", "name another folder")
    name = f"v{version.number}-{version.digest[:16]}.parquet"
    _put(folder / name, file.read_bytes())
    place = max((_numbers(folder)), default=-1) + 1
    content = "\n".join(json.dumps(each) for each in _actions(folder, version, name, earlier)) + "\n"
    _put(folder / LOG / f"{place:020}.json", content.encode())
    return Commit(place, version.number, version.digest, (name,))


def _actions(
    folder: Path, version: WholeVersion, name: str, earlier: Sequence[Commit]
) -> Iterator[Mapping[str, Any]]:
    """Yield the actions of a commit that replaces the rows of the version before."""
    hour = int((folder / name).stat().st_mtime_ns // 1_000_000 // _HOUR_MS * _HOUR_MS)
    said = {"release": version.release, "version": version.number, "manifest": version.digest}
    yield {
        "commitInfo": {
            "timestamp": hour,
            "operation": "WRITE",
            "operationParameters": {"mode": "Overwrite", "partitionBy": "[]"},
            "engineInfo": "sudare",
            "userMetadata": json.dumps(said),
        }
    }
    if not earlier:
        yield {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    fields = [
        {"name": each.name, "type": _type_of(each.type), "nullable": each.nullable, "metadata": {}}
        for each in pq.read_schema(folder / name)
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
    for gone in earlier[-1].added if earlier else ():
        yield {"remove": {"path": quote(gone), "deletionTimestamp": hour, "dataChange": True}}
    size, rows = (folder / name).stat().st_size, pq.read_metadata(folder / name).num_rows
    stats = json.dumps({"numRecords": rows})
    yield {
        "add": {
            "path": quote(name),
            "partitionValues": {},
            "size": size,
            "modificationTime": hour,
            "dataChange": True,
            "stats": stats,
        }
    }


def _table_id(release: str, table: str) -> str:
    """Return the table's id, in the form of a UUID; the same release and table have the same one."""
    known = digest({"release": release, "table": table})[:32]
    return "-".join((known[:8], known[8:12], known[12:16], known[16:20], known[20:]))


def _numbers(folder: Path) -> list[int]:
    return sorted(int(each.stem) for each in (folder / LOG).glob("*.json") if each.stem.isdecimal())


def _commits(folder: Path) -> list[Commit]:
    """Return the commits of versions to a table, in their order; entries of others are none."""
    found = []
    for place in _numbers(folder):
        actions = [json.loads(line) for line in (folder / LOG / f"{place:020}.json").read_text().splitlines()]
        said = next((each["commitInfo"].get("userMetadata") for each in actions if "commitInfo" in each), None)
        try:
            told = json.loads(said or "")
            added = tuple(unquote(each["add"]["path"]) for each in actions if "add" in each)
            found.append(Commit(place, int(told["version"]), str(told["manifest"]), added))
        except (ValueError, KeyError, TypeError):
            continue
    return found


def _table_name(name: str, version: WholeVersion) -> str | None:
    """Return the name of a file's table; None for a part of a file, and for columns that Delta has no type of."""
    if PurePosixPath(name).name.startswith("part-"):
        return None
    try:
        for field in pq.read_schema(version.folder / name):
            _type_of(field.type)
    except TypeError:
        return None
    return name.removesuffix(".parquet").replace("/", "_")


def _type_of(type_: pa.DataType) -> Any:
    """Return a column's type in Delta's words.

    Raises:
        TypeError: there is none.
    """
    if pa.types.is_dictionary(type_):
        return _type_of(type_.value_type)
    if pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_):
        return {"type": "array", "elementType": _type_of(type_.value_type), "containsNull": True}
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    if type_ not in _PLAIN:
        raise TypeError(f"no type of Delta's for {type_}")
    return _PLAIN[type_]


def _files_of(version: WholeVersion, tables: Mapping[str, str]) -> pa.Table:
    """Return the rows of the table of the version's files; those that are tables of their own are named."""
    stated = digests_in(version.manifest)
    rows = [
        {
            "file": name,
            "sha256": stated.get(name),
            "table": tables.get(name),
            "content": None if name in tables else (version.folder / name).read_bytes(),
        }
        for name in (*version.files, PROOF, MANIFEST)
    ]
    return pa.Table.from_pylist(rows, schema=_FILES)


def _put(path: Path, content: bytes) -> None:
    """Write a file that appears whole and takes no other's place; the same content is found and left.

    Raises:
        FileExistsError: another content is there.
    """
    with NamedTemporaryFile(dir=path.parent, prefix=".", suffix=".partial") as file:
        file.write(content)
        file.flush()
        os.fchmod(file.fileno(), 0o644)
        os.fsync(file.fileno())
        try:
            os.link(file.name, path)
        except FileExistsError:
            if path.read_bytes() != content:
                raise
    sync_folder(path.parent)


def _refusal(address: DeltaAddress, found: str, allowed: str, remedy: str) -> StoreRefuses:
    return StoreRefuses([Finding(str(address), "publish.to", found, allowed, remedy)])


DELTA: Final = SinkKind(to_delta)
